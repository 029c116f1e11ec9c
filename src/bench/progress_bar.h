#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>

namespace octavo::bench {

/// "  40%|####      | 4/10 [00:01<00:02,  3.21it/s]" on one line, drawn ten times a second at most.
class ProgressBar {
 public:
  ProgressBar(std::FILE* out, size_t total, bool is_shown);
  void update(size_t done);
  /// Draws the last state and ends the line.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);
  std::FILE* const out_;
  const size_t total_;
  const bool is_shown_;
  const Clock::time_point start_;
  Clock::time_point drawn_;
  size_t done_ = 0;
};

}  // namespace octavo::bench
