#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "checkpoint/file.h"

namespace octavo::checkpoint {

Result<MappedFile> MappedFile::open(const std::string& path) {
  OCTAVO_TRY(const OpenFile file, OpenFile::open(path));
  if (file.size_bytes() == 0) return Error{Code::kInvalidArgument, path + ": the file is empty"};
  void* address = mmap(nullptr, file.size_bytes(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) return system_error(path, "cannot map", errno);
  return MappedFile({static_cast<const std::byte*>(address), file.size_bytes()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop_pages() const {
  // A failure only means that the pages stay.
  madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace octavo::checkpoint
