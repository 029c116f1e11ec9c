#include "config/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/json_value.h"

namespace octavo::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HumanInteger, SuffixesArePowersOf1000And1024) {
  const std::vector<std::pair<const char*, int64_t>> cases = {
      {"0", 0},
      {"-1", -1},
      {"+5", 5},
      {"1k", 1000},
      {"25.6k", 25600},
      {"2.3k", 2300},
      {"1K", 1024},
      {"192M", 192 << 20},
      {"1.5m", 1500000},
      {"1g", 1000000000},
      {"4G", int64_t{4} << 30},
      {"1T", int64_t{1} << 40},
      {"1t", 1000000000000},
      {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [word, expected] : cases) {
    const auto value = parse_human_integer(word);
    ASSERT_TRUE(value.ok()) << word;
    EXPECT_EQ(*value, expected) << word;
  }
}

TEST(HumanInteger, WhatIsNoneIsAnError) {
  for (const char* word :
       {"", "k", "1.5", "1.5K", "1kk", "1 k", "x", "1e3", "-1k", "1..5k", ".k",
        "9223372036854775808", "9223372036854775807k", "99999999T", "0x10", "1b"}) {
    EXPECT_FALSE(parse_human_integer(word).ok()) << word;
  }
  EXPECT_THAT(parse_human_integer("25.6K").error().message, HasSubstr("did you mean 25.6k?"));
}

TEST(JsonValue, MergesDottedKeys) {
  JsonValue value;
  ASSERT_TRUE(value.replace(R"({"a": {"x": 1}, "n": 25.6k, "s": "5k"})").ok());
  ASSERT_TRUE(value.merge("a.y", "true", false).ok());
  ASSERT_TRUE(value.merge("a.x", "4K", false).ok());
  ASSERT_TRUE(value.merge("m", "ngram", false).ok());
  ASSERT_TRUE(value.merge("list", "a", true).ok());
  ASSERT_TRUE(value.merge("list", "b,2", true).ok());
  EXPECT_EQ(value.text(),
            R"({"a":{"x":4096,"y":true},"list":["a","b",2],"m":"ngram","n":25600,"s":"5k"})");
}

TEST(JsonValue, RefusesWhatIsNoObject) {
  JsonValue value;
  EXPECT_FALSE(value.replace("[]").ok());
  EXPECT_FALSE(value.replace("{").ok());
  EXPECT_FALSE(value.replace("3").ok());
  EXPECT_FALSE(value.merge("a..b", "1", false).ok());
  EXPECT_FALSE(value.merge(".a", "1", false).ok());
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "a.";
  EXPECT_FALSE(value.merge(deep + "b", "1", false).ok());
  EXPECT_FALSE(value.replace(std::string(100'000, '[')).ok());
  std::string nested;
  for (int i = 0; i < 10'000; ++i) nested += "{\"a\":";
  EXPECT_FALSE(value.replace(nested).ok());
}

TEST(JsonStrings, TakesAListOfStringsOnly) {
  EXPECT_THAT(*parse_json_strings(R"(["a", "b"])"), ElementsAre("a", "b"));
  EXPECT_TRUE(parse_json_strings("[]")->empty());
  for (const char* text : {"a", "[1]", "{}", "\"a\"", ""}) {
    EXPECT_FALSE(parse_json_strings(text).ok()) << text;
  }
}

}  // namespace
}  // namespace octavo::config
