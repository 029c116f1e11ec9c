#include "server/serve_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdio>

#include "base/log.h"

namespace octavo::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
constexpr auto kSource = log::Source::kApiServer;

constexpr auto kServingTick = milliseconds(100);
constexpr auto kEndingTick = milliseconds(10);
constexpr auto kAbortTime = seconds(5);  // for aborted requests to send their last chunk
constexpr auto kFailTime = seconds(2);   // for the errors of an engine that did not obey
constexpr auto kDeadAnswerTime =
    seconds(3);  // the promise is: gone within 5 s of the engine's death
constexpr auto kDeadMinimum = milliseconds(500);  // so that a probe can see the 503

// Lifecycle lines in uvicorn's shape on stderr; readiness probes in scripts grep them.
void lifecycle_line(const std::string& text) {
  const std::string line = fmt::format("(APIServer pid={}) INFO:     {}\n", getpid(), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

ServeLoop::ServeLoop(Server& server, frontend::Frontend& frontend,
                     const config::ServerConfig& config)
    : server_(server),
      frontend_(frontend),
      config_(config),
      signals_(context_, SIGINT, SIGTERM),
      tick_(context_) {}

void ServeLoop::log_start() const {
  const Listener& listener = server_.listener();
  const bool tls = !config_.ssl_certfile.empty();
  const std::string url = config_.uds.empty()
                              ? fmt::format("{}://{}", tls ? "https" : "http", listener.address())
                              : listener.address();
  log::info(kSource, "Starting vLLM server on {}", url);
  log::info(kSource, "Available routes are:");
  for (const Route& route : server_.state().routes) {
    log::info(kSource, "Route: {}, Methods: {}", route.path, allow_header(route.methods));
  }
  const bool has_key = server_.state().auth.enabled();
  if (!listener.is_loopback() && !has_key) {
    log::warning(kSource,
                 "The server listens on {}, beyond this machine, and NO API KEY is set: everybody "
                 "who reaches the port can use it. Set --api-key, or bind --host 127.0.0.1.",
                 listener.address());
  }
}

int ServeLoop::run() {
  log_start();
  lifecycle_line(fmt::format("Started server process [{}]", getpid()));
  lifecycle_line("Waiting for application startup.");
  wait_for_signal();
  if (const Status started = server_.start(); !started.ok()) {
    log::error(kSource, "{}", started.error().message);
    return 1;
  }
  lifecycle_line("Application startup complete.");
  schedule_tick();
  context_.run();
  return exit_code_;
}

void ServeLoop::notify_signal() {
  boost::asio::post(context_, [this] { on_signal(); });
}

void ServeLoop::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    on_signal();
    wait_for_signal();
  });
}

void ServeLoop::on_signal() {
  if (phase_ == Phase::kDraining) return begin_abort();
  if (phase_ != Phase::kServing) return;
  const bool drain = config_.shutdown_timeout_s > 0;
  log::info(kSource, "[shutdown] API server: shutdown triggered");
  log::info(kSource, "[shutdown] API server: stopping engine client mode={} timeout={}s",
            drain ? "drain" : "abort", config_.shutdown_timeout_s);
  server_.begin_drain();
  frontend_.begin_drain();
  log::info(log::Source::kEngineCore, "[shutdown] EngineCore: start mode={} timeout={}s",
            drain ? "drain" : "abort", config_.shutdown_timeout_s);
  if (!drain) return begin_abort();
  log::info(log::Source::kEngineCore, "[shutdown] EngineCore: draining in-flight requests count={}",
            server_.num_open_requests());
  phase_ = Phase::kDraining;
  deadline_ = steady_clock::now() + seconds(config_.shutdown_timeout_s);
  schedule_tick();
}

void ServeLoop::begin_abort() {
  log::info(log::Source::kEngineCore, "[shutdown] EngineCore: aborting in-flight requests count={}",
            server_.num_open_requests());
  phase_ = Phase::kAborting;
  deadline_ = steady_clock::now() + kAbortTime;
  frontend_.abort_all();
  schedule_tick();
}

// The engine is stuck in a step: everybody is answered without it.
void ServeLoop::begin_failing() {
  log::error(kSource, "[shutdown] API server: the engine did not end {} requests in {} s",
             server_.num_open_requests(), kAbortTime.count());
  phase_ = Phase::kFailing;
  deadline_ = steady_clock::now() + kFailTime;
  frontend_.fail_all("The server has shut down before the engine could finish the request");
}

void ServeLoop::schedule_tick() {
  tick_.expires_after(phase_ == Phase::kServing ? kServingTick : kEndingTick);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) on_tick();
  });
}

void ServeLoop::on_tick() {
  const TimePoint now = steady_clock::now();
  const bool quiet = server_.num_open_requests() == 0;
  if (phase_ != Phase::kEngineDead && frontend_.engine_dead()) {
    if (!reported_death_) {
      reported_death_ = true;
      log::error(kSource, "EngineCore encountered an issue. See the log above for the root cause.");
    }
    if (phase_ != Phase::kServing || !config_.keep_alive_on_engine_death) {
      phase_ = Phase::kEngineDead;
      phase_start_ = now;
      deadline_ = now + kDeadAnswerTime;
    }
  }
  switch (phase_) {
    case Phase::kServing:
      break;
    case Phase::kDraining:
      if (quiet) return finish(0);
      if (now >= deadline_) return begin_abort();
      break;
    case Phase::kAborting:
      if (quiet) return finish(0);
      if (now >= deadline_) begin_failing();
      break;
    case Phase::kFailing:
      if (quiet || now >= deadline_) return finish(1);
      break;
    case Phase::kEngineDead:
      if (now >= deadline_ || (quiet && now >= phase_start_ + kDeadMinimum)) return finish(1);
      break;
  }
  schedule_tick();
}

void ServeLoop::finish(int exit_code) {
  exit_code_ = exit_code;
  log::info(log::Source::kEngineCore, "[shutdown] EngineCore: request processing complete");
  lifecycle_line("Shutting down");
  server_.stop(exit_code == 0 ? 2000 : 1000);
  lifecycle_line("Application shutdown complete.");
  lifecycle_line(fmt::format("Finished server process [{}]", getpid()));
  boost::system::error_code ignored;
  signals_.cancel(ignored);
  tick_.cancel();
  context_.stop();
}

}  // namespace octavo::server
