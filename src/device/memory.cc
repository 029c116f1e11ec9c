#include "device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace octavo::device {
namespace {
constexpr size_t kPieceAlignment = 64;  // one cache line, one AVX-512 register

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }
}  // namespace

Result<Buffer> Buffer::create(size_t size_bytes, bool huge_pages) {
  Buffer buffer;
  if (size_bytes == 0) return buffer;
  const std::string what = std::to_string(size_bytes) + " bytes of memory";
  if (size_bytes > std::numeric_limits<size_t>::max() / 2) {
    return Error{Code::kOverloaded, "cannot reserve " + what};
  }
  const bool align = size_bytes >= kHugePageBytes;
  const size_t mapped_bytes =
      align ? round_up(size_bytes, kHugePageBytes) + kHugePageBytes : size_bytes;
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return Error{Code::kOverloaded, "cannot reserve " + what};
  buffer.mapped_ = static_cast<std::byte*>(mapped);
  buffer.mapped_bytes_ = mapped_bytes;
  buffer.size_bytes_ = size_bytes;
  buffer.data_ = buffer.mapped_;
  if (align) {
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    buffer.data_ += round_up(address, kHugePageBytes) - address;
    // Only advice: without huge pages everything works, more slowly.
    madvise(buffer.data_, round_up(size_bytes, kHugePageBytes),
            huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  return buffer;
}

Buffer::~Buffer() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      mapped_(std::exchange(other.mapped_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Status Workspace::reserve(size_t size_bytes) {
  if (size_bytes <= buffer_.size_bytes()) return {};
  CHECK_EQ(used_, size_t{0});
  buffer_ = Buffer();  // given back first: the peak is the larger of the two, not their sum
  OCTAVO_TRY(buffer_, Buffer::create(size_bytes, /*huge_pages=*/true));
  return {};
}

std::byte* Workspace::take(size_t size_bytes) {
  CHECK_LE(size_bytes, buffer_.size_bytes());
  const size_t end = used_ + round_up(size_bytes, kPieceAlignment);
  // The rounding of the last piece may end behind the buffer; its bytes may not.
  CHECK_LE(used_ + size_bytes, buffer_.size_bytes());
  std::byte* const piece = buffer_.data() + used_;
  used_ = end;
  return piece;
}

}  // namespace octavo::device
