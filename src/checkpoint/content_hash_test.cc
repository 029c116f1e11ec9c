#include "checkpoint/content_hash.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/temp_folder.h"
#include "checkpoint/test_files.h"

namespace octavo::checkpoint {
namespace {

using State = ContentHash::State;

class ContentHashTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  /// Asks until it is over, for ten seconds at most.
  static ContentHash::Answer wait(ContentHash& hash) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ContentHash::Answer answer = hash.ask();
    while (answer.state == State::kComputing && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      answer = hash.ask();
    }
    return answer;
  }
  TempFolder folder_;
};

TEST_F(ContentHashTest, OfOneFileIsItsSha256) {
  ContentHash hash({write("a", "abc")});
  const auto answer = wait(hash);
  EXPECT_EQ(answer.state, State::kReady);  // FIPS 180-2, appendix B.1
  EXPECT_EQ(answer.hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ContentHashTest, OfSeveralFilesIsThatOfTheLinesOfSha256sum) {
  const std::string a = write("a.bin", "abc");
  const std::string b = write("b.bin", "");
  ContentHash hash({b, a});  // printf abc > a.bin; : > b.bin; sha256sum a.bin b.bin | sha256sum
  EXPECT_EQ(wait(hash).hex, "df17065e8da522f959088d4f4476f9d9f9e70606534bff6097cd2b7fbb14a04e");
}

TEST_F(ContentHashTest, NothingIsReadBeforeSomebodyAsks) {
  const std::string path = write("a", "abc");
  ContentHash hash({path});
  std::ofstream(path, std::ios::app) << "d";  // the size tells, whatever the clock's grain
  const auto answer = wait(hash);
  EXPECT_EQ(answer.state, State::kFailed);
  EXPECT_EQ(answer.why, "a has changed since it was loaded");
}

TEST_F(ContentHashTest, FilesThatAreGoneAndNoFiles) {
  const std::string path = write("a", "abc");
  ContentHash gone({path});
  std::filesystem::remove(path);
  EXPECT_EQ(wait(gone).state, State::kFailed);
  ContentHash never({folder_.path() + "/none"});
  EXPECT_EQ(wait(never).state, State::kFailed);
  ContentHash none({});
  EXPECT_EQ(none.ask().state, State::kNone);
}

TEST_F(ContentHashTest, ALargeFileDoesNotHoldUpTheEnd) {
  const std::string path = write("a", "");
  std::filesystem::resize_file(path, uintmax_t{64} << 30);  // sparse: a minute of hashing
  const auto start = std::chrono::steady_clock::now();
  {
    ContentHash hash({path});
    EXPECT_EQ(hash.ask().state, State::kComputing);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace octavo::checkpoint
