#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "engine/engine.h"
#include "engine/fault.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/kv_cache/prompt_hasher.h"
#include "engine/runner/model_runner.h"
#include "engine/scheduler/scheduler.h"

namespace octavo::engine {

/// The engine: messages in, steps, outputs out. See engine.h for who may call what.
class EngineCore final : public Engine {
 public:
  EngineCore(const config::EngineConfig& config, EngineInfo info,
             std::unique_ptr<ModelRunner> runner, Clock& clock, OutputSink& sink);
  /// Answers controls that were not reached.
  ~EngineCore() override;

  const EngineInfo& info() const override { return info_; }
  Status submit(EngineMessage message) override;
  Result<bool> step() override;
  void wait_for_message(std::chrono::milliseconds timeout) override;
  void interrupt() override;
  Status warm_up() override;
  bool dead() const override { return dead_.load(); }
  int64_t num_unfinished() const override { return num_unfinished_.load(); }
  int64_t num_steps_finished() const override { return num_steps_finished_.load(); }
  double last_step_finished_s() const override { return last_step_finished_s_.load(); }
  kernels::StepProfile* step_profile() override { return runner_->step_profile(); }

  /// For property tests and fault injection; the driver's thread.
  Scheduler& scheduler() { return scheduler_; }
  KvCache& kv_cache() { return kv_cache_; }

 private:
  /// Wakes the driver and says nothing.
  struct Interrupt {};
  struct Message {
    std::variant<EngineMessage, Interrupt> content;
    double queued_s = 0.0;
  };
  Result<bool> run_step();
  /// True if a step was submitted.
  Result<bool> submit_step();
  /// Finishes the oldest step in flight; true if it ran anything.
  Result<bool> collect_step();
  Status check_request(const AddRequest& request) const;
  Status enqueue(EngineMessage message);
  /// True if anything was applied.
  bool apply_messages();
  void apply(AddRequest& request, double queued_s);
  void apply(const AbortRequest& request);
  void apply(ControlRequest& request);
  void apply_late_aborts();
  bool expire_deadlines();
  void end_with_output(RequestId id, FinishReason reason, std::string error);
  void pause(ControlRequest& request);
  Status reset_prefix_cache(bool preempt_running);
  void reply_to_drained();
  void publish();
  Error die(const std::string& reason);
  void refuse_pending();
  uint64_t seed_of(const AddRequest& request) const;
  bool can_progress() const;

  EngineInfo info_;
  Clock& clock_;
  OutputSink& sink_;
  std::unique_ptr<ModelRunner> runner_;
  BlockHasher hasher_;
  PromptHasher prompt_hasher_;  // on the threads of `submit`
  KvCache kv_cache_;
  SchedulerOptions scheduler_options_;
  Scheduler scheduler_;
  FaultHook fault_;
  uint64_t entropy_;  // of unseeded requests
  int64_t max_queued_prompt_bytes_;

  BoundedQueue<Message> queue_;
  std::deque<Message> pending_;  // taken from the queue, not applied yet
  std::vector<std::function<void(Status)>> drain_replies_;
  /// As many as may be in flight, used in turn; `schedule` fills the next, `collect` empties the
  /// oldest.
  std::vector<StepBatch> batches_;
  size_t oldest_batch_ = 0;
  size_t num_inflight_ = 0;
  int32_t num_collected_tokens_ = 0;             // since the last publish
  std::vector<SequenceConstraint> constraints_;  // of the sequences that a batch adds
  RunnerOutput runner_output_;
  std::vector<SequenceOutput> outputs_;
  int64_t num_published_ = 0;

  std::atomic<bool> dead_ = false;
  std::atomic<int64_t> num_unfinished_ = 0;
  std::atomic<int64_t> num_steps_finished_ = 0;
  std::atomic<double> last_step_finished_s_ = 0.0;
  std::atomic<int64_t> message_prompt_bytes_ = 0;  // in messages not applied yet
  std::atomic<int64_t> waiting_prompt_bytes_ = 0;  // of sequences never admitted
};

}  // namespace octavo::engine
