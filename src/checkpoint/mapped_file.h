#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace octavo::checkpoint {

/// A whole regular file, mapped read-only. The mapping lives as long as the object. A file that is
/// cut short by somebody else while it is mapped kills the process with SIGBUS, as every mapped
/// file does: replace checkpoints by renaming.
class MappedFile {
 public:
  /// Errors: no such file, no regular file, empty, no permission. They name `path`.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the kernel take the pages back; touching them again reads the file again.
  void drop_pages() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace octavo::checkpoint
