#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/regex.h"
#include "tokenizer/scanner.h"

namespace octavo::tokenizer {

/// Takes one piece of text; false stops the splitting.
using PieceSink = std::function<bool(std::string_view)>;

/// What becomes of the parts of a text that a pattern matched.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct LiteralPattern {
  std::string text;  // not empty
};
enum class CharPattern { kNumeric, kSpace, kPunctuation };  // one character each

/// One step: cuts every piece at the matches of a pattern.
struct SplitStep {
  std::variant<Scanner, Regex, LiteralPattern, CharPattern> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};
/// One step: puts a space before a piece that does not start with one (ByteLevel's
/// add_prefix_space).
struct PrefixSpaceStep {};

/// Cuts text into the pieces that BPE works on. Immutable; any thread.
class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, PrefixSpaceStep>;
  static constexpr size_t kMaxSteps = 32;

  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  /// Gives the pieces of `text` (valid UTF-8) to `sink`, in order. Pieces are valid during the
  /// call.
  void split(std::string_view text, const PieceSink& sink) const;

 private:
  bool run(size_t step, std::string_view text, const PieceSink& sink, RegexScratch* scratch) const;
  bool uses_regex() const;
  std::vector<Step> steps_;
};

}  // namespace octavo::tokenizer
