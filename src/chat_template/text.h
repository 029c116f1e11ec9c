#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "chat_template/value.h"

// Python's string operations on UTF-8, each keeping track of untrusted ranges.

namespace octavo::chat_template {

/// Bytes of the character at `pos`; an invalid byte counts as a character of its own.
size_t char_size(std::string_view text, size_t pos);
/// The character at `pos`, or -1 for an invalid byte; sets its size.
int32_t decode_char(std::string_view text, size_t pos, size_t& size);
size_t count_chars(std::string_view text);
/// str.isspace of one character.
bool is_space(int32_t c);
bool is_printable(int32_t c);
void append_utf8(std::string& out, uint32_t c);

/// Bytes that remain after stripping whitespace (chars == nullptr) or any of the given characters.
Span strip_range(std::string_view text, const std::string_view* chars, bool left, bool right);

Value substr(Meter& meter, const StrObj& s, size_t begin, size_t end);
Value concat(Meter& meter, const StrObj& a, const StrObj& b);
Value repeat(Meter& meter, const StrObj& s, int64_t times);
/// `count` times the ASCII character `c`.
StrObj repeat_char(Meter& meter, char c, int64_t count);
/// s[i] by character; false when out of range.
bool char_at(Meter& meter, const StrObj& s, int64_t index, Value& out);
/// str.replace; count < 0 replaces all.
Value replace(Meter& meter, const StrObj& s, std::string_view from, const StrObj& to,
              int64_t count);
/// str.split / rsplit by a separator (not empty) or, without one, by whitespace; max < 0: no limit.
std::vector<Value> split(Meter& meter, const StrObj& s, const std::string_view* separator,
                         int64_t max);
std::vector<Value> rsplit(Meter& meter, const StrObj& s, const std::string_view* separator,
                          int64_t max);
std::vector<Value> splitlines(Meter& meter, const StrObj& s, bool keep_ends);

enum class Case { kUpper, kLower, kTitle, kCapitalize, kSwap };
Value change_case(Meter& meter, const StrObj& s, Case how);
/// Escapes & < > ' " as MarkupSafe does.
Value escape_html(Meter& meter, const StrObj& s);

/// str.isalpha and its siblings; false for the empty text.
bool all_alpha(std::string_view text);
bool all_digit(std::string_view text);
bool all_alnum(std::string_view text);
bool all_space(std::string_view text);
/// str.isupper, str.islower: at least one cased character and none of the other case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

}  // namespace octavo::chat_template
