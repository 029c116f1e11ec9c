#include "frontend/output_stream.h"

#include <iterator>
#include <utility>

namespace octavo::frontend {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

}  // namespace

void merge(Delta& to, Delta&& from) {
  to.text += from.text;
  append(to.token_ids, std::move(from.token_ids));
  append(to.logprobs, std::move(from.logprobs));
  append(to.prompt_logprobs, std::move(from.prompt_logprobs));
  to.finish_reason = from.finish_reason;
  to.stop_reason = std::move(from.stop_reason);
  to.error = std::move(from.error);
  to.num_prompt_tokens = from.num_prompt_tokens;
  to.num_cached_tokens = from.num_cached_tokens;
  to.num_generated_tokens = from.num_generated_tokens;
}

StreamState::StreamState(engine::RequestId first_id, int32_t n, std::string log_id)
    : first_id_(first_id), n_(n), log_id_(std::move(log_id)), slots_(static_cast<size_t>(n), -1) {}

void StreamState::add(Delta&& delta) {
  std::lock_guard lock(mutex_);
  if (delta.finish_reason) ++num_finished_;
  int32_t& slot = slots_[static_cast<size_t>(delta.index)];
  if (slot < 0) {
    slot = static_cast<int32_t>(waiting_.size());
    waiting_.push_back(std::move(delta));
  } else {
    merge(waiting_[static_cast<size_t>(slot)], std::move(delta));
  }
}

void StreamState::notify() {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    // After the last delta the callback is given up: it usually owns the stream's consumer, which
    // owns the stream.
    callback = num_finished_ == n_ ? std::exchange(callback_, {}) : callback_;
  }
  ready_.notify_all();
  if (callback) callback();
}

std::vector<Delta> StreamState::take() {
  std::lock_guard lock(mutex_);
  for (const Delta& delta : waiting_) slots_[static_cast<size_t>(delta.index)] = -1;
  return std::exchange(waiting_, {});
}

bool StreamState::finished() const {
  std::lock_guard lock(mutex_);
  return num_finished_ == n_ && waiting_.empty();
}

void StreamState::on_ready(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (num_finished_ < n_) callback_ = callback;
    if (waiting_.empty()) return;
  }
  callback();
}

bool StreamState::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return ready_.wait_for(lock, timeout, [&] { return !waiting_.empty() || num_finished_ == n_; });
}

bool StreamState::begin_abort() {
  if (aborted_.exchange(true)) return false;
  std::lock_guard lock(mutex_);
  return num_finished_ < n_;
}

void StreamHandle::abort() {
  if (state_->begin_abort()) port_->abort(state_);
}

}  // namespace octavo::frontend
