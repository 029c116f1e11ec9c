#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/thread_plan.h"

namespace octavo::device {

/// Memory that is read in equal parts, shared out among threads like the pieces of a call: one
/// behind the other from `data` on, or where `part_at` says.
struct Reading {
  const std::byte* data = nullptr;
  size_t part_bytes = 0;
  int64_t num_parts = 0;
  int64_t parts_of_piece = 1;  // what a thread gets is a multiple of it
  const std::byte* (*part_at)(const void* context, int64_t part) = nullptr;
  const void* context = nullptr;  // until the next call has returned
};

/// Worker threads for kernels, created once. One caller at a time (the engine thread), which works
/// too: a pool of `num_threads` has num_threads - 1 workers. Workers spin for a short while after a
/// call, then sleep, so that ops of one step follow each other without waking anybody.
class ThreadPool {
 public:
  /// Plain function and context pointer, so that a call allocates nothing.
  using Task = void (*)(void* context, int64_t begin, int64_t end, int thread_index);

  explicit ThreadPool(int num_threads) : ThreadPool(ThreadPlan{num_threads, {}}) {}
  /// Binds its workers as `plan` says; the caller binds itself with `CallerBinding`.
  explicit ThreadPool(const ThreadPlan& plan);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;
  /// Where the calling thread belongs, -1: anywhere.
  int caller_cpu() const;

  /// Runs `task` over [0, count) in pieces of `grain`, on all threads; returns when all are done.
  /// A thread begins with neighbours, but which one takes which piece is not defined, so a task's
  /// result must not depend on it.
  void parallel_for(int64_t count, int64_t grain, Task task, void* context);

  /// What will be read after the next call, and until another is named: a thread that waits for the
  /// others, or for the call after it, fetches the first part of its share into its cache. Only
  /// addresses: nothing is dereferenced, and nothing depends on it but time.
  void read_next(const Reading& reading);

  /// The same with a callable `f(begin, end, thread_index)`.
  template <class F>
  void parallel_for(int64_t count, int64_t grain, F&& f) {
    using Fn = std::remove_reference_t<F>;
    parallel_for(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int thread_index) {
          (*static_cast<Fn*>(context))(begin, end, thread_index);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Binds the calling thread to the caller's CPU of a pool, for as long as this lives. Threads that
/// it starts meanwhile inherit the binding.
class CallerBinding {
 public:
  explicit CallerBinding(const ThreadPool& pool);
  ~CallerBinding();
  CallerBinding(const CallerBinding&) = delete;
  CallerBinding& operator=(const CallerBinding&) = delete;

 private:
  bool bound_ = false;
  cpu_set_t before_;
};

}  // namespace octavo::device
