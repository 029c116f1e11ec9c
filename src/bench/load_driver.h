#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/outcome.h"
#include "bench/wire.h"
#include "client/http_client.h"

namespace octavo::bench {

/// Where and how requests go.
struct Target {
  client::Origin origin;
  std::string path;  // of the endpoint
  std::vector<std::pair<std::string, std::string>> headers;
  client::ClientOptions client;
  PayloadOptions payload;
};

/// One batch of requests.
struct Batch {
  std::span<const SampleRequest> requests;
  std::span<const double> times_s;          // empty: all at once
  std::optional<int64_t> max_concurrency;   // requests under way at most
  std::function<void(size_t)> on_turn;      // request i is due
  std::function<void(size_t)> on_finished;  // so many are done
  double probe_rate = 0;                    // one-token probes a second beside the batch
};

struct BatchResult {
  std::vector<Outcome> outcomes;  // in the order of the requests
  std::vector<Outcome> probes;
  double duration_s = 0;  // from before the first send until the last answer has ended
  double cpu_s = 0;       // that this client's thread used meanwhile
};

/// Sends batches to one target over kept connections, on the calling thread alone.
class LoadDriver {
 public:
  explicit LoadDriver(Target target);
  ~LoadDriver();
  BatchResult run(const Batch& batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Lets the process have as many connections as the system allows.
void raise_descriptor_limit();

}  // namespace octavo::bench
