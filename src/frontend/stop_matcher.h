#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::frontend {

/// The stop strings of a request with their Knuth-Morris-Pratt failure tables. Shared by samples.
class StopPatterns {
 public:
  /// Strings longer than `max_text_bytes` can never occur and are left out.
  StopPatterns(const std::vector<std::string>& stop, size_t max_text_bytes);
  bool empty() const { return patterns_.empty(); }

 private:
  friend class StopMatcher;
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // [i]: longest proper border of text[0, i)
  };
  std::vector<Pattern> patterns_;
};

/// Finds stop strings in a text that comes in pieces, and says how much of it may be shown. Holds
/// back exactly the longest suffix that is a real prefix of a stop string. Linear in the text,
/// whatever it holds.
class StopMatcher {
 public:
  explicit StopMatcher(std::shared_ptr<const StopPatterns> patterns);

  struct Result {
    std::string text;                   // released by this piece
    const std::string* stop = nullptr;  // the string that was completed; valid with the patterns
  };
  /// Takes the next whole characters. With `check` false nothing stops (min_tokens), but what could
  /// become a match later is still held back. After a stop the rest of the piece is dropped; the
  /// text is cut before the stop string, or after it with `include_stop`. Earliest completion wins,
  /// ties go to the order of the list.
  Result push(std::string_view piece, bool check, bool include_stop);
  /// What is still held back, when the sequence ends otherwise.
  std::string take_held();

 private:
  std::shared_ptr<const StopPatterns> patterns_;
  std::vector<uint32_t> states_;  // matched bytes of each pattern
  std::string held_;
};

}  // namespace octavo::frontend
