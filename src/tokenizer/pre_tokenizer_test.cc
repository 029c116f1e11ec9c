#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace octavo::tokenizer {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Pieces pieces;
  pre_tokenizer.split(text, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  return pieces;
}

PreTokenizer one_step(SplitStep step) {
  std::vector<PreTokenizer::Step> steps;
  steps.push_back(std::move(step));
  return PreTokenizer(std::move(steps));
}

PreTokenizer by_regex(std::string_view pattern) {
  auto regex = Regex::create(pattern);
  EXPECT_TRUE(regex.ok()) << regex.error().message;
  return one_step(SplitStep{std::move(regex).value()});
}

PreTokenizer by_scanner(std::string_view pattern) {
  return one_step(SplitStep{Scanner::for_pattern(pattern).value()});
}

/// Text of what patterns treat differently: contractions, spaces, newlines, digits, marks.
std::string random_text(std::mt19937& random) {
  static constexpr std::string_view kParts[] = {"the",
                                                "Hello",
                                                "\xC3\xA9t\xC3\xA9",
                                                "\xE6\x97\xA5\xE6\x9C\xAC",
                                                "e\xCC\x81",
                                                "12",
                                                "3",
                                                "\xE2\x85\xA7",
                                                "\xC2\xBD",
                                                " ",
                                                "  ",
                                                "\n",
                                                "\r\n",
                                                "\t",
                                                "\xC2\xA0",
                                                "\xE3\x80\x80",
                                                "\xE2\x80\xA8",
                                                "'s",
                                                "'S",
                                                "'\xC5\xBF",
                                                "'Ll",
                                                "'vE",
                                                "'",
                                                "''d",
                                                "...",
                                                "!",
                                                "_",
                                                "\xF0\x9F\x91\xA9\xE2\x80\x8D",
                                                "\xCC\x81",
                                                "/",
                                                "\xE2\x82\xAC"};
  std::string text;
  for (size_t n = random() % 30; n > 0; --n) text += kParts[random() % std::size(kParts)];
  return text;
}

class KnownPattern : public testing::TestWithParam<std::string_view> {};

// The hand-written scanner against PCRE2 with the same classes: two independent readings.
TEST_P(KnownPattern, ScannerCutsAsTheRegexDoes) {
  const PreTokenizer regex = by_regex(GetParam()), scanner = by_scanner(GetParam());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random);
    ASSERT_EQ(pieces_of(scanner, text), pieces_of(regex, text)) << text;
  }
}

TEST_P(KnownPattern, PiecesCoverAnyBytes) {
  const PreTokenizer scanner = by_scanner(GetParam());
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 20, ' ');
    for (char& byte : bytes) byte = char(random());
    std::string joined;
    for (const std::string& piece : pieces_of(scanner, bytes)) joined += piece;
    ASSERT_EQ(joined, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, KnownPattern,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern,
                                         kQwen2MarksPattern));

TEST(PreTokenizer, TheLastSpaceBelongsToTheWord) {
  EXPECT_EQ(pieces_of(by_scanner(kGpt2Pattern), "a   b  "), (Pieces{"a", "  ", " b", "  "}));
  EXPECT_EQ(pieces_of(by_scanner(kLlama3Pattern), "a \n  b1234"),
            (Pieces{"a", " \n", " ", " b", "123", "4"}));
}

TEST(PreTokenizer, NewLettersAreLetters) {
  // U+16D40 is a letter since Unicode 16, which PCRE2 on Debian 12 does not know.
  EXPECT_EQ(pieces_of(by_scanner(kQwen2Pattern), "a\xF0\x96\xB5\x80z").size(), 1u);
  EXPECT_EQ(pieces_of(by_regex(R"(\p{L}+)"), "a\xF0\x96\xB5\x80z").size(), 1u);
  EXPECT_EQ(pieces_of(by_regex(R"([^\P{L}]+)"), "a\xF0\x96\xB5\x80z").size(), 1u);
}

// Expected pieces are those of the reference for the same Split.
TEST(PreTokenizer, BehaviorsOfSplit) {
  auto split = [&](SplitBehavior behavior, bool invert) {
    return pieces_of(one_step(SplitStep{LiteralPattern{"-"}, behavior, invert}), "the-final--x-");
  };
  EXPECT_EQ(split(SplitBehavior::kIsolated, false),
            (Pieces{"the", "-", "final", "-", "-", "x", "-"}));
  EXPECT_EQ(split(SplitBehavior::kRemoved, false), (Pieces{"the", "final", "x"}));
  EXPECT_EQ(split(SplitBehavior::kRemoved, true), (Pieces{"-", "-", "-", "-"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious, false),
            (Pieces{"the-", "final-", "-", "x-"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext, false),
            (Pieces{"the", "-final", "-", "-x", "-"}));
  EXPECT_EQ(split(SplitBehavior::kContiguous, false),
            (Pieces{"the", "-", "final", "--", "x", "-"}));
}

TEST(PreTokenizer, StepsRunOnThePiecesOfTheStepBefore) {
  std::vector<PreTokenizer::Step> steps;
  steps.push_back(SplitStep{CharPattern::kNumeric});
  steps.push_back(PrefixSpaceStep{});
  steps.push_back(SplitStep{*Scanner::for_pattern(kGpt2Pattern)});
  EXPECT_EQ(pieces_of(PreTokenizer(std::move(steps)), "ab12 c"), (Pieces{" ab", " 1", " 2", " c"}));
}

TEST(PreTokenizer, TheSinkCanStop) {
  int count = 0;
  by_scanner(kGpt2Pattern).split("a b c d e", [&](std::string_view) { return ++count < 2; });
  EXPECT_EQ(count, 2);
}

TEST(Regex, RefusesWhatItCannotCompile) {
  EXPECT_FALSE(Regex::create("").ok());
  EXPECT_FALSE(Regex::create("(").ok());
  EXPECT_FALSE(Regex::create(R"(\p{NoSuchClass})").ok());
  EXPECT_FALSE(Regex::create(std::string(100000, 'a')).ok());
  EXPECT_FALSE(Regex::create(std::string(1000, '(') + std::string(1000, ')')).ok());
}

TEST(Regex, AnExplodingSearchFindsNothing) {
  const PreTokenizer pre_tokenizer = by_regex("(a|aa|a?)+$");
  EXPECT_EQ(pieces_of(pre_tokenizer, std::string(1000, 'a') + "b").size(), 1u);
}

}  // namespace
}  // namespace octavo::tokenizer
