#include "checkpoint/tensor.h"

#include <iterator>

#include "base/check.h"

namespace octavo::checkpoint {
namespace {

// In the order of TensorType. Block sizes of ggml-common.h: the f16 scales, other scales, quants.
struct TypeInfo {
  std::string_view name;
  uint64_t block_elements;
  uint64_t block_bytes;
};
constexpr TypeInfo kTypes[] = {
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q8_0", 32, 2 + 32},
    {"Q4_0", 32, 2 + 16},
    {"Q4_1", 32, 4 + 16},
    {"Q5_0", 32, 2 + 4 + 16},
    {"Q5_1", 32, 4 + 4 + 16},
    {"Q4_K", 256, 4 + 12 + 128},
    {"Q5_K", 256, 4 + 12 + 32 + 128},
    {"Q6_K", 256, 2 + 16 + 64 + 128},
    {"I8", 1, 1},
    {"U8", 1, 1},
    {"I32", 1, 4},
    {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},
    {"F8_E8M0", 1, 1},
};
static_assert(std::size(kTypes) == static_cast<size_t>(TensorType::kF8_E8M0) + 1);

const TypeInfo& info_of(TensorType type) {
  const auto index = static_cast<size_t>(type);
  CHECK_LT(index, std::size(kTypes));
  return kTypes[index];
}

}  // namespace

std::string_view name_of(TensorType type) { return info_of(type).name; }

std::optional<uint64_t> size_bytes_of(TensorType type, const std::vector<int64_t>& shape) {
  const TypeInfo& layout = info_of(type);
  const auto innermost = shape.empty() ? uint64_t{1} : static_cast<uint64_t>(shape.back());
  if (innermost % layout.block_elements != 0) return std::nullopt;
  uint64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) {
      return std::nullopt;
    }
  }
  uint64_t size = 0;
  if (__builtin_mul_overflow(count / layout.block_elements, layout.block_bytes, &size)) {
    return std::nullopt;
  }
  return size;
}

}  // namespace octavo::checkpoint
