#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/managed_server.h"
#include "bench/param_sweep.h"

namespace octavo::bench {

struct SweepOptions {
  std::vector<std::string> serve_words;
  std::vector<std::string> bench_words;
  std::vector<std::string> after_bench_words;  // empty: caches are reset through its routes
  std::vector<SweepItem> serve_params;
  std::vector<SweepItem> bench_params;
  LinkVars links;
  std::string folder;  // of the experiment
  int64_t num_runs = 3;
  int64_t warmup_num_prompts = 0;
  std::chrono::seconds ready_timeout{300};
  bool continue_on_error = false;
  bool is_dry_run = false;
  bool shows_output = false;
};

/// What `sweep serve_workload` varies beside the parameters.
struct WorkloadOptions {
  std::string variable;  // request_rate or max_concurrency
  int64_t num_levels = 10;
};

/// Runs every pair of server and benchmark parameters, one server after the other. Results that lie
/// in the folder are not made again. A server is started when the first run needs it, and again
/// when it died.
class SweepRunner {
 public:
  SweepRunner(const SweepOptions& options, std::FILE* out) : options_(options), out_(out) {}

  /// Ends with summary.csv. Errors: a server or a run failed (without continue_on_error), a file
  /// cannot be written, a signal.
  Status run();
  Status run_workload(const WorkloadOptions& workload);

 private:
  using Json = nlohmann::ordered_json;
  using Runs = std::vector<Json>;

  template <class Pairs>
  Status for_each_server(Pairs run_pairs);
  Status explore(const SweepItem& serve, const SweepItem& bench, const WorkloadOptions& workload);
  Result<Runs> run_pair(const SweepItem& serve, const SweepItem& bench, const std::string& folder);
  Result<std::optional<Json>> run_once(const SweepItem& serve, const SweepItem& bench,
                                       const std::string& path, int64_t number);
  Result<Json> measure(const SweepItem& serve, const SweepItem& bench, const std::string& path,
                       int64_t number);
  Status run_command(const std::vector<std::string>& words, const std::string& log_path);
  Status start_server(const SweepItem& serve);
  void stop_server();
  Status after_bench(const std::string& log_path);
  Status note_failure(const std::string& path, const SweepItem& serve, const SweepItem* bench,
                      int64_t number, const Error& error);

  const SweepOptions options_;
  std::FILE* const out_;
  std::unique_ptr<ManagedServer> server_;
  bool server_failed_ = false;  // to come up, with the current parameters
  bool said_no_reset_ = false;
  int64_t num_failures_ = 0;
  Runs all_;
};

/// A table of objects as CSV, as pandas writes it: a column of row numbers, then every key in the
/// order in which it first comes; lists and objects as JSON.
std::string to_csv(const std::vector<nlohmann::ordered_json>& rows);

/// Writes a file so that it is there whole or not at all.
Status write_whole(const std::string& path, const std::string& text);

}  // namespace octavo::bench
