#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

namespace octavo {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// Puts a pipe in the place of stdout.
class PipedStdout {
 public:
  PipedStdout() {
    log::flush();
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    read_end_ = ends[0];
    saved_ = ::dup(STDOUT_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]);
  }
  ~PipedStdout() { (void)finish(); }
  /// Reads until the log has nothing more to say; stdout is the old one again.
  std::string finish() {
    if (saved_ < 0) return {};
    std::string text;
    std::thread reader([&] {
      char bytes[65536];
      for (ssize_t n; (n = ::read(read_end_, bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<size_t>(n));
      }
    });
    EXPECT_TRUE(log::flush(seconds(20)));
    ::dup2(saved_, STDOUT_FILENO);  // the last writing end closes
    ::close(saved_);
    saved_ = -1;
    reader.join();
    ::close(read_end_);
    return text;
  }

 private:
  int read_end_ = -1;
  int saved_ = -1;
};

TEST(LogTest, RecordsHaveTheirShapeAndKeepTheirOrder) {
  PipedStdout out;
  log::info(log::Source::kApiServer, "one {}", 1);
  log::debug(log::Source::kApiServer, "below the level");
  log::warning(log::Source::kEngineCore, "two");
  log::write_line("plain\n");
  const std::string text = out.finish();
  const size_t one = text.find("(APIServer pid=");
  const size_t two = text.find("(EngineCore pid=");
  EXPECT_EQ(one, 0u);
  EXPECT_NE(text.find("INFO"), std::string::npos);
  EXPECT_NE(text.find("[log_test.cc:"), std::string::npos);
  EXPECT_NE(text.find("one 1\n"), std::string::npos);
  EXPECT_LT(two, text.size());
  EXPECT_EQ(text.find("below"), std::string::npos);
  EXPECT_TRUE(text.ends_with("two\nplain\n"));
}

TEST(LogTest, AStalledStdoutNeverBlocksAndDropsAreCounted) {
  PipedStdout out;
  const auto start = steady_clock::now();
  constexpr int kLines = 40'000;  // far more than the pipe and the queue hold
  for (int i = 0; i < kLines; ++i) log::info(log::Source::kApiServer, "line {}", i);
  EXPECT_LT(steady_clock::now() - start, seconds(5));
  EXPECT_FALSE(log::flush(std::chrono::milliseconds(10)));
  const std::string text = out.finish();
  EXPECT_NE(text.find(" line 0\n"), std::string::npos);
  // The writer may find room now and then while the lines come, so several records can count drops.
  int dropped = 0;
  constexpr std::string_view kDropped = " log lines were dropped";
  for (size_t at = 0; (at = text.find(kDropped, at)) != std::string::npos; ++at) {
    const size_t begin = text.rfind(' ', at - 1) + 1;
    dropped += std::stoi(text.substr(begin, at - begin));
  }
  EXPECT_GT(dropped, 0);
  int written = 0;
  for (size_t at = 0; (at = text.find(" line ", at)) != std::string::npos; ++at) ++written;
  EXPECT_EQ(written + dropped, kLines);
}

}  // namespace
}  // namespace octavo
