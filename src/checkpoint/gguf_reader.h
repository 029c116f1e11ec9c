#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace octavo::checkpoint {

/// Reads little-endian values from a span and never beyond it. Private to gguf*.cc.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  uint64_t offset() const { return offset_; }
  uint64_t num_remaining() const { return bytes_.size() - offset_; }

  template <class T>
  Result<T> read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    if (num_remaining() < sizeof(T)) return truncated(what);
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  /// `count` raw elements of `element_bytes`.
  Result<const std::byte*> read_raw(uint64_t count, uint64_t element_bytes, std::string_view what) {
    if (count > num_remaining() / element_bytes) return truncated(what);
    const std::byte* start = bytes_.data() + offset_;
    offset_ += count * element_bytes;
    return start;
  }

  /// u64 length, then that many bytes; valid as long as the file.
  Result<std::string_view> read_string(std::string_view what) {
    const uint64_t start = offset_;
    OCTAVO_TRY(const uint64_t length, read<uint64_t>(what));
    if (length > num_remaining()) {
      return error("{} at offset {} claims {} bytes, but the file ends after {}", what, start,
                   length, num_remaining());
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + offset_, length);
    offset_ += length;
    return text;
  }

  Error truncated(std::string_view what) const {
    return error("truncated in {} at offset {} (the file has {} bytes)", what, offset_,
                 bytes_.size());
  }

  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return {Code::kInvalidArgument,
            fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    Error result = error(format, std::forward<Args>(args)...);
    result.code = Code::kUnsupported;
    return result;
  }
  std::string_view name() const { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string_view name_;
  uint64_t offset_ = 0;
};

}  // namespace octavo::checkpoint
