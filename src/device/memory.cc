#include "device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace octavo::device {
namespace {
constexpr size_t kPieceAlignment = 64;  // one cache line, one AVX-512 register
constexpr size_t kRegionBytes = size_t{64} << 20;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }
}  // namespace

struct Buffer::Mapping {
  std::byte* data;
  size_t size_bytes;

  Mapping(std::byte* mapped, size_t mapped_bytes) : data(mapped), size_bytes(mapped_bytes) {}
  ~Mapping() { munmap(data, size_bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

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
  buffer.mapping_ = std::make_shared<Mapping>(static_cast<std::byte*>(mapped), mapped_bytes);
  buffer.size_bytes_ = size_bytes;
  buffer.data_ = static_cast<std::byte*>(mapped);
  if (align) {
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    buffer.data_ += round_up(address, kHugePageBytes) - address;
    // Only advice: without huge pages everything works, more slowly.
    madvise(buffer.data_, round_up(size_bytes, kHugePageBytes),
            huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Result<Buffer> Arena::take(size_t size_bytes) {
  if (size_bytes == 0) return Buffer();
  if (size_bytes > region_.size_bytes() - used_) {
    // What does not fit is not lost: its pages are never touched.
    OCTAVO_TRY(region_, Buffer::create(std::max(size_bytes, kRegionBytes), /*huge_pages=*/true));
    used_ = 0;
  }
  Buffer buffer;
  buffer.mapping_ = region_.mapping_;
  buffer.data_ = region_.data_ + used_;
  buffer.size_bytes_ = size_bytes;
  used_ = std::min(round_up(used_ + size_bytes, kPieceAlignment), region_.size_bytes());
  return buffer;
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
