#include "frontend/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace octavo::frontend {
namespace {

StopMatcher matcher(std::vector<std::string> stop) {
  return StopMatcher(std::make_shared<StopPatterns>(stop, 1 << 20));
}

TEST(StopMatcher, WithoutStopStringsEverythingIsShownAtOnce) {
  StopMatcher m = matcher({});
  EXPECT_EQ(m.push("abc", true, false).text, "abc");
  EXPECT_EQ(m.take_held(), "");
}

TEST(StopMatcher, BL016_HoldsBackOnlyARealPrefixOfAStopString) {
  StopMatcher m = matcher({"###########"});
  EXPECT_EQ(m.push("alpha ", true, false).text, "alpha ");
  EXPECT_EQ(m.push("beta#", true, false).text, "beta");
  EXPECT_EQ(m.push("#x", true, false).text, "##x");
  EXPECT_EQ(m.take_held(), "");
}

TEST(StopMatcher, BL020_CutsInTheMiddleOfTokens) {
  StopMatcher m = matcher({"ta gam"});
  EXPECT_EQ(m.push("alpha be", true, false).text, "alpha be");
  EXPECT_EQ(m.push("ta", true, false).text, "");
  const auto end = m.push(" gamma", true, false);
  ASSERT_NE(end.stop, nullptr);
  EXPECT_EQ(*end.stop, "ta gam");
  EXPECT_EQ(end.text, "");
}

TEST(StopMatcher, BL019_IncludedStopStringEndsTheText) {
  StopMatcher m = matcher({"."});
  EXPECT_EQ(m.push("One. Two.", true, true).text, "One.");
  StopMatcher without = matcher({"."});
  EXPECT_EQ(without.push("One. Two.", true, false).text, "One");
}

TEST(StopMatcher, EarliestCompletionWinsThenListOrder) {
  StopMatcher m = matcher({"abcd", "bc", "c"});
  const auto end = m.push("xabcd", true, false);
  EXPECT_EQ(*end.stop, "bc");
  EXPECT_EQ(end.text, "xa");
}

TEST(StopMatcher, BL022_GateLetsAMatchPassAndStopsAtTheNextOne) {
  StopMatcher m = matcher({"."});
  auto first = m.push("a.b", false, false);
  EXPECT_EQ(first.text, "a.b");
  EXPECT_EQ(first.stop, nullptr);
  EXPECT_EQ(m.push("c.d", true, false).text, "c");
}

TEST(StopMatcher, AMatchMayBeginBeforeTheGateAndEndAfterIt) {
  StopMatcher m = matcher({"abab"});
  EXPECT_EQ(m.push("xababab", false, false).text,
            "xab"
            "ab");
  const auto end = m.push("ab", true, false);
  ASSERT_NE(end.stop, nullptr);
  EXPECT_EQ(end.text, "");
}

TEST(StopMatcher, StringThatCannotFitIsIgnored) {
  StopMatcher m(
      std::make_shared<StopPatterns>(std::vector<std::string>{std::string(100, 'a')}, 10));
  EXPECT_EQ(m.push("aaa", true, false).text, "aaa");
}

TEST(StopMatcher, AnyCutOfTheTextGivesWhatANaiveSearchGives) {
  SplitMix64 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stop(1 + random.below(3));
    for (auto& s : stop)
      for (uint64_t n = 1 + random.below(4); n > 0; --n)
        s += static_cast<char>('a' + random.below(2));
    std::string text;
    for (uint64_t n = random.below(24); n > 0; --n)
      text += static_cast<char>('a' + random.below(3));
    size_t best_end = std::string::npos, best = 0;
    for (size_t i = 0; i < stop.size(); ++i) {
      const size_t at = text.find(stop[i]);
      if (at == std::string::npos || at + stop[i].size() >= best_end) continue;
      best_end = at + stop[i].size(), best = i;
    }
    const bool found = best_end != std::string::npos;
    const std::string expected = found ? text.substr(0, best_end - stop[best].size()) : text;

    StopMatcher m = matcher(stop);
    std::string shown;
    bool stopped = false;
    for (size_t at = 0; at < text.size() && !stopped;) {
      const size_t n = 1 + random.below(4);
      auto result = m.push(std::string_view(text).substr(at, n), true, false);
      shown += result.text;
      stopped = result.stop != nullptr;
      if (stopped) {
        EXPECT_EQ(*result.stop, stop[best]);
      }
      at += n;
    }
    if (!stopped) shown += m.take_held();
    EXPECT_EQ(stopped, found) << text;
    EXPECT_EQ(shown, expected) << text;
  }
}

}  // namespace
}  // namespace octavo::frontend
