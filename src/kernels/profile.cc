#include "kernels/profile.h"

#include <algorithm>
#include <cstdio>

namespace octavo::kernels {
namespace {

template <class... A>
std::string format(const char* pattern, A... values) {
  char line[256];
  std::snprintf(line, sizeof line, pattern, values...);
  return line;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string_view name_of(Op op) {
  constexpr std::string_view kNames[kNumOps] = {
      "embedding",    "qkv_proj",   "rope",      "kv_write", "attention", "o_proj",
      "gate_up_proj", "activation", "down_proj", "lm_head",  "sampling"};
  return kNames[static_cast<size_t>(op)];
}

OpWork work_of(const PackedMatrix& weight, int64_t num_tokens) {
  OpWork work;
  work.bytes = static_cast<double>(weight.size_bytes());
  work.ops = 2.0 * static_cast<double>(weight.num_rows()) * static_cast<double>(weight.num_cols()) *
             static_cast<double>(num_tokens);
  const bool native = weight.arithmetic() == Arithmetic::kNative;
  if (native && weight.format() == WeightFormat::kBF16) work.unit = OpWork::Unit::kBf16;
  const bool is_int8 =
      weight.format() >= WeightFormat::kQ8_0 && weight.format() < WeightFormat::kF8G32;
  if (native && is_int8) work.unit = OpWork::Unit::kInt8;
  return work;
}

OpWork work_of(const KvLayer& layer, const AttentionBatch& batch, const AttentionParams& params) {
  OpWork work;
  const double token_bytes =
      static_cast<double>(kv_page_bytes(layer.dtype, layer.num_kv_heads, layer.head_dim)) /
      kPageTokens;
  const auto window = static_cast<double>(params.sliding_window);
  double pairs = 0;
  for (int64_t s = 0; s < batch.num_seqs; ++s) {
    const auto keys = static_cast<double>(batch.seq_lens[s]);
    const auto queries =
        static_cast<double>(batch.query_start_loc[s + 1] - batch.query_start_loc[s]);
    const double mean_keys = keys - (queries - 1) / 2;
    pairs += queries * (window > 0 ? std::min(window, mean_keys) : mean_keys);
    work.bytes += token_bytes * (window > 0 ? std::min(keys, window + queries) : keys);
  }
  work.ops = 4.0 * pairs * static_cast<double>(params.num_heads * layer.head_dim);
  const bool is_bf16 = layer.dtype == device::DType::kBF16 || device::is_fp8(layer.dtype);
  work.unit = is_bf16 ? OpWork::Unit::kBf16 : OpWork::Unit::kF32;
  return work;
}

void StepProfile::begin_step(int64_t num_tokens, int64_t num_seqs) {
  current_ = num_tokens == num_seqs ? &decode_ : &prefill_;
  ++current_->num_steps;
  current_->num_tokens += num_tokens;
  step_start_ = std::chrono::steady_clock::now();
  // Longer means that there was no work.
  constexpr std::chrono::duration<double> kLongestGap{2e-3};
  const std::chrono::duration<double> gap = step_start_ - step_end_;
  if (gap < kLongestGap) {
    ++num_gaps_;
    gap_seconds_ += gap.count();
  }
}

void StepProfile::end_step() {
  step_end_ = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = step_end_ - step_start_;
  current_->seconds += passed.count();
}

void StepProfile::clear() {
  prefill_ = {};
  decode_ = {};
  num_gaps_ = 0;
  gap_seconds_ = 0;
}

double StepProfile::least_seconds(const OpWork& work) const {
  // Where FMAs on widened values are faster than the bf16 dot, they are the roof.
  const double bf16 = std::max(roofs_.bf16_gflop_s, roofs_.f32_gflop_s);
  const double rate = work.unit == OpWork::Unit::kInt8 && roofs_.int8_gop_s > 0 ? roofs_.int8_gop_s
                      : work.unit == OpWork::Unit::kF32                         ? roofs_.f32_gflop_s
                                                                                : bf16;
  const double reading = roofs_.read_gb_s > 0 ? work.bytes / 1e9 / roofs_.read_gb_s : 0;
  const double arithmetic = rate > 0 ? work.ops / 1e9 / rate : 0;
  return std::max(reading, arithmetic);
}

void StepProfile::add(Op op, double seconds, const OpWork& work) {
  Total& total = current_->ops[static_cast<size_t>(op)];
  total.seconds += seconds;
  total.least_seconds += least_seconds(work);
  if (roofs_.read_gb_s > 0) total.reading_seconds += work.bytes / 1e9 / roofs_.read_gb_s;
  total.work.bytes += work.bytes;
  total.work.ops += work.ops;
  total.work.unit = work.unit;
}

std::vector<std::string> StepProfile::report() const {
  std::vector<std::string> lines;
  lines.push_back(
      format("Step profile; roofs: read %.1f GB/s, f32 %.0f GFLOP/s, bf16 dot %.0f "
             "GFLOP/s, int8 %.0f GOP/s",
             roofs_.read_gb_s, roofs_.f32_gflop_s, roofs_.bf16_gflop_s, roofs_.int8_gop_s));
  report_phase(prefill_, "prefill", lines);
  report_phase(decode_, "decode", lines);
  if (num_gaps_ > 0) {
    lines.push_back(format("between steps (schedule, publish): %.1f us",
                           gap_seconds_ * 1e6 / static_cast<double>(num_gaps_)));
  }
  return lines;
}

void StepProfile::report_phase(const Phase& phase, std::string_view name,
                               std::vector<std::string>& out) const {
  if (phase.num_steps == 0) return;
  const auto steps = static_cast<double>(phase.num_steps);
  out.push_back(format("%s: %lld steps, %.1f tokens and %.3f ms a step, %.0f tokens/s",
                       std::string(name).c_str(), static_cast<long long>(phase.num_steps),
                       static_cast<double>(phase.num_tokens) / steps, phase.seconds * 1e3 / steps,
                       static_cast<double>(phase.num_tokens) / phase.seconds));
  double known = 0;
  double least = 0;
  for (int i = 0; i < kNumOps; ++i) {
    const Total& total = phase.ops[static_cast<size_t>(i)];
    known += total.seconds;
    least += total.least_seconds;
    if (total.seconds <= 0) continue;
    out.push_back(format(
        "  %-12s %5.1f %%  %9.1f us a step  %6.1f GB/s  %7.1f GOP/s  %3.0f %% of "
        "the roof",
        std::string(name_of(static_cast<Op>(i))).c_str(), percent(total.seconds, phase.seconds),
        total.seconds * 1e6 / steps, total.work.bytes / 1e9 / total.seconds,
        total.work.ops / 1e9 / total.seconds, percent(total.least_seconds, total.seconds)));
  }
  out.push_back(format("  %-12s %5.1f %%  %9.1f us a step", "rest",
                       percent(phase.seconds - known, phase.seconds),
                       (phase.seconds - known) * 1e6 / steps));
  out.push_back(
      format("  %-12s %3.0f %% of the roof", "whole step", percent(least, phase.seconds)));
}

}  // namespace octavo::kernels
