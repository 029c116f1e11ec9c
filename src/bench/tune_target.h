#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/goal.h"
#include "bench/managed_server.h"
#include "bench/tuner.h"

namespace octavo::bench {

/// What the real target needs to know.
struct TuneTargetOptions {
  std::vector<std::string> serve_words;
  std::vector<std::string> bench_words;  // options of bench serve: the workload
  std::vector<Goal> goals;
  int64_t seed = 0;    // of the first run; each one has the next
  std::string folder;  // of results and logs; exists
  std::chrono::seconds ready_timeout{300};
  std::chrono::steady_clock::time_point deadline;  // nothing runs beyond it
};

/// Starts the server command on a free port of 127.0.0.1 and loads it with `octavo bench serve` in
/// a process of its own. Prompts of a run: another seed than any other's, so that no run finds its
/// prompts in the cache; a server that can forget them is asked to.
class ProcessTarget final : public TuneTarget {
 public:
  using Say = std::function<void(const std::string&)>;
  ProcessTarget(TuneTargetOptions options, Say say)
      : options_(std::move(options)), say_(std::move(say)) {}

  Status start(const ServerFlags& flags) override;
  std::optional<std::string> value_in_use(const std::string& flag) override;
  Result<TuneRun> run(double rate, int64_t num_prompts) override;
  void stop();

 private:
  Status check_time(double seconds) const;
  std::vector<std::string> bench_command(double rate, int64_t num_prompts,
                                         const std::string& file) const;
  std::string describe(const TuneRun& run) const;

  const TuneTargetOptions options_;
  const Say say_;
  std::unique_ptr<ManagedServer> server_;
  int64_t num_servers_ = 0;
  int64_t num_runs_ = 0;
};

/// The words of a server command on a port of 127.0.0.1 with flags set.
std::vector<std::string> serve_command(std::vector<std::string> words, int port,
                                       const ServerFlags& flags);

/// This program's own path, for the parts that run in processes of their own.
std::string own_program();

/// A JSON file of at most 256 MiB. Error: it cannot be read or is no JSON.
Result<nlohmann::ordered_json> read_json_file(const std::string& path);

}  // namespace octavo::bench
