#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/config.h"
#include "device/thread_plan.h"
#include "engine/message.h"

namespace octavo::model {
class Model;
struct ModelInfo;
}  // namespace octavo::model

namespace octavo::kernels {
class StepProfile;
}

namespace octavo::engine {

class ModelRunner;  // engine/runner/model_runner.h: scheduled batch -> tokens

/// The memory plan and resolved limits, computed before anything is taken (promise P4).
struct EngineInfo {
  Task task = Task::kGenerate;  // what the model is for
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t block_size = 0;
  int64_t num_blocks = 0;  // the null block included
  size_t kv_cache_bytes = 0;
  size_t weight_bytes = 0;
  size_t activation_bytes = 0;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::string prefix_caching_hash_algo;
  std::string architecture;
  std::string dtype;
  std::string weight_format;
  std::string quantization;  // empty: none
  std::string kv_cache_dtype;
  int64_t vocab_size = 0;
  /// floor(x * max_model_len) with x = num_blocks / ceil(max_model_len / block_size).
  int64_t kv_cache_size_tokens = 0;
  double kv_cache_max_concurrency = 0.0;
};

/// A state machine without threads: `step()` takes messages, schedules, runs the model, samples,
/// publishes. EngineThread drives it in the server; tests and tools drive it directly, on their own
/// clock. `submit` is safe from any thread; everything else belongs to the driver.
class Engine {
 public:
  /// Whether options can be obeyed at all; before weights are loaded. kInvalidArgument names the
  /// flag. `create` checks again, with the model's own numbers.
  static Status check_config(const config::EngineConfig& config);
  /// Threads of the kernels and their CPUs, from `--num-threads` and the two variables of
  /// config::EngineConfig.
  static Result<device::ThreadPlan> thread_plan(const config::EngineConfig& config);
  /// Loads nothing: the model comes loaded. Plans memory, allocates the KV pool, logs the size
  /// line. Errors: the plan does not fit (in vLLM's phrases).
  static Result<std::unique_ptr<Engine>> create(const config::EngineConfig& config,
                                                std::unique_ptr<model::Model> model, Clock& clock,
                                                OutputSink& sink);
  /// With any runner (tests, simulator): `info` gives the limits.
  static std::unique_ptr<Engine> create_with_runner(const config::EngineConfig& config,
                                                    EngineInfo info,
                                                    std::unique_ptr<ModelRunner> runner,
                                                    Clock& clock, OutputSink& sink);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;

  /// Any thread. kOverloaded when the queue of messages is full (never for an AbortRequest);
  /// kUnavailable when the engine is dead. Accepted means: an output with a finish reason will
  /// come.
  virtual Status submit(EngineMessage message) = 0;

  /// One step. False when there was nothing to do (no message, and no request that could run). An
  /// error means that the engine is dead: `engine_died` has been published.
  virtual Result<bool> step() = 0;

  /// Blocks until a message arrives, `interrupt` is called or `timeout` passes.
  virtual void wait_for_message(std::chrono::milliseconds timeout) = 0;
  /// Any thread: ends the current or next wait early.
  virtual void interrupt() = 0;

  /// Runs the model once on a dummy token, so that `/ready` is honest. Before the first step.
  virtual Status warm_up() = 0;

  /// Any thread.
  virtual bool dead() const = 0;
  virtual int64_t num_unfinished() const = 0;  // waiting + running, as of the last step
  virtual int64_t num_steps_finished() const = 0;
  virtual double last_step_finished_s() const = 0;  // monotonic; for /live

  /// Where the time of the steps goes (`EngineConfig::profile`), or nullptr. Belongs to the driver;
  /// others may use it only while no request is unfinished.
  virtual kernels::StepProfile* step_profile() { return nullptr; }
};

/// Drives an engine on its own thread until told to stop.
class EngineThread {
 public:
  explicit EngineThread(Engine& engine);
  ~EngineThread();  // stops at once
  void start();
  /// Ends the loop after the current step and joins.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octavo::engine
