#include "kernels/logits/logits.h"

#include "base/check.h"
#include "kernels/logits/logits_params.h"
#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

constexpr auto kLogits = std::to_array<Variant<const LogitsKernels*>>({
    {Isa::kAvx512Core, &avx512_core::kLogits},
    {Isa::kAvx2, &avx2::kLogits},
    {Isa::kGeneric, &generic::kLogits},
});

int64_t size_of(std::span<const float> row) { return static_cast<int64_t>(row.size()); }

}  // namespace

LogitsScan scan_logits(std::span<const float> row) {
  LogitsScan scan;
  scan.is_valid = pick(kLogits)->scan(row.data(), size_of(row), &scan.max, &scan.argmax);
  return scan;
}

double exp_logits(std::span<const float> row, float max, float inverse_temperature,
                  std::span<float> out) {
  CHECK_EQ(row.size(), out.size());
  return pick(kLogits)->exp(out.data(), row.data(), size_of(row), max, inverse_temperature);
}

double sum_exp_logits(std::span<const float> row, float max) {
  return pick(kLogits)->exp(nullptr, row.data(), size_of(row), max, 1.0f);
}

int32_t count_at_least(std::span<const float> row, float threshold) {
  return pick(kLogits)->count_at_least(row.data(), size_of(row), threshold);
}

int64_t ids_at_least(std::span<const float> row, float threshold, std::span<int32_t> ids) {
  return pick(kLogits)->ids_at_least(row.data(), size_of(row), threshold, ids.data(),
                                     static_cast<int64_t>(ids.size()));
}

void block_maxima(std::span<const float> row, std::span<float> out) {
  CHECK_EQ(static_cast<int64_t>(out.size()), (size_of(row) + kLogitsBlock - 1) / kLogitsBlock);
  pick(kLogits)->block_maxima(row.data(), size_of(row), out.data());
}

}  // namespace octavo::kernels
