#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/step_times.h"
#include "config/command_line.h"
#include "config/config.h"

namespace octavo::bench {

/// A prompt and how many tokens to make of it; no end of sequence ends it sooner.
struct OfflineRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  bool ids_only = false;  // its tokens are not made text
};

struct OfflineRun {
  double seconds = 0;  // from before the first request is queued to the end of the last
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;
};

/// The engine in this process, without HTTP: what `bench latency` and `bench throughput` measure.
class OfflineEngine {
 public:
  virtual ~OfflineEngine() = default;
  virtual const std::string& model() const = 0;  // path, also of the default model
  virtual int64_t max_model_len() const = 0;
  virtual int64_t vocab_size() const = 0;
  /// All requests at once, `n` samples each, temperature 1; returns when all have ended. Errors:
  /// a request that cannot be queued or ends with an error.
  virtual Result<OfflineRun> generate(std::span<const OfflineRequest> requests, int32_t n) = 0;
  /// Where the time of the steps since the last call went; nullopt when no account is kept
  /// (`EngineConfig::profile`). Not during `generate`.
  virtual std::optional<StepTimes> take_step_times() { return std::nullopt; }
};

/// Loads the model of a configuration and starts an engine.
using OfflineEngineOpener =
    std::function<Result<std::unique_ptr<OfflineEngine>>(config::Config config)>;

/// The files that a start with this configuration reads: weights, config, tokenizer.
using ModelFileLister = std::function<Result<std::vector<std::string>>(config::Config config)>;

/// Measures what this machine can do, with the threads of a configuration.
using MachineMeasurer = std::function<Result<Machine>(const config::Config& config)>;

/// The words of a command whose options are its own and all of `octavo serve`'s.
struct SplitWords {
  std::vector<std::string> own;
  std::vector<std::string> engine;
};
SplitWords split_words(std::span<const config::Option> own, std::span<const std::string> words);

}  // namespace octavo::bench
