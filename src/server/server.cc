#include "server/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/log.h"
#include "server/io_thread.h"

namespace octavo::server {
namespace {

constexpr int64_t kReservedDescriptors = 64;  // files, logs, the engine

// Each connection is a descriptor; the default soft limit of 1,024 would be the real one.
int64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return int64_t(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

}  // namespace

Server::Server(Listener listener, ServerOptions options)
    : listener_(std::move(listener)), state_(std::make_unique<ServerState>(std::move(options))) {}

Server::~Server() { stop(0); }

Result<std::unique_ptr<Server>> Server::create(Listener listener, ServerOptions options) {
  std::unique_ptr<Server> server(new Server(std::move(listener), std::move(options)));
  OCTAVO_TRY(server->state_->tls, tls_context(server->state_->options.config));
  return server;
}

Status Server::start() {
  // A client that goes while we write is an error code, not the end of the process (TLS writes).
  std::signal(SIGPIPE, SIG_IGN);
  OCTAVO_TRY(listener_.listen());
  const int64_t descriptors = raise_descriptor_limit();
  state_->max_connections =
      std::min(state_->max_connections, std::max<int64_t>(8, descriptors - kReservedDescriptors));
  const int num_threads = std::max(1, state_->options.config.num_http_threads);
  for (int i = 0; i < num_threads; ++i) threads_.push_back(std::make_unique<IoThread>(*state_));
  size_t next = 0;
  threads_.front()->accept_from(listener_.release(),
                                [this, next](int fd, std::string name) mutable {
                                  threads_[next++ % threads_.size()]->adopt(fd, std::move(name));
                                });
  for (auto& thread : threads_) thread->start();
  started_ = true;
  return {};
}

void Server::begin_drain() { state_->draining.store(true); }

void Server::stop(int grace_ms) {
  if (!started_ || stopped_) return;
  stopped_ = true;
  for (auto& thread : threads_) thread->wind_down();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(grace_ms);
  while (num_connections() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (auto& thread : threads_) thread->stop();
  state_->pool->stop();
}

}  // namespace octavo::server
