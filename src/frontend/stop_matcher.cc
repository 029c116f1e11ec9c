#include "frontend/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace octavo::frontend {

StopPatterns::StopPatterns(const std::vector<std::string>& stop, size_t max_text_bytes) {
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > max_text_bytes) continue;
    Pattern pattern{text, std::vector<uint32_t>(text.size() + 1, 0)};
    uint32_t border = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.failure[border];
      if (text[i] == text[border]) ++border;
      pattern.failure[i + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopPatterns> patterns)
    : patterns_(std::move(patterns)), states_(patterns_->patterns_.size(), 0) {}

StopMatcher::Result StopMatcher::push(std::string_view piece, bool check, bool include_stop) {
  if (states_.empty()) return {std::string(piece), nullptr};
  for (size_t at = 0; at < piece.size(); ++at) {
    const char byte = piece[at];
    for (size_t p = 0; p < states_.size(); ++p) {
      const auto& [text, failure] = patterns_->patterns_[p];
      uint32_t& state = states_[p];
      // A match that was not allowed to stop goes on as its longest border.
      if (state == text.size()) state = failure[state];
      while (state > 0 && text[state] != byte) state = failure[state];
      if (text[state] == byte) ++state;
      if (state < text.size() || !check) continue;
      std::string shown = std::exchange(held_, {});
      shown.append(piece.substr(0, at + 1));
      if (!include_stop) shown.resize(shown.size() - text.size());
      return {std::move(shown), &text};
    }
  }
  size_t hold = 0;
  for (size_t p = 0; p < states_.size(); ++p) {
    const auto& [text, failure] = patterns_->patterns_[p];
    const uint32_t state = states_[p] == text.size() ? failure[states_[p]] : states_[p];
    hold = std::max<size_t>(hold, state);
  }
  held_.append(piece);
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, shown.size());
  return {std::move(shown), nullptr};
}

std::string StopMatcher::take_held() { return std::exchange(held_, {}); }

}  // namespace octavo::frontend
