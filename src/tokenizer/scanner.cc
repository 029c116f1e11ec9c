#include "tokenizer/scanner.h"

#include <array>

#include "tokenizer/utf8.h"

namespace octavo::tokenizer {

namespace {

/// Reads one text from left to right.
struct Cursor {
  std::string_view text;
  size_t at;

  bool done() const { return at == text.size(); }
  Utf8Char peek() const { return decode_utf8(text, at); }

  void skip_in(CategorySet set) {
    while (!done()) {
      const Utf8Char c = peek();
      if (!CharClass(c.code).in(set)) return;
      at += c.size;
    }
  }
  /// Skips [^\s<set>]*.
  void skip_symbols(CategorySet set) {
    while (!done()) {
      const Utf8Char c = peek();
      const CharClass cls(c.code);
      if (cls.is_space() || cls.in(set)) return;
      at += c.size;
    }
  }
  void skip_newlines() {
    while (!done() && (text[at] == '\r' || text[at] == '\n')) ++at;
  }
};

/// Bytes of the contraction at `at` ('s 't 're 've 'm 'll 'd), 0 when there is none.
size_t contraction_size(std::string_view text, size_t at, bool ignore_case) {
  const std::string_view rest = text.substr(at);
  if (rest.size() < 2 || rest[0] != '\'') return 0;
  auto lower = [&](size_t i) {
    const char c = i < rest.size() ? rest[i] : '\0';
    return ignore_case && c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  };
  const char first = lower(1), second = lower(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  // Unicode folds U+017F, the long s, to s.
  if (ignore_case && rest.size() >= 3 && rest.substr(1, 2) == "\xC5\xBF") return 3;
  return 0;
}

/// \s*[\r\n]+ (when `cut_at_newline`), else \s+(?!\S), else \s+. The text at `at` is a space.
size_t space_end(std::string_view text, size_t at, bool cut_at_newline) {
  size_t end = at, last_char = at, after_newline = 0;
  while (end < text.size()) {
    const Utf8Char c = decode_utf8(text, end);
    if (!CharClass(c.code).is_space()) break;
    last_char = end;
    end += c.size;
    if (c.code == '\r' || c.code == '\n') after_newline = end;
  }
  if (cut_at_newline && after_newline != 0) return after_newline;
  // The last space before a word belongs to the word.
  if (end < text.size() && last_char > at) return last_char;
  return end;
}

size_t gpt2_end(std::string_view text, size_t at, CategorySet letters) {
  if (const size_t size = contraction_size(text, at, false)) return at + size;
  Cursor cursor{text, at};
  if (text[at] == ' ' && at + 1 < text.size()) ++cursor.at;
  const CharClass cls(cursor.peek().code);
  if (cls.is_space()) return space_end(text, at, false);
  if (cls.in(letters)) {
    cursor.skip_in(letters);
  } else if (cls.in(kNumbers)) {
    cursor.skip_in(kNumbers);
  } else {
    cursor.skip_symbols(letters | kNumbers);
  }
  return cursor.at;
}

size_t llama3_end(std::string_view text, size_t at, CategorySet letters, size_t max_digits) {
  if (const size_t size = contraction_size(text, at, true)) return at + size;
  Cursor cursor{text, at};
  const Utf8Char first = cursor.peek();
  const CharClass cls(first.code);
  if (cls.in(letters)) {
    cursor.skip_in(letters);
    return cursor.at;
  }
  if (cls.in(kNumbers)) {
    for (size_t n = 0; n < max_digits && !cursor.done(); ++n) {
      const Utf8Char c = cursor.peek();
      if (!CharClass(c.code).in(kNumbers)) break;
      cursor.at += c.size;
    }
    return cursor.at;
  }
  // One leading character of any other kind may belong to a word.
  const size_t next = at + first.size;
  const bool is_newline = first.code == '\r' || first.code == '\n';
  if (!is_newline && next < text.size() && CharClass(decode_utf8(text, next).code).in(letters)) {
    cursor.at = next;
    cursor.skip_in(letters);
    return cursor.at;
  }
  if (first.code == ' ' && next < text.size()) cursor.at = next;
  const CharClass symbol(cursor.peek().code);
  if (symbol.is_space() || symbol.in(letters | kNumbers)) return space_end(text, at, true);
  cursor.skip_symbols(letters | kNumbers);
  cursor.skip_newlines();
  return cursor.at;
}

}  // namespace

std::optional<Scanner> Scanner::for_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return Scanner{Kind::kGpt2, kLetters, 0};
  if (pattern == kLlama3Pattern) return Scanner{Kind::kLlama3, kLetters, 3};
  if (pattern == kQwen2Pattern) return Scanner{Kind::kLlama3, kLetters, 1};
  if (pattern == kQwen2MarksPattern) return Scanner{Kind::kLlama3, kLetters | kMarks, 1};
  return std::nullopt;
}

size_t Scanner::piece_end(std::string_view text, size_t at) const {
  return kind == Kind::kGpt2 ? gpt2_end(text, at, letters)
                             : llama3_end(text, at, letters, max_digits);
}

}  // namespace octavo::tokenizer
