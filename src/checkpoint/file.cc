#include "checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace octavo::checkpoint {

Error system_error(const std::string& path, std::string_view what, int error_number) {
  const bool is_missing = error_number == ENOENT || error_number == ENOTDIR;
  return {is_missing ? Code::kNotFound : Code::kInvalidArgument,
          fmt::format("{}: {}: {}", path, what, std::generic_category().message(error_number))};
}

Result<OpenFile> OpenFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that has no writer must not hang.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "cannot open", errno);
  OpenFile file(descriptor, 0);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return system_error(path, "cannot stat", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, path + ": is not a regular file"};
  }
  file.size_bytes_ = static_cast<size_t>(status.st_size);
  return file;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_bytes_(other.size_bytes_) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  OCTAVO_TRY(const OpenFile file, OpenFile::open(path));
  if (file.size_bytes() > max_bytes) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {} bytes, at most {} are read", path,
                                                     file.size_bytes(), max_bytes)};
  }
  std::string text(file.size_bytes(), '\0');
  size_t num_read = 0;
  while (num_read < text.size()) {
    const ssize_t n = ::read(file.descriptor(), text.data() + num_read, text.size() - num_read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "cannot read", errno);
    if (n == 0) break;  // somebody cut the file short meanwhile
    num_read += static_cast<size_t>(n);
  }
  text.resize(num_read);
  return text;
}

}  // namespace octavo::checkpoint
