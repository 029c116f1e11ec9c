#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"

namespace octavo::tokenizer {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  std::variant<std::string, Regex> pattern;  // the string is not empty
  std::string content;
};

/// Text with the untrusted spans it came with.
struct MarkedText {
  std::string text;
  std::vector<TextSpan> untrusted;
};

/// What happens to text before it is cut into pieces. Linear in the text. Immutable; any thread.
class Normalizer {
 public:
  using Step = std::variant<UnicodeForm, PrependStep, ReplaceStep>;
  static constexpr size_t kMaxSteps = 32;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  /// Changes `marked` in place. A span keeps covering whatever its text became; where characters
  /// from inside and outside of it were combined, it covers the result.
  void apply(MarkedText& marked) const;
  /// The same for text without spans.
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace octavo::tokenizer
