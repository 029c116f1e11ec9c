#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace octavo::checkpoint {

/// The files that the tensors of a checkpoint lie in, sorted by name. Empty without weights.
std::vector<std::string> weight_files(const Checkpoint& checkpoint);

/// SHA-256 of a model's weight files, to tell whether two servers ran the same weights. Reading all
/// of them takes long for a large model, so nothing is done until somebody asks; then a thread of
/// the lowest priority begins. Of one file the value is what `sha256sum FILE` prints, of several it
/// is the SHA-256 of the lines that `sha256sum *` prints in the folder, sorted by name.
class ContentHash {
 public:
  enum class State : uint8_t { kNone, kComputing, kReady, kFailed };  // kNone: no files

  /// Remembers size and time of the files: a file that is replaced later is not what was loaded.
  explicit ContentHash(std::vector<std::string> files);
  /// Stops the thread; takes no longer than reading a megabyte.
  ~ContentHash() = default;
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  struct Answer {
    State state = State::kNone;
    std::string hex;  // 64 digits when ready
    std::string why;  // when it failed
  };
  /// What is known now; begins to compute when it is called first. Any thread.
  Answer ask();

 private:
  struct File {
    std::string path;
    int64_t size = 0;
    int64_t modified_ns = 0;
    bool operator==(const File&) const = default;
  };
  static std::optional<File> look_at(const std::string& path);
  Answer compute(const std::stop_token& stop) const;

  std::vector<std::string> paths_;
  std::vector<File> files_;  // as they were; fewer than paths_ if one could not be looked at
  std::mutex mutex_;
  Answer answer_;        // under mutex_
  std::jthread thread_;  // under mutex_; last: it ends before the others go
};

std::string_view name_of(ContentHash::State state);

}  // namespace octavo::checkpoint
