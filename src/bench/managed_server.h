#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/child_process.h"
#include "bench/server_queries.h"

namespace octavo::bench {

/// A server that we start and stop ourselves. Its address is what the command's --host and --port
/// say (127.0.0.1, 8000 without).
struct ServerCommand {
  std::vector<std::string> words;
  std::string log_path;  // empty: our own outputs
  std::chrono::seconds ready_timeout{300};
};

class ManagedServer {
 public:
  /// Starts the command and waits until GET /health answers 200. Errors: the address is in use (the
  /// server there is not ours and is left alone), the command ends or takes too long (with the last
  /// lines of its log), a signal was caught.
  static Result<std::unique_ptr<ManagedServer>> start(const ServerCommand& command);

  const Server& server() const { return server_; }
  std::string url() const;
  bool is_alive() { return !child_.exit_status(); }
  /// What to say of a server that is not alive.
  std::string describe_end();
  /// Asks it to forget cached prompts (POST /reset_prefix_cache and kin, vLLM's development
  /// routes). False: it has no such route.
  bool reset_caches() const;
  void stop();

 private:
  ManagedServer(ChildProcess child, Server server, std::string log_path)
      : child_(std::move(child)), server_(std::move(server)), log_path_(std::move(log_path)) {}
  Status wait_until_ready(std::chrono::seconds timeout);
  bool answers_health() const;

  ChildProcess child_;
  Server server_;
  std::string log_path_;
};

/// A port of 127.0.0.1 that was free a moment ago.
Result<int> find_free_port();

/// Whether somebody accepts connections there.
bool is_listening(const std::string& host, int port);

}  // namespace octavo::bench
