#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/runner/model_runner.h"

namespace octavo::engine::testing {

/// A runner with several steps in flight: submitted steps wait, and each runs when it is collected,
/// as late as a pipeline may.
class DeferredRunner final : public ModelRunner {
 public:
  DeferredRunner(std::unique_ptr<ModelRunner> inner, int num_inflight_steps)
      : inner_(std::move(inner)), num_inflight_steps_(num_inflight_steps) {}

  int num_inflight_steps() const override { return num_inflight_steps_; }
  Status submit(const StepBatch& batch, std::span<const SequenceConstraint> constraints) override {
    waiting_.push_back({&batch, {constraints.begin(), constraints.end()}});
    CHECK_LE(static_cast<int>(waiting_.size()), num_inflight_steps_);
    most_in_flight = std::max(most_in_flight, static_cast<int>(waiting_.size()));
    return {};
  }
  Status collect(RunnerOutput& output) override {
    CHECK(!waiting_.empty());
    const Waiting step = std::move(waiting_.front());
    waiting_.pop_front();
    OCTAVO_TRY(inner_->submit(*step.batch, step.constraints));
    return inner_->collect(output);
  }

  int most_in_flight = 0;

 private:
  struct Waiting {
    const StepBatch* batch;
    std::vector<SequenceConstraint> constraints;
  };
  std::unique_ptr<ModelRunner> inner_;
  int num_inflight_steps_;
  std::deque<Waiting> waiting_;
};

}  // namespace octavo::engine::testing
