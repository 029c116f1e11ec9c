#include "config/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace octavo::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kTable = std::to_array<Option>({
    {"rate", OptionKind::kFloat, "inf", "Requests a second."},
    {"count", OptionKind::kInt, "1000", "Requests."},
    {"limit", OptionKind::kInt, "", "Unset by default."},
    {"verbose", OptionKind::kSwitch, "", "Say more.", {}, 'v'},
    {"stream", OptionKind::kBool, "true", "Stream."},
    {"kind", OptionKind::kChoice, "a", "Which.", "a b"},
    {"pairs", OptionKind::kList, "", "Pairs."},
    {"body", OptionKind::kJson, "", "An object."},
    {"check", OptionKind::kRepeat, "", "May repeat."},
    {"later-one", OptionKind::kText, "auto", "Not built.", {}, 0, false},
    {"later-switch", OptionKind::kSwitch, "", "Not built.", {}, 0, false},
    {"key", OptionKind::kText, "", "Secret.", {}, 'k', true, true},
});

Result<CommandLine> read(std::vector<std::string> words) {
  return CommandLine::read(kTable, words);
}
std::string failure(std::vector<std::string> words) {
  const auto line = read(std::move(words));
  return line.ok() ? "" : line.error().message;
}

TEST(CommandLine, DefaultsStandWithoutWords) {
  const auto line = read({});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->real("rate"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(line->integer("count"), 1000);
  EXPECT_FALSE(line->has("limit"));
  EXPECT_FALSE(line->flag("verbose"));
  EXPECT_TRUE(line->flag("stream"));
  EXPECT_EQ(line->text("key"), "");
  EXPECT_FALSE(line->is_given("count"));
}

TEST(CommandLine, EverySpellingOfAnOptionIsTheSame) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--rate", "2.5"}, {"--rate=2.5"}}) {
    EXPECT_EQ(read(words)->real("rate"), 2.5);
  }
  EXPECT_EQ(read({"--later_one", "auto"})->text("later-one"), "auto");
  EXPECT_FALSE(read({"--no-stream"})->flag("stream"));
  EXPECT_TRUE(read({"-v"})->flag("verbose"));
  EXPECT_EQ(read({"-k", "x"})->text("key"), "x");
  EXPECT_EQ(read({"-kx"})->text("key"), "x");
  EXPECT_EQ(read({"--limit", "-1"})->integer("limit"), -1);
}

TEST(CommandLine, ListsTakeWordsUpToTheNextOption) {
  const auto line = read({"--pairs", "a=1", "b=2", "--check", "x", "--check", "y", "rest"});
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->list("pairs"), ElementsAre("a=1", "b=2"));
  EXPECT_THAT(line->list("check"), ElementsAre("x", "y"));
  EXPECT_THAT(line->positionals(), ElementsAre("rest"));
}

TEST(CommandLine, BadWordsAreRefusedByName) {
  EXPECT_EQ(failure({"--rat", "1"}), "unrecognized arguments: --rat");
  EXPECT_EQ(failure({"-z"}), "unrecognized arguments: -z");
  EXPECT_THAT(failure({"--count", "1.5"}), HasSubstr("--count: invalid int value: '1.5'"));
  EXPECT_THAT(failure({"--count", "99999999999999999999"}), HasSubstr("invalid int"));
  EXPECT_THAT(failure({"--rate", "fast"}), HasSubstr("--rate: invalid float value: 'fast'"));
  EXPECT_THAT(failure({"--rate", "nan"}), HasSubstr("invalid float"));
  EXPECT_THAT(failure({"--kind", "c"}), HasSubstr("invalid choice: 'c' (choose from a, b)"));
  EXPECT_THAT(failure({"--body", "[1]"}), HasSubstr("JSON object"));
  EXPECT_THAT(failure({"--count"}), HasSubstr("expected one argument"));
  EXPECT_THAT(failure({"--count", "--rate", "1"}), HasSubstr("expected one argument"));
  EXPECT_THAT(failure({"--verbose=1"}), HasSubstr("ignored explicit argument"));
}

TEST(CommandLine, WhatIsNotBuiltIsRefusedUnlessItIsTheDefault) {
  EXPECT_THAT(failure({"--later-one", "b"}),
              HasSubstr("--later-one: only its default is accepted. Not built."));
  EXPECT_THAT(failure({"--later-switch"}), HasSubstr("--later-switch"));
  EXPECT_EQ(failure({"--later-one", "auto"}), "");
}

TEST(CommandLine, SecretsAreHiddenInTheNamespace) {
  const auto line = read({"--key", "hush", "--pairs", "it's"});
  EXPECT_EQ(line->as_namespace(),
            "Namespace(rate=inf, count=1000, limit=None, verbose=False, stream=True, kind='a', "
            "pairs=[\"it's\"], body=None, check=None, later_one='auto', later_switch=False, "
            "key='***')");
}

TEST(CommandLine, NumbersAreWrittenAsPythonDoes) {
  EXPECT_EQ(python_number(2), "2.0");
  EXPECT_EQ(python_number(0.5), "0.5");
  EXPECT_EQ(python_number(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace octavo::config
