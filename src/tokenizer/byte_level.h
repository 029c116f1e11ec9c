#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace octavo::tokenizer {

/// The printable alphabet of byte-level BPE (GPT-2): each byte is one character. Printable Latin-1
/// bytes are themselves, the other 68 are U+0100 and up in byte order.
char32_t byte_level_char(unsigned char byte);

/// Bytes that a string of that alphabet stands for; nullopt when a character is outside of it.
/// `text` is valid UTF-8.
std::optional<std::string> byte_level_decode(std::string_view text);

}  // namespace octavo::tokenizer
