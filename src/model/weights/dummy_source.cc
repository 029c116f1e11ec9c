#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "model/weights/manifest.h"
#include "model/weights/weight_source.h"

namespace octavo::model {
namespace {

constexpr float kStandardDeviation = 0.02f;

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // to nearest, ties to even
}

/// FNV-1a: a tensor's values must not depend on the order in which tensors are made.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

class DummySource final : public WeightSource {
 public:
  DummySource(uint64_t seed, kernels::WeightFormat format, device::ThreadPool& pool)
      : seed_(seed), format_(format), pool_(pool) {}

  Result<SourceTensor> take(const std::string& name, std::span<const int64_t> shape,
                            Fill fill) override {
    const int64_t num_cols = shape.back();
    const int64_t num_rows = shape.size() == 1 ? 1 : shape.front();
    const size_t row_bytes = kernels::row_bytes(format_, num_cols);
    SourceTensor tensor;
    tensor.format = format_;
    OCTAVO_TRY(tensor.owned, device::Buffer::create(size_t(num_rows) * row_bytes, true));
    tensor.data = tensor.owned.data();
    const uint64_t tensor_seed = seed_ ^ hash_name(name);
    std::byte* data = tensor.owned.data();
    pool_.parallel_for(num_rows, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        SplitMix64 random(tensor_seed + uint64_t(row) * 0x9E3779B97F4A7C15);
        fill_row(data + size_t(row) * row_bytes, num_cols, fill, random);
      }
    });
    manifest_.add(name, kernels::name_of(format_), shape,
                  {tensor.data, size_t(num_rows) * row_bytes});
    return tensor;
  }

  Status check_all_taken(int64_t, bool) override { return {}; }

  std::string hash() const override {
    Manifest manifest = manifest_;
    manifest.add(fmt::format("dummy seed {}", seed_), "", {}, {});
    return manifest.hash();
  }

 private:
  void fill_row(std::byte* row, int64_t num_cols, Fill fill, SplitMix64& random) const {
    const float width = kStandardDeviation * std::sqrt(12.0f);  // of a uniform distribution
    for (int64_t col = 0; col < num_cols; ++col) {
      const float value = fill == Fill::kOnes ? 1.0f : (random.uniform() - 0.5f) * width;
      if (format_ == kernels::WeightFormat::kF32) {
        reinterpret_cast<float*>(row)[col] = value;
      } else {
        reinterpret_cast<uint16_t*>(row)[col] = to_bf16(value);
      }
    }
  }

  uint64_t seed_;
  kernels::WeightFormat format_;
  device::ThreadPool& pool_;
  Manifest manifest_;
};

}  // namespace

std::unique_ptr<WeightSource> make_dummy_source(uint64_t seed, kernels::WeightFormat format,
                                                device::ThreadPool& pool) {
  return std::make_unique<DummySource>(seed, format, pool);
}

}  // namespace octavo::model
