#pragma once

#include "base/result.h"
#include "engine/runner/step_batch.h"

namespace octavo::engine {

/// Executes scheduled batches: keeps what a sequence needs between steps (tokens, block table,
/// sampling state), runs the model and samples. Driven by the engine thread.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  /// Fills `output`, one result per sequence. An error is the end of the engine; what concerns one
  /// sequence goes into its result.
  virtual Status execute(const StepBatch& batch, RunnerOutput& output) = 0;

  /// Runs the model on a dummy token that touches only the null block.
  virtual Status warm_up() { return {}; }
};

}  // namespace octavo::engine
