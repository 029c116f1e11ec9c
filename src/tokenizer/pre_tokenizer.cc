#include "tokenizer/pre_tokenizer.h"

#include <type_traits>
#include <utility>

#include "tokenizer/utf8.h"

namespace octavo::tokenizer {
namespace {

/// Puts matched and unmatched parts together as a SplitBehavior says. Parts arrive in order and
/// cover the text; `give` gets the pieces.
class Merger {
 public:
  Merger(std::string_view text, const SplitStep& step, const PieceSink& give)
      : text_(text), behavior_(step.behavior), invert_(step.invert), give_(give) {}

  bool part(size_t begin, size_t end, bool is_match) {
    if (begin == end) return true;
    is_match = is_match != invert_;
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        return give(begin, end);
      case SplitBehavior::kRemoved:
        return is_match || give(begin, end);
      case SplitBehavior::kContiguous:
        return extend_if(has_open_ && last_was_match_ == is_match, begin, end, is_match);
      case SplitBehavior::kMergedWithPrevious:
        return extend_if(has_open_ && is_match && !last_was_match_, begin, end, is_match);
      case SplitBehavior::kMergedWithNext:
        return extend_if(has_open_ && last_was_match_ && !is_match, begin, end, is_match);
    }
    return true;
  }
  bool finish() { return !has_open_ || give(open_begin_, open_end_); }

 private:
  bool give(size_t begin, size_t end) { return give_(text_.substr(begin, end - begin)); }

  bool extend_if(bool extend, size_t begin, size_t end, bool is_match) {
    if (!extend) {
      if (has_open_ && !give(open_begin_, open_end_)) return false;
      open_begin_ = begin;
    }
    open_end_ = end;
    has_open_ = true;
    last_was_match_ = is_match;
    return true;
  }

  std::string_view text_;
  SplitBehavior behavior_;
  bool invert_;
  const PieceSink& give_;
  size_t open_begin_ = 0, open_end_ = 0;
  bool has_open_ = false, last_was_match_ = false;
};

bool split_by(const Scanner& scanner, std::string_view text, Merger& merger) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = scanner.piece_end(text, at);
    if (!merger.part(at, end, true)) return false;
    at = end;
  }
  return true;
}

bool split_by(const Regex& regex, std::string_view text, Merger& merger, RegexScratch& scratch) {
  Regex::Match match;
  size_t at = 0;
  while (at < text.size() && regex.find(text, at, scratch, match)) {
    if (!merger.part(at, match.begin, false)) return false;
    if (!merger.part(match.begin, match.end, true)) return false;
    at = match.end;
  }
  return merger.part(at, text.size(), false);
}

bool split_by(const LiteralPattern& literal, std::string_view text, Merger& merger) {
  size_t at = 0;
  while (true) {
    const size_t found = text.find(literal.text, at);
    if (found == std::string_view::npos) return merger.part(at, text.size(), false);
    const size_t end = found + literal.text.size();
    if (!merger.part(at, found, false) || !merger.part(found, end, true)) return false;
    at = end;
  }
}

bool matches(CharPattern pattern, char32_t code) {
  const CharClass cls(code);
  switch (pattern) {
    case CharPattern::kNumeric:
      return cls.is_digits_class();
    case CharPattern::kSpace:
      return cls.is_space();
    case CharPattern::kPunctuation:
      return cls.is_punctuation_class();
  }
  return false;
}

bool split_by(const CharPattern& pattern, std::string_view text, Merger& merger) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (matches(pattern, c.code)) {
      if (!merger.part(begin, at, false) || !merger.part(at, at + c.size, true)) return false;
      begin = at + c.size;
    }
    at += c.size;
  }
  return merger.part(begin, text.size(), false);
}

}  // namespace

bool PreTokenizer::uses_regex() const {
  for (const Step& step : steps_) {
    const auto* split = std::get_if<SplitStep>(&step);
    if (split != nullptr && std::holds_alternative<Regex>(split->pattern)) return true;
  }
  return false;
}

void PreTokenizer::split(std::string_view text, const PieceSink& sink) const {
  if (text.empty()) return;
  // All steps share one scratch: a search copies its result out before the next one starts.
  std::optional<RegexScratch> scratch;
  if (uses_regex()) scratch.emplace();
  run(0, text, sink, scratch ? &*scratch : nullptr);
}

// Recursion is as deep as the file has steps (at most kMaxSteps), whatever the text.
bool PreTokenizer::run(size_t step, std::string_view text, const PieceSink& sink,
                       RegexScratch* scratch) const {
  if (step == steps_.size()) return sink(text);
  if (std::holds_alternative<PrefixSpaceStep>(steps_[step])) {
    if (text.starts_with(' ')) return run(step + 1, text, sink, scratch);
    std::string spaced;
    spaced.reserve(text.size() + 1);
    spaced.append(1, ' ').append(text);
    return run(step + 1, spaced, sink, scratch);
  }
  const SplitStep& split = std::get<SplitStep>(steps_[step]);
  const bool is_last = step + 1 == steps_.size();
  const PieceSink next = [&](std::string_view piece) {
    return run(step + 1, piece, sink, scratch);
  };
  Merger merger(text, split, is_last ? sink : next);
  const bool goes_on = std::visit(
      [&](const auto& pattern) {
        if constexpr (std::is_same_v<std::decay_t<decltype(pattern)>, Regex>) {
          return split_by(pattern, text, merger, *scratch);
        } else {
          return split_by(pattern, text, merger);
        }
      },
      split.pattern);
  return goes_on && merger.finish();
}

}  // namespace octavo::tokenizer
