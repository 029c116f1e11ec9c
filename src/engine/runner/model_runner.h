#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "engine/runner/step_batch.h"

namespace octavo::kernels {
class StepProfile;
}

namespace octavo::engine {

/// Restricts the tokens of a sequence that a batch adds. It stays beside the batch, which is plain
/// data that could go to another rank: only the rank that samples needs it.
struct SequenceConstraint {
  RequestId id;
  std::shared_ptr<TokenConstraint> constraint;
};

/// Executes scheduled batches: keeps what a sequence needs between steps (tokens, block table,
/// sampling state), runs the model and samples. Driven by the engine thread.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  /// How many batches may be submitted before the oldest is collected: 1 where the caller's own
  /// threads compute.
  virtual int num_inflight_steps() const { return 1; }

  /// Starts a step. `batch` stays as it is until its `collect`; `constraints` is read at once. An
  /// error is the end of the engine.
  virtual Status submit(const StepBatch& batch,
                        std::span<const SequenceConstraint> constraints) = 0;

  /// Finishes the oldest submitted step and fills `output`, one result per sequence. An error is
  /// the end of the engine; what concerns one sequence goes into its result.
  virtual Status collect(RunnerOutput& output) = 0;

  /// Runs the model on a dummy token that touches only the null block.
  virtual Status warm_up() { return {}; }

  /// Where the time of its steps goes, if it keeps account.
  virtual kernels::StepProfile* step_profile() { return nullptr; }
};

}  // namespace octavo::engine
