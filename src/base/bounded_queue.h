#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace octavo {

/// A queue between threads with a limit: a full queue refuses at once, it never blocks the
/// producer. An empty vector, unlike a deque, owns no memory: asking in vain is cheap.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  /// False when full or closed; `item` is then untouched.
  bool try_push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// For messages that must never be refused (aborts): ignores the capacity. False when closed.
  bool push_unbounded(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Everything queued, in order; empty when there is nothing. Does not wait.
  std::vector<T> take_all() {
    std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }

  /// Waits until something is queued, the queue is closed, or `timeout` has passed.
  std::vector<T> wait_and_take_all(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    return std::exchange(items_, {});
  }

  /// Refuses new items and wakes the waiter; what is queued can still be taken.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> items_;
  bool closed_ = false;
};

}  // namespace octavo
