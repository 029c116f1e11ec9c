#pragma once

#include <atomic>
#include <chrono>

namespace octavo {

/// Time as the engine sees it. Injected, so that a test can stop it and a simulator can advance it.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds on a clock that never jumps; origin unspecified.
  virtual double monotonic_s() const = 0;
  /// Seconds since the Unix epoch.
  virtual double wall_s() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  double monotonic_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  double wall_s() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

/// A clock that moves only when told. Safe to read from other threads.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(double start_s = 1000.0) : now_s_(start_s) {}
  double monotonic_s() const override { return now_s_.load(); }
  double wall_s() const override { return 1.7e9 + now_s_.load(); }
  void advance(double seconds) { now_s_.store(now_s_.load() + seconds); }

 private:
  std::atomic<double> now_s_;
};

}  // namespace octavo
