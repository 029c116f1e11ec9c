#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo::checkpoint {

/// `path: what: reason of errno`; kNotFound for ENOENT and ENOTDIR, else kInvalidArgument.
Error system_error(const std::string& path, std::string_view what, int error_number);

/// An open regular file. Devices, pipes and directories are refused without blocking on them.
class OpenFile {
 public:
  static Result<OpenFile> open(const std::string& path);

  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) = delete;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  int descriptor() const { return descriptor_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  OpenFile(int descriptor, size_t size_bytes) : descriptor_(descriptor), size_bytes_(size_bytes) {}
  int descriptor_;
  size_t size_bytes_;
};

/// The whole file as text; an error when it is longer than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace octavo::checkpoint
