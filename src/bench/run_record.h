#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/outcome.h"
#include "bench/server_queries.h"

namespace octavo::bench {

/// What a server tells of itself: url, version, models, served_names, config (octavo's own route,
/// null elsewhere), cache_config_info (labels of that series), and `machine` and `gpu` if it runs
/// on this one. What it does not tell is null. octavo begins to hash its weights when it is asked
/// first: `on_wait` hears that this is being waited for, up to `max_wait_s`. Error: it does not
/// even list its models.
Result<nlohmann::ordered_json> collect_server_facts(const Server& server, double max_wait_s,
                                                    const std::function<void()>& on_wait);

/// The text of /metrics, or nullopt.
std::optional<std::string> read_metrics(const Server& server);
/// What the counters of a run record gained between two readings; an object, null without readings.
nlohmann::ordered_json counter_gains(const std::optional<std::string>& before,
                                     const std::optional<std::string>& after);

/// State of the prefix cache when a run began: off, cold (no prompt had been looked up in it),
/// warm, or null where the server does not tell; and the share of the run's prompt tokens that it
/// had. `server` as collect_server_facts makes it. A reset of the cache in between is not seen.
nlohmann::ordered_json describe_prefix_cache(const nlohmann::ordered_json& server,
                                             const std::optional<std::string>& metrics_before,
                                             const nlohmann::ordered_json& gains);

/// State of this machine at one moment, to see whether a run was disturbed.
struct NoiseReading {
  std::optional<double> load1;    // of the last minute
  std::optional<double> mhz;      // mean over the CPUs
  std::optional<double> steal_s;  // CPU time that the hypervisor took, since boot
  std::optional<double> total_s;  // all CPU time since boot
};
NoiseReading read_noise();
nlohmann::ordered_json describe_noise(const NoiseReading& before, const NoiseReading& after);

/// SHA-256, hex, of all prompts and lengths in order: two runs with the same value sent the same.
std::string hash_prompts(std::span<const SampleRequest> requests);

/// Counts of error texts, at most 20 kinds.
nlohmann::ordered_json count_errors(std::span<const Outcome> outcomes);

}  // namespace octavo::bench
