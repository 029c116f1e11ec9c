#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace octavo::device {

/// A huge page of x86-64.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Zero-filled memory whose pages are taken when first touched (mmap NORESERVE), aligned to 2 MiB
/// when that large and offered huge pages. Move-only; unmapped on destruction, or, of an arena,
/// when the last piece of its region goes.
class Buffer {
 public:
  Buffer() = default;
  /// Error kOverloaded when the address space cannot be reserved. `huge_pages` asks for 2 MiB pages
  /// (weights, workspaces); leave it off where pages should be touched one by one (KV pool).
  static Result<Buffer> create(size_t size_bytes, bool huge_pages);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Arena;
  struct Mapping;
  std::shared_ptr<Mapping> mapping_;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

/// Buffers side by side in regions of huge pages, each on a cache line of its own: a matrix of less
/// than 2 MiB by itself would lie in pages of 4 KiB, and reading it would wait for their
/// translations. One thread. Buffers may outlive it.
class Arena {
 public:
  /// Errors as Buffer::create.
  Result<Buffer> take(size_t size_bytes);

 private:
  Buffer region_;
  size_t used_ = 0;
};

/// Scratch memory of one engine, reused by every op of a step. Grows to a high-water mark that
/// `reserve` can set beforehand; `take` hands out pieces until `reset`.
class Workspace {
 public:
  Status reserve(size_t size_bytes);
  /// 64-byte aligned, not zeroed, valid until `reset()`. CHECKs that `reserve` was large enough.
  std::byte* take(size_t size_bytes);
  /// Marks and restores the stack of pieces, for scratch inside one op.
  size_t mark() const { return used_; }
  void reset(size_t mark = 0) { used_ = mark; }
  size_t capacity_bytes() const { return buffer_.size_bytes(); }

 private:
  Buffer buffer_;
  size_t used_ = 0;
};

}  // namespace octavo::device
