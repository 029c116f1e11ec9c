#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/config.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "observability/metrics.h"
#include "tokenizer/tokenizer.h"

namespace octavo::frontend {

/// What the text side needs beyond SamplingParams.
struct TextParams {
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  /// The request's output parser (tools, reasoning) needs the special tokens in the text, whatever
  /// the client asked for; what the client is shown is then the parser's business.
  bool parser_sees_special_tokens = false;
  int32_t stream_interval =
      1;                    // deltas come with the first token, then every so many, and the last
  bool final_only = false;  // one delta per sample, when it has finished (no streaming)
  bool ids_only = false;    // tokens are not made text; `stop` has no effect then
};

/// One prompt with its n samples.
struct GenerateRequest {
  std::string request_id;  // as clients and logs see it
  std::vector<engine::TokenId> prompt;
  engine::SamplingParams sampling;
  TextParams text;
  int32_t n = 1;
  double arrival_wall_s = 0.0;
  int64_t priority = 0;
  std::string cache_salt;
};

/// What has become known about one sample since the last look.
struct Delta {
  int32_t index = 0;  // 0 .. n - 1
  std::string text;   // whole characters; stop-string hold-back applied
  std::vector<engine::TokenId> token_ids;
  std::vector<engine::TokenLogprobs> logprobs;
  std::vector<std::optional<engine::TokenLogprobs>> prompt_logprobs;  // with the first delta
  std::optional<engine::FinishReason> finish_reason;
  engine::StopReason stop_reason;
  std::string error;  // with FinishReason::kError
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int32_t num_generated_tokens = 0;  // so far
};

/// The client's end of a request. Created by Frontend::generate; dropping it aborts what is still
/// running. The output thread fills it, one consumer thread drains it.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  /// Everything since the last call, in order; deltas of one sample are merged. Never blocks.
  virtual std::vector<Delta> take() = 0;
  /// True when every sample has its finish reason and all deltas were taken.
  virtual bool finished() const = 0;
  /// Called (on the output thread) whenever something becomes available. Must be quick. Set once,
  /// before the first `take`; called at once if something is there already.
  virtual void on_ready(std::function<void()> callback) = 0;
  /// Blocks until something is available or `timeout` passes: tests and command-line tools.
  virtual bool wait(std::chrono::milliseconds timeout) = 0;
  /// Tells the engine to stop; the stream ends with FinishReason::kAbort. Idempotent.
  virtual void abort() = 0;
};

/// Takes each step's figures for the periodic stats line (observability/stats_log.h). Called on the
/// output thread only.
class StatsSink {
 public:
  virtual ~StatsSink() = default;
  /// `num_prompt_tokens` are computed (not cached) tokens of prefills that finished in this step.
  virtual void record_step(const engine::SchedulerStats& stats, int64_t num_prompt_tokens,
                           int64_t num_generation_tokens) = 0;
  /// Comes several times a second, also without traffic.
  virtual void tick(double monotonic_s) = 0;
};

/// Text in, text out: owns the engine thread and the output stage. `generate` from any thread.
class Frontend {
 public:
  struct Options {
    config::FrontendConfig config;
    std::string model_name;
    config::SchedulerConfig scheduler;  // max_num_queued_reqs / _tokens
    config::CacheConfig cache;
    /// Prompts and parameters of all unfinished samples; beyond it kOverloaded.
    int64_t max_held_bytes = int64_t{1} << 30;
    std::unique_ptr<StatsSink> stats;  // nullptr: no stats log
  };
  virtual ~Frontend() = default;

  /// Queues a request. Errors: kOverloaded (queue and memory limits; 503), kUnavailable (engine
  /// dead or draining), kInvalidArgument (can never fit). After an error no series has moved.
  virtual Result<std::shared_ptr<OutputStream>> generate(GenerateRequest request) = 0;
  /// The same for all requests of one call, which are admitted together or not at all.
  virtual Result<std::vector<std::shared_ptr<OutputStream>>> generate_all(
      std::vector<GenerateRequest> requests) = 0;

  /// A control message to the engine, from any thread. `reply` is called exactly once, on the
  /// engine's thread or, when the engine takes no messages any more, on this one; it must not
  /// block. Kinds without a backend answer kUnsupported, naming themselves.
  virtual void control(engine::ControlRequest::Kind kind, std::string argument,
                       std::function<void(Status)> reply) = 0;

  virtual const tokenizer::Tokenizer& tokenizer() const = 0;
  virtual const engine::EngineInfo& engine_info() const = 0;
  virtual const observability::EngineMetrics& metrics() const = 0;

  virtual bool engine_dead() const = 0;
  /// False when work waits and no step has finished for `kLiveTimeout` (30 s).
  virtual bool live() const = 0;
  /// A real token has come out of the model after load, and nobody is draining.
  virtual bool ready() const = 0;
  virtual int64_t num_unfinished() const = 0;

  /// From now on `generate` answers kUnavailable and `ready` is false.
  virtual void begin_drain() = 0;
  /// Ends every open request with FinishReason::kAbort.
  virtual void abort_all() = 0;
  /// The same with FinishReason::kError and `reason`, now and without the engine: for an engine
  /// that does not get to its aborts.
  virtual void fail_all(const std::string& reason) = 0;
  /// Joins the threads. After it every stream is finished.
  virtual void stop() = 0;
};

/// Makes an engine that publishes into the given sink. The model is loaded inside.
using EngineFactory =
    std::function<Result<std::unique_ptr<engine::Engine>>(engine::OutputSink& sink)>;

/// Creates the engine, warms it up and starts the engine and output threads. `clock` must be the
/// engine's own and outlive the frontend. Errors are those of the factory and of the warm-up.
Result<std::unique_ptr<Frontend>> create_frontend(Frontend::Options options, EngineFactory factory,
                                                  std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                                                  Clock& clock);

}  // namespace octavo::frontend
