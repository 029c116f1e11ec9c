#include "server/channel.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace octavo::server {

Channel::Channel(size_t max_buffered_bytes, std::function<void()> wake)
    : max_buffered_bytes_(max_buffered_bytes), wake_(std::move(wake)) {}

void Channel::changed(std::unique_lock<std::mutex> lock) {
  const bool wake = !woken_ && !closed_;
  woken_ = true;
  lock.unlock();
  if (wake) wake_();
}

void Channel::respond(openai::HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (closed_ || begun_) return;
  begun_ = finished_ = true;
  pending_.response = std::move(response);
  changed(std::move(lock));
}

void Channel::begin_stream(HeaderList headers) {
  std::unique_lock lock(mutex_);
  if (closed_ || begun_) return;
  begun_ = true;
  pending_.begin = true;
  pending_.headers = std::move(headers);
  changed(std::move(lock));
}

bool Channel::write(std::string bytes) {
  std::unique_lock lock(mutex_);
  if (closed_ || gone_ || pending_.cut || !begun_ || finished_) return false;
  const size_t held = pending_.bytes.size() + unsent_bytes_.load(std::memory_order_relaxed);
  // One event larger than the limit is not the client's fault.
  if (held > 0 && held + bytes.size() > max_buffered_bytes_) {
    pending_.cut = true;
    changed(std::move(lock));
    return false;
  }
  if (pending_.bytes.empty()) {
    pending_.bytes = std::move(bytes);
  } else {
    pending_.bytes += bytes;
  }
  changed(std::move(lock));
  return true;
}

void Channel::end_stream() {
  std::unique_lock lock(mutex_);
  if (closed_ || !begun_ || finished_) return;
  finished_ = true;
  pending_.end = true;
  changed(std::move(lock));
}

void Channel::on_disconnect(std::function<void()> callback) {
  {
    std::unique_lock lock(mutex_);
    if (closed_ && !gone_) return;
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
    // It went before the handler asked: nobody will wait for the answer.
    pending_.cut = true;
    changed(std::move(lock));
  }
  callback();
}

void Channel::abandon() {
  std::unique_lock lock(mutex_);
  if (closed_ || finished_) return;
  finished_ = true;
  pending_.abandoned = true;
  changed(std::move(lock));
}

Channel::Pending Channel::take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(pending_, {});
}

bool Channel::client_gone(bool may_still_read) {
  std::function<void()> callback;
  bool hopeless = true;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return true;
    gone_ = true;
    callback = std::exchange(callback_, nullptr);
    hopeless = !may_still_read || callback != nullptr || (begun_ && !finished_);
    if (hopeless) closed_ = true;
  }
  if (callback) callback();
  return hopeless;
}

void Channel::close() {
  std::function<void()> callback;  // destroyed outside the lock: it may hold the exchange
  std::lock_guard lock(mutex_);
  closed_ = true;
  callback.swap(callback_);
}

ServerExchange::ServerExchange(std::shared_ptr<Channel> channel, std::shared_ptr<WorkerPool> pool)
    : channel_(std::move(channel)), pool_(std::move(pool)) {}

ServerExchange::~ServerExchange() { channel_->abandon(); }

void ServerExchange::respond(openai::HttpResponse response) {
  channel_->respond(std::move(response));
}
void ServerExchange::begin_stream(std::vector<std::pair<std::string, std::string>> headers) {
  channel_->begin_stream(std::move(headers));
}
bool ServerExchange::write(std::string bytes) { return channel_->write(std::move(bytes)); }
void ServerExchange::end_stream() { channel_->end_stream(); }
void ServerExchange::on_disconnect(std::function<void()> callback) {
  channel_->on_disconnect(std::move(callback));
}

bool ServerExchange::start(std::function<void()> handler) {
  auto self = std::static_pointer_cast<ServerExchange>(shared_from_this());
  {
    std::lock_guard lock(mutex_);
    works_.push_front(std::move(handler));
    running_ = true;
  }
  if (pool_->try_submit([self] { self->run_works(); })) return true;
  std::lock_guard lock(mutex_);
  works_.clear();
  running_ = false;
  return false;
}

void ServerExchange::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    if (running_) return;
    running_ = true;
  }
  submit_works();
}

// Works hold what holds this exchange: when they will not run any more they are let go.
void ServerExchange::submit_works() {
  auto self = std::static_pointer_cast<ServerExchange>(shared_from_this());
  if (pool_->submit([self] { self->run_works(); })) return;
  std::deque<std::function<void()>> dropped;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  dropped.swap(works_);
  running_ = false;
}

// One work per turn, so that a busy stream does not hold a thread while others wait.
void ServerExchange::run_works() {
  std::function<void()> work;
  {
    std::lock_guard lock(mutex_);
    if (works_.empty()) {
      running_ = false;
      return;
    }
    work = std::move(works_.front());
    works_.pop_front();
  }
  try {
    work();
  } catch (const std::exception&) {
    // Not what(): libraries quote their input there, and that may be a prompt.
    log::error(log::Source::kApiServer, "A request handler failed");
    channel_->abandon();
  }
  work = nullptr;
  bool more = false;
  {
    std::lock_guard lock(mutex_);
    more = running_ = !works_.empty();
  }
  if (!more) return;
  submit_works();
}

}  // namespace octavo::server
