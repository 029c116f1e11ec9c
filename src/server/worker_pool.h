#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace octavo::server {

/// A few threads for the CPU work of requests (JSON, template, tokenising), so that the I/O threads
/// stay free for health checks and streams. New requests are bounded; work of requests that have
/// already been accepted is never refused and goes first, because it frees memory.
class WorkerPool {
 public:
  WorkerPool(int num_threads, size_t max_queued);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Queues the start of a request; false when too many wait. Any thread.
  bool try_submit(std::function<void()>&& work);
  /// Queues further work of an accepted request; false once stopping: it
  /// will not run, and the caller gives up what it holds. Any thread.
  bool submit(std::function<void()> work);
  /// Runs what is queued, then joins. Idempotent.
  void stop();

 private:
  void run();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> started_;  // accepted requests: first
  std::deque<std::function<void()>> fresh_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace octavo::server
