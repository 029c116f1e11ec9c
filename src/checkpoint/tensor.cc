#include "checkpoint/tensor.h"

#include "base/check.h"

namespace octavo::checkpoint {
namespace {

// Block sizes of ggml-common.h: one or two f16 scales, then 32 values.
struct Layout {
  uint64_t block_elements;
  uint64_t block_bytes;
};

Layout layout_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return {1, 4};
    case TensorType::kF16:
    case TensorType::kBF16:
      return {1, 2};
    case TensorType::kQ8_0:
      return {32, 2 + 32};
    case TensorType::kQ4_0:
      return {32, 2 + 16};
    case TensorType::kQ4_1:
      return {32, 4 + 16};
  }
  check_failed(__FILE__, __LINE__, "TensorType is one of its values", "");
}

}  // namespace

std::string_view name_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kF16:
      return "F16";
    case TensorType::kBF16:
      return "BF16";
    case TensorType::kQ8_0:
      return "Q8_0";
    case TensorType::kQ4_0:
      return "Q4_0";
    case TensorType::kQ4_1:
      return "Q4_1";
  }
  check_failed(__FILE__, __LINE__, "TensorType is one of its values", "");
}

std::optional<uint64_t> size_bytes_of(TensorType type, const std::vector<int64_t>& shape) {
  const Layout layout = layout_of(type);
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
