#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo::tokenizer {

struct Utf8Char {
  char32_t code;
  size_t size;  // bytes, at least 1
};

/// The character at `at` (< text.size()). A byte that starts no valid sequence is one U+FFFD of
/// size 1, so that a loop over any bytes ends.
inline Utf8Char decode_utf8(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  const size_t left = text.size() - at;
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) {
    if (first >= 0xC2 && left > 1 && continues(1)) return {(first & 31) << 6 | (byte(1) & 63u), 2};
  } else if (first < 0xF0) {
    if (left > 2 && continues(1) && continues(2)) {
      return {(first & 15) << 12 | (byte(1) & 63u) << 6 | (byte(2) & 63u), 3};
    }
  } else if (first < 0xF5) {
    if (left > 3 && continues(1) && continues(2) && continues(3)) {
      return {(first & 7) << 18 | (byte(1) & 63u) << 12 | (byte(2) & 63u) << 6 | (byte(3) & 63u),
              4};
    }
  }
  return {0xFFFD, 1};
}

/// Start of the character that ends before `at` (> 0) in valid UTF-8.
inline size_t previous_char(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_utf8(char32_t code, std::string& out);

/// Appends `bytes` to `out` with each maximal part of an ill-formed sequence as one U+FFFD (Unicode
/// section 3.9; what Rust's from_utf8_lossy does). Returns the number of bytes used: all of them,
/// unless `more_follows` and the end is an incomplete but so far valid sequence.
size_t append_lossy(std::string_view bytes, bool more_follows, std::string& out);

}  // namespace octavo::tokenizer
