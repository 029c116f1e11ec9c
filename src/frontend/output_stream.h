#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "frontend/frontend.h"

namespace octavo::frontend {

/// Adds to `to` what came after it in the same sample.
void merge(Delta& to, Delta&& from);

/// The buffer between the output thread and one client: at most one merged delta per sample.
class StreamState {
 public:
  /// `log_id`: the client's id when its requests are logged, else empty.
  StreamState(engine::RequestId first_id, int32_t n, std::string log_id);

  engine::RequestId id_of(int32_t index) const {
    return engine::RequestId(first_id_.value() + index);
  }
  int32_t n() const { return n_; }
  const std::string& log_id() const { return log_id_; }

  /// Output thread. Adds to what waits for the client; `notify` then tells it.
  void add(Delta&& delta);
  void notify();

  // Client.
  std::vector<Delta> take();
  bool finished() const;
  void on_ready(std::function<void()> callback);
  bool wait(std::chrono::milliseconds timeout);
  /// True for the first caller only, and only while a sample is unfinished.
  bool begin_abort();

 private:
  const engine::RequestId first_id_;
  const int32_t n_;
  const std::string log_id_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Delta> waiting_;  // in order of the first change since the last take
  std::vector<int32_t> slots_;  // sample -> place in waiting_, -1 = none
  int32_t num_finished_ = 0;    // samples whose finish reason has been added
  std::function<void()> callback_;
};

/// What a frontend lends to its streams, so that a stream may outlive the frontend.
class AbortPort {
 public:
  virtual ~AbortPort() = default;
  virtual void abort(const std::shared_ptr<StreamState>& stream) = 0;
};

/// The client's handle on a StreamState; aborts when it goes.
class StreamHandle final : public OutputStream {
 public:
  StreamHandle(std::shared_ptr<StreamState> state, std::shared_ptr<AbortPort> port)
      : state_(std::move(state)), port_(std::move(port)) {}
  ~StreamHandle() override { abort(); }
  std::vector<Delta> take() override { return state_->take(); }
  bool finished() const override { return state_->finished(); }
  void on_ready(std::function<void()> callback) override { state_->on_ready(std::move(callback)); }
  bool wait(std::chrono::milliseconds timeout) override { return state_->wait(timeout); }
  void abort() override;

 private:
  std::shared_ptr<StreamState> state_;
  std::shared_ptr<AbortPort> port_;
};

}  // namespace octavo::frontend
