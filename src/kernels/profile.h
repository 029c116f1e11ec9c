#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/roofs.h"
#include "kernels/attention/attention.h"
#include "kernels/context.h"
#include "kernels/linear/linear.h"

namespace octavo::kernels {

/// What a step spends its time on. Order: as they run.
enum class Op : uint8_t {
  kEmbedding,
  kQkvProj,
  kRope,
  kKvWrite,
  kAttention,
  kOProj,
  kGateUpProj,
  kActivation,
  kDownProj,
  kLmHead,
  kSampling,
};
inline constexpr int kNumOps = 11;
std::string_view name_of(Op op);

/// The least that an op must do. `unit` says which arithmetic roof `ops` is held against.
struct OpWork {
  enum class Unit : uint8_t { kF32, kBf16, kInt8 };
  double bytes = 0;  // moved at least: weights, KV
  double ops = 0;    // multiplications and additions
  Unit unit = Unit::kF32;
};

/// Of a product with `num_tokens` rows.
OpWork work_of(const PackedMatrix& weight, int64_t num_tokens);

/// Of attention over the cache: each sequence's keys and values once, two products a visible pair.
OpWork work_of(const KvLayer& layer, const AttentionBatch& batch, const AttentionParams& params);

/// Where the time of the steps goes (`OCTAVO_PROFILE=1`): wall time of each op on the calling
/// thread, prefill apart from decode. One writer, the engine's thread.
class StepProfile {
 public:
  explicit StepProfile(const device::Roofs& roofs) : roofs_(roofs) {}

  /// A step with `num_tokens` tokens of `num_seqs` sequences: decode when these are equal.
  void begin_step(int64_t num_tokens, int64_t num_seqs);
  void end_step();
  void add(Op op, double seconds, const OpWork& work);

  /// A table a phase: share of the step, time, rates, and the share of the roof reached. The roof
  /// of an op is the longer of its bytes at the read bandwidth and its arithmetic at its unit's
  /// rate. Phases without a step are left out.
  std::vector<std::string> report() const;

  struct Total {
    double seconds = 0;
    double least_seconds = 0;    // at the roof
    double reading_seconds = 0;  // of its bytes alone, at the read bandwidth
    OpWork work;                 // the unit is the last call's
  };
  struct Phase {
    int64_t num_steps = 0;
    int64_t num_tokens = 0;
    double seconds = 0;
    std::array<Total, kNumOps> ops;
  };

  // For a reader on another thread: only while no step runs.
  const device::Roofs& roofs() const { return roofs_; }
  const Phase& prefill() const { return prefill_; }
  const Phase& decode() const { return decode_; }
  /// Mean seconds between two steps of continuous work; 0 when there were none.
  double gap_seconds() const {
    return num_gaps_ > 0 ? gap_seconds_ / static_cast<double>(num_gaps_) : 0;
  }
  /// Forgets the steps, not the roofs.
  void clear();

 private:
  void report_phase(const Phase& phase, std::string_view name, std::vector<std::string>& out) const;
  double least_seconds(const OpWork& work) const;

  device::Roofs roofs_;
  Phase prefill_, decode_;
  Phase* current_ = &decode_;
  std::chrono::steady_clock::time_point step_start_, step_end_;
  int64_t num_gaps_ = 0;  // between two steps of continuous work
  double gap_seconds_ = 0;
};

/// Times an op from here to the end of the scope; nothing when no profile is kept.
class OpTimer {
 public:
  template <class Work>
  OpTimer(const KernelContext& ctx, Op op, Work work) : profile_(ctx.profile), op_(op) {
    if (profile_ == nullptr) return;
    work_ = work();
    start_ = std::chrono::steady_clock::now();
  }
  OpTimer(const KernelContext& ctx, Op op) : OpTimer(ctx, op, [] { return OpWork{}; }) {}
  ~OpTimer() {
    if (profile_ == nullptr) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    profile_->add(op_, passed.count(), work_);
  }
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

 private:
  StepProfile* profile_;
  Op op_;
  OpWork work_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace octavo::kernels
