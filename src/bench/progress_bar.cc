#include "bench/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace octavo::bench {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr size_t kWidth = 10;

std::string minutes(double seconds) {
  const auto whole = static_cast<long>(std::min(seconds, 359999.0));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::FILE* out, size_t total, bool is_shown)
    : out_(out), total_(total), is_shown_(is_shown), start_(Clock::now()), drawn_(start_) {
  if (is_shown_) draw(start_);
}

void ProgressBar::update(size_t done) {
  done_ = done;
  const auto now = Clock::now();
  if (is_shown_ && now - drawn_ >= kInterval) draw(now);
}

void ProgressBar::close() {
  if (!is_shown_) return;
  draw(Clock::now());
  std::fputc('\n', out_);
}

void ProgressBar::draw(Clock::time_point now) {
  drawn_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = total_ == 0 ? 1 : double(done_) / double(total_);
  const double rate = elapsed > 0 ? double(done_) / elapsed : 0;
  const auto filled = std::min(size_t(share * kWidth), kWidth);
  fmt::print(out_, "\r{:3.0f}%|{}{}| {}/{} [{}<{}, {}]", share * 100, std::string(filled, '#'),
             std::string(kWidth - filled, ' '), done_, total_, minutes(elapsed),
             rate > 0 ? minutes(double(total_ - done_) / rate) : "?",
             rate > 0 ? fmt::format("{:5.2f}it/s", rate) : "?it/s");
  std::fflush(out_);
}

}  // namespace octavo::bench
