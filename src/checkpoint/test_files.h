#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

// Builders of small files for the tests of this room.

namespace octavo::checkpoint {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Little-endian bytes, appended value by value.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  ByteWriter& raw(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  /// u64 length and text, as GGUF writes strings.
  ByteWriter& text(std::string_view text) { return put<uint64_t>(text.size()).raw(text); }
  ByteWriter& pad(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_ += '\0';
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline std::string safetensors_file(std::string_view header, size_t num_data_bytes) {
  return ByteWriter()
      .put<uint64_t>(header.size())
      .raw(header)
      .raw(std::string(num_data_bytes, 'd'))
      .bytes();
}

}  // namespace octavo::checkpoint
