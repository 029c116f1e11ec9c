#include "model/weights/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/linear/convert.h"

namespace octavo::model {
namespace {

using kernels::WeightFormat;

constexpr int64_t kBlock = 32;

template <class T>
std::byte* put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

/// The half nearest to `value`, and what it stands for.
struct Half {
  uint16_t bits;
  float value;
  explicit Half(float x) : bits(kernels::f16_from_float(x)), value(kernels::float_from_f16(bits)) {}
};

int round_to(float x, int least, int most) {
  return std::clamp(int(std::nearbyint(x)), least, most);
}

/// Q8_0: f16 d, 32 s8. False when the block cannot be had.
bool quantise_q8_0(std::byte*& out, const float* x) {
  float largest = 0.0f;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const Half d(largest / 127.0f);
  out = put(out, d.bits);
  const float inverse = d.value > 0.0f ? 1.0f / d.value : 0.0f;
  for (int i = 0; i < kBlock; ++i) out = put(out, int8_t(round_to(x[i] * inverse, -127, 127)));
  return std::isfinite(d.value) && std::isfinite(inverse);
}

/// Q4_1: f16 d, f16 least value, 32 nibbles.
bool quantise_q4_1(std::byte*& out, const float* x) {
  const auto [least, most] = std::minmax_element(x, x + kBlock);
  const Half m(*least);
  const Half d((*most - *least) / 15.0f);
  out = put(put(out, d.bits), m.bits);
  const float inverse = d.value > 0.0f ? 1.0f / d.value : 0.0f;
  const auto q = [&](int i) { return round_to((x[i] - m.value) * inverse, 0, 15); };
  for (int i = 0; i < kBlock / 2; ++i) out = put(out, uint8_t(q(i) | q(i + kBlock / 2) << 4));
  return std::isfinite(d.value) && std::isfinite(m.value) && std::isfinite(inverse);
}

/// F8G: f32 d, codes; d is the row's.
bool quantise_row_f8(std::byte* out, const std::vector<float>& row, int64_t group) {
  float largest = 0.0f;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float d = largest / 448.0f;
  const bool is_zero = d < 1e-30f;  // 1 / d would leave the floats
  const float inverse = is_zero ? 0.0f : 1.0f / d;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i % size_t(group) == 0) out = put(out, is_zero ? 0.0f : d);
    out = put(out, e4m3_from_float(row[i] * inverse));
  }
  return std::isfinite(d);
}

void widen_row(std::vector<float>& row, const SourceTensor& tensor, int64_t index) {
  const auto num_cols = int64_t(row.size());
  const std::byte* from = tensor.data + size_t(index) * kernels::row_bytes(tensor.format, num_cols);
  for (int64_t k = 0; k < num_cols; ++k) {
    row[size_t(k)] = kernels::load_element(tensor.format, from, k);
  }
}

bool quantise_row(std::byte* out, const std::vector<float>& row, WeightFormat format) {
  if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) return false;
  if (format >= WeightFormat::kF8G32) {
    return quantise_row_f8(out, row, kernels::block_elements(format));
  }
  bool ok = true;
  for (size_t k = 0; k < row.size(); k += size_t(kBlock)) {
    ok &= format == WeightFormat::kQ8_0 ? quantise_q8_0(out, &row[k]) : quantise_q4_1(out, &row[k]);
  }
  return ok;
}

}  // namespace

int64_t group_of(int64_t size) {
  for (const int64_t group : {128, 64, 32}) {
    if (size > 0 && size % group == 0) return group;
  }
  return 0;
}

uint8_t e4m3_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint8_t(bits >> 24 & 0x80);
  const float magnitude = std::min(std::abs(value), 448.0f);
  if (magnitude < 0x1p-6f) return uint8_t(sign | int(std::nearbyint(magnitude * 0x1p9f)));
  // Twenty bits of the mantissa go, ties to even; a carry raises the exponent, as it should.
  const uint32_t m = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (m + 0x7ffff + (m >> 20 & 1)) >> 20;
  return uint8_t(sign | (rounded - ((127 - 7) << 3)));
}

Result<SourceTensor> quantise(const SourceTensor& tensor, int64_t num_rows, int64_t num_cols,
                              WeightFormat format, const std::string& module,
                              device::ThreadPool& pool) {
  const size_t row_bytes = kernels::row_bytes(format, num_cols);
  SourceTensor result;
  result.format = format;
  OCTAVO_TRY(result.owned, device::Buffer::create(size_t(num_rows) * row_bytes, true));
  result.data = result.owned.data();
  std::byte* const out = result.owned.data();
  std::atomic<bool> ok = true;
  pool.parallel_for(num_rows, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(num_cols));
    for (int64_t i = begin; i < end; ++i) {
      widen_row(row, tensor, i);
      if (!quantise_row(out + size_t(i) * row_bytes, row, format)) ok = false;
    }
  });
  if (ok) return result;
  return Error{Code::kInvalidArgument,
               fmt::format("{} holds a value that is not finite or too large to be packed as {}",
                           module, kernels::name_of(format))};
}

}  // namespace octavo::model
