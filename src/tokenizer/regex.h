#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo::tokenizer {

/// Working memory of a search; one per thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// A regular expression of a tokenizer file, for patterns that `Scanner` does not know. Character
/// classes are those of our own tables, not PCRE2's older ones. Immutable; any thread.
class Regex {
 public:
  static Result<Regex> create(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    size_t begin = 0;
    size_t end = 0;  // > begin
  };
  /// The first non-empty match at or after `from`. `text` is valid UTF-8, `from` a character's
  /// start. Work is limited: a search that exceeds the limit finds nothing.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const;

 private:
  struct State;
  explicit Regex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace octavo::tokenizer
