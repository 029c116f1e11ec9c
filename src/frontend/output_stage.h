#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "frontend/frontend.h"
#include "frontend/output_stream.h"
#include "frontend/request_accounting.h"
#include "frontend/stop_matcher.h"
#include "tokenizer/tokenizer.h"

namespace octavo::frontend {

/// The one output thread. What reaches it (steps, new requests, aborts, the engine's death) comes
/// through one queue, so a request is known before its first output, and ends exactly once.
/// Handles each step as a whole: text, stop strings, accounting; then makes the series visible and
/// only then wakes the clients (promise P3).
class OutputStage final : public engine::OutputSink {
 public:
  /// What admission and liveness look at.
  struct Load {
    std::atomic<int64_t> num_unfinished{0};      // samples without an end
    std::atomic<int64_t> num_prefill_tokens{0};  // prompts without a first token
    std::atomic<int64_t> num_held_bytes{0};      // what the unfinished samples carry
    std::atomic<double> busy_since_s{0.0};       // when num_unfinished last left zero
  };
  struct Registration {
    std::shared_ptr<StreamState> stream;
    TextParams text;
    int32_t min_tokens = 0;
    int32_t max_tokens = 0;
    int32_t num_prompt_tokens = 0;
    int64_t num_held_bytes = 0;  // of each sample
    double arrival_wall_s = 0.0;
    std::shared_ptr<const StopPatterns> stop;
  };

  OutputStage(const tokenizer::Tokenizer& tokenizer, Clock& clock, Load& load);
  ~OutputStage() override;

  /// Before the first step. `engine` and `metrics` must outlive `stop`.
  void start(engine::Engine& engine, observability::EngineMetrics& metrics, StatsSink* stats);
  /// Ends every open request with kAbort and joins. Idempotent.
  void stop();

  // engine::OutputSink, engine thread. `publish` waits while 64 steps are queued: an engine that is
  // faster than its output stage is slowed down, between steps.
  void publish(engine::StepOutput output) override;
  void engine_died(const std::string& reason) override;

  // Any thread.
  /// False after `stop`.
  bool add(Registration registration);
  /// Forgets a request that the engine refused: nothing is counted or delivered.
  void remove(std::shared_ptr<StreamState> stream);
  void client_abort(std::shared_ptr<StreamState> stream);
  void abort_all();
  void fail_all(const std::string& reason);
  bool engine_dead() const { return engine_dead_.load(); }

 private:
  struct Sample;
  struct Remove {
    std::shared_ptr<StreamState> stream;
  };
  struct ClientAbort {
    std::shared_ptr<StreamState> stream;
  };
  struct AbortAll {};
  struct FailAll {
    std::string reason;
  };
  struct EngineDied {
    std::string reason;
  };
  using Event = std::variant<engine::StepOutput, Registration, Remove, ClientAbort, AbortAll,
                             FailAll, EngineDied>;

  void run();
  void serve_events();
  void fail();
  void handle(engine::StepOutput& step);
  void handle(Registration& registration);
  void handle(Remove& event);
  void handle(ClientAbort& event);
  void handle(AbortAll&);
  void handle(FailAll& event);
  void handle(EngineDied& event);
  bool apply(Sample& sample, engine::SequenceOutput& output, double timestamp_s);
  void decode(Sample& sample, engine::SequenceOutput& output, Delta& delta);
  void deliver(Sample& sample, Delta&& delta);
  void end_all(engine::FinishReason reason, const std::string& error);
  void erase(std::unordered_map<engine::RequestId, std::unique_ptr<Sample>>::iterator it);
  void leave_prefill(Sample& sample);
  void flush();  // series first, clients afterwards

  const tokenizer::Tokenizer& tokenizer_;
  Clock& clock_;
  Load& load_;
  engine::Engine* engine_ = nullptr;
  StatsSink* stats_ = nullptr;
  std::unique_ptr<RequestAccounting> accounting_;
  std::atomic<bool> engine_dead_{false};
  /// Steps are bounded by num_queued_steps_. The rest is bounded by the requests that exist (two
  /// events each), and those by the engine's queue and by admission; an abort is never refused.
  BoundedQueue<Event> events_;
  std::atomic<int64_t> num_queued_steps_{0};
  std::thread thread_;
  // Output thread only.
  std::deque<Event> batch_;  // taken; the front is being handled
  std::unordered_map<engine::RequestId, std::unique_ptr<Sample>> samples_;
  std::vector<std::shared_ptr<StreamState>> touched_;  // to be woken after publishing
};

}  // namespace octavo::frontend
