#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "tokenizer/unicode.h"

namespace octavo::tokenizer {

/// The pre-tokenizer patterns of the large families, written out by hand: one pass, no
/// backtracking, so time is linear whatever the text.
struct Scanner {
  enum class Kind { kGpt2, kLlama3 };
  Kind kind = Kind::kGpt2;
  CategorySet letters = kLetters;  // what a word is made of
  size_t max_digits = 3;           // longest run of numbers in one piece (kLlama3)

  /// The scanner for exactly this regular expression, if there is one.
  static std::optional<Scanner> for_pattern(std::string_view pattern);

  /// End of the piece that starts at `at` (< text.size()); always > `at`. The pieces cover the
  /// text.
  size_t piece_end(std::string_view text, size_t at) const;
};

// The patterns it knows, as tokenizer.json files spell them.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline constexpr std::string_view kQwen2MarksPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace octavo::tokenizer
