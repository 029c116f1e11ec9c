#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace octavo::device {

/// A huge page of x86-64.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Zero-filled memory whose pages are taken when first touched (mmap NORESERVE), aligned to 2 MiB
/// when that large and offered huge pages. Move-only; unmapped on destruction.
class Buffer {
 public:
  Buffer() = default;
  /// Error kOverloaded when the address space cannot be reserved. `huge_pages` asks for 2 MiB pages
  /// (weights, workspaces); leave it off where pages should be touched one by one (KV pool).
  static Result<Buffer> create(size_t size_bytes, bool huge_pages);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
  std::byte* mapped_ = nullptr;
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
