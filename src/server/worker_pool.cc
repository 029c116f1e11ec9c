#include "server/worker_pool.h"

#include <utility>

#include "base/thread_name.h"

namespace octavo::server {

WorkerPool::WorkerPool(int num_threads, size_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() { stop(); }

bool WorkerPool::try_submit(std::function<void()>&& work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || fresh_.size() >= max_queued_) return false;
    fresh_.push_back(std::move(work));
  }
  ready_.notify_one();
  return true;
}

bool WorkerPool::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    started_.push_back(std::move(work));
  }
  ready_.notify_one();
  return true;
}

void WorkerPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::run() {
  name_this_thread("worker");
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stopping_ || !started_.empty() || !fresh_.empty(); });
    auto& queue = started_.empty() ? fresh_ : started_;
    if (queue.empty()) return;  // stopping, and nothing is left
    std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is released outside the lock
    lock.lock();
  }
}

}  // namespace octavo::server
