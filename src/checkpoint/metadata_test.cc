#include "checkpoint/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace octavo::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Metadata parsed(std::string_view text) {
  auto result = parse_json_metadata(text, "f.json");
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(result).value() : Metadata();
}

std::string error_of(std::string_view text) {
  const auto result = parse_json_metadata(text, "f.json");
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? "" : result.error().message;
}

TEST(Metadata, ReadsEveryJsonType) {
  const Metadata m = parsed(
      R"( {"i": -3, "d": 1.5e3, "s": "a\u00e9\n", "t": true, "n": null, "a": [1, 2], "l": ["x", "y"], "o": {"k": 0}} )");
  EXPECT_EQ(m.find("i")->as_int(), -3);
  EXPECT_EQ(m.find("i")->as_double(), -3.0);
  EXPECT_EQ(m.find("d")->as_double(), 1500.0);
  EXPECT_EQ(m.find("d")->as_int(), 1500);
  EXPECT_EQ(*m.find("s")->as_string(), "a\xc3\xa9\n");
  EXPECT_EQ(m.find("t")->as_bool(), true);
  EXPECT_EQ(m.find("n"), nullptr);
  EXPECT_EQ(m.find("missing"), nullptr);
  EXPECT_THAT(*m.find("a")->as_ints(), ElementsAre(1, 2));
  EXPECT_THAT(*m.find("i")->as_ints(), ElementsAre(-3));
  EXPECT_THAT(*m.find("l")->as_string_list(), ElementsAre("x", "y"));
  EXPECT_EQ(m.find("o")->find("k")->as_int(), 0);
  EXPECT_EQ(m.find("a")->find("k"), nullptr);
}

TEST(Metadata, AccessorsOfAnotherTypeAreEmpty) {
  const Metadata m = parsed(R"({"s": "x", "f": 1.5, "mixed": [1, "x"]})");
  EXPECT_EQ(m.find("s")->as_int(), std::nullopt);
  EXPECT_EQ(m.find("s")->as_bool(), std::nullopt);
  EXPECT_EQ(m.find("f")->as_int(), std::nullopt);
  EXPECT_EQ(m.find("f")->as_string(), nullptr);
  EXPECT_EQ(m.find("mixed")->as_ints(), std::nullopt);
  EXPECT_EQ(m.find("mixed")->as_string_list(), std::nullopt);
  EXPECT_EQ(m.as_strings(), nullptr);
  EXPECT_EQ(m.as_int32s(), nullptr);
  EXPECT_EQ(m.as_floats(), nullptr);
}

TEST(Metadata, IntegersBeyond64BitsBecomeDoubles) {
  const Metadata m = parsed(
      R"({"big": 1000000000000000019884624838656, "max": 9223372036854775807, "over": 9223372036854775808})");
  EXPECT_DOUBLE_EQ(*m.find("big")->as_double(), 1e30);
  EXPECT_EQ(m.find("big")->as_int(), std::nullopt);
  EXPECT_EQ(m.find("max")->as_int(), INT64_MAX);
  EXPECT_EQ(m.find("over")->as_int(), std::nullopt);
}

TEST(Metadata, PythonsInfinityAndNanAreRead) {
  const Metadata m = parsed(R"({"limit": [0.0, Infinity], "low": -Infinity, "nan": NaN})");
  EXPECT_TRUE(std::isinf(*m.find("low")->as_double()));
  EXPECT_TRUE(std::isnan(*m.find("nan")->as_double()));
  EXPECT_EQ(m.find("nan")->as_int(), std::nullopt);
}

TEST(Metadata, DuplicateKeyIsAnErrorThatNamesKeyAndByte) {
  EXPECT_EQ(error_of(R"({"a": 1, "a": 2})"), "f.json: invalid JSON at byte 9: duplicate key 'a'");
  // The same key in another spelling.
  EXPECT_THAT(error_of(R"({"a": 1, "\u0061": 2})"), HasSubstr("duplicate key 'a'"));
}

TEST(Metadata, DepthEndsAt128) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json_metadata(nested(128), "f").ok());
  EXPECT_THAT(error_of(nested(129)), HasSubstr("byte 128: nested deeper than 128 levels"));
  EXPECT_FALSE(parse_json_metadata(nested(100'000), "f").ok());
  EXPECT_FALSE(parse_json_metadata(std::string(1'000'000, '['), "f").ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_FALSE(parse_json_metadata(objects, "f").ok());
}

TEST(Metadata, MalformedTextIsAnErrorWithFileAndByte) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[1 2]",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "{1:1}",
                           "[01]",
                           "[1.]",
                           "[.5]",
                           "[+1]",
                           "[1e]",
                           "[--1]",
                           "[tru]",
                           "[True]",
                           "[nul]",
                           "[\"a]",
                           "[\"\\x\"]",
                           "[\"\\ud800\"]",
                           "[\"\x01\"]",
                           "[\"\xff\"]",
                           "{} {}",
                           "[] x",
                           "[]]",
                           "1",
                           "\"a\"",
                           "[1e999]",
                           "[,1]",
                           "{,}",
                           "[1}",
                           "{\"a\":1]",
                           "[0x1]",
                           "[infinity]",
                           "[1-]",
                           "[\"a\" \"b\"]"}) {
    EXPECT_THAT(error_of(text), HasSubstr("f.json: invalid JSON at byte ")) << text;
  }
}

TEST(Metadata, EveryPrefixIsAnError) {
  const std::string text = R"({"a": [1, 2.5e-3, "x\n"], "b": {"c": null, "d": true}})";
  ASSERT_TRUE(parse_json_metadata(text, "f").ok());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(parse_json_metadata(text.substr(0, size), "f").ok()) << size;
  }
}

}  // namespace
}  // namespace octavo::checkpoint
