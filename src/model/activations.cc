#include "model/activations.h"

#include <algorithm>

namespace octavo::model {
namespace {

// A cache line, so that no two buffers share one.
constexpr size_t kAlignment = 64;

struct Layout {
  size_t hidden, projected, cos_sin, qkv, attention, mlp, end;  // offsets, bytes
};

size_t piece(int64_t num_rows, int64_t num_cols) {
  const size_t bytes = size_t(num_rows) * size_t(num_cols) * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Layout lay_out(const DecoderConfig& config, const StepLimits& limits) {
  const int64_t rows = std::max<int64_t>(limits.num_tokens, 1);
  Layout layout{};
  layout.hidden = 0;
  layout.projected = layout.hidden + piece(rows, config.hidden_size);
  layout.cos_sin = layout.projected + piece(rows, config.hidden_size);
  layout.qkv = layout.cos_sin + piece(rows, config.head_dim);
  layout.attention = layout.qkv + piece(rows, config.qkv_size());
  layout.mlp = layout.qkv;
  layout.end = std::max(layout.attention + piece(rows, config.q_size()),
                        layout.mlp + piece(rows, config.intermediate_size));
  return layout;
}

}  // namespace

size_t Activations::size_bytes(const DecoderConfig& config, const StepLimits& limits) {
  return lay_out(config, limits).end;
}

Result<Activations> Activations::create(const DecoderConfig& config, const StepLimits& limits) {
  const Layout layout = lay_out(config, limits);
  Activations result;
  OCTAVO_TRY(result.buffer_, device::Buffer::create(layout.end, /*huge_pages=*/true));
  const auto at = [&](size_t offset) {
    return reinterpret_cast<float*>(result.buffer_.data() + offset);
  };
  result.hidden = at(layout.hidden);
  result.projected = at(layout.projected);
  result.cos_sin = at(layout.cos_sin);
  result.qkv = at(layout.qkv);
  result.attention = at(layout.attention);
  result.mlp = result.buffer_.data() + layout.mlp;
  return result;
}

}  // namespace octavo::model
