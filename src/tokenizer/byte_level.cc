#include "tokenizer/byte_level.h"

#include "tokenizer/utf8.h"

namespace octavo::tokenizer {
namespace {

constexpr bool is_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char16_t, 256> char_of_byte{};
  std::array<int16_t, 0x144> byte_of_char{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of_char) byte = -1;
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t c = is_itself(byte) ? char16_t(byte) : next++;
    alphabet.char_of_byte[byte] = c;
    alphabet.byte_of_char[c] = int16_t(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_level_char(unsigned char byte) { return kAlphabet.char_of_byte[byte]; }

std::optional<std::string> byte_level_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.code >= kAlphabet.byte_of_char.size() || kAlphabet.byte_of_char[c.code] < 0) {
      return std::nullopt;
    }
    out += char(kAlphabet.byte_of_char[c.code]);
    at += c.size;
  }
  return out;
}

}  // namespace octavo::tokenizer
