#include "tokenizer/utf8.h"

namespace octavo::tokenizer {
namespace {

struct Sequence {
  size_t size;        // bytes of the longest valid start, at least 1
  bool complete;      // a whole character
  bool may_continue;  // the text ended inside it
};

/// Well-formed sequences are those of table 3-7 of the Unicode Standard.
Sequence sequence_at(std::string_view bytes, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xC2 || first > 0xF4) return {1, false, false};
  const size_t wanted = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;  // limits of the second byte
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (size_t i = 1; i < wanted; ++i) {
    if (at + i == bytes.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80, high = 0xBF;
  }
  return {wanted, true, false};
}

}  // namespace

void append_utf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xC0 | code >> 6);
    out += char(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += char(0xE0 | code >> 12);
    out += char(0x80 | (code >> 6 & 63));
    out += char(0x80 | (code & 63));
  } else {
    out += char(0xF0 | code >> 18);
    out += char(0x80 | (code >> 12 & 63));
    out += char(0x80 | (code >> 6 & 63));
    out += char(0x80 | (code & 63));
  }
}

size_t append_lossy(std::string_view bytes, bool more_follows, std::string& out) {
  size_t at = 0, copied = 0;  // [copied, at) is valid and not yet appended
  while (at < bytes.size()) {
    const Sequence sequence = sequence_at(bytes, at);
    if (sequence.complete) {
      at += sequence.size;
      continue;
    }
    out.append(bytes, copied, at - copied);
    if (sequence.may_continue && more_follows) return at;
    out += "\xEF\xBF\xBD";
    at += sequence.size;
    copied = at;
  }
  out.append(bytes, copied, at - copied);
  return at;
}

}  // namespace octavo::tokenizer
