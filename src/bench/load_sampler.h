#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "bench/server_queries.h"

namespace octavo::bench {

/// The highest values that readings of /metrics showed.
struct LoadPeaks {
  int64_t num_samples = 0;
  std::optional<double> kv_usage;  // share of the KV cache in use, 0 to 1
  std::optional<double> running;   // requests in the batch, of all engines
  std::optional<double> waiting;   // requests in the queue
};

/// Takes one reading into the peaks. Older servers name the KV cache gpu_cache.
void add_sample(std::string_view metrics_text, LoadPeaks& peaks);

/// Reads /metrics of a server once a second during a run, on a thread of its own; the first time
/// soon after the start, so that a short run has a reading too. A peak between two readings is
/// missed. A server that is slow to answer is asked less often.
class LoadSampler {
 public:
  explicit LoadSampler(const Server& server);
  ~LoadSampler();
  LoadSampler(const LoadSampler&) = delete;
  LoadSampler& operator=(const LoadSampler&) = delete;

  /// Ends the readings and waits for the last one, two seconds at most.
  LoadPeaks stop();
  /// What the GPUs of this machine did at the first reading (gpu_facts.h); null without any. After
  /// stop().
  const nlohmann::ordered_json& gpu_state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

nlohmann::ordered_json describe_peaks(const LoadPeaks& peaks);

}  // namespace octavo::bench
