#include "bench/command_flags.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "bench/shell_words.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

Words set(Words words, std::string_view name, const Json& value) {
  set_parameter(words, name, value);
  return words;
}

TEST(CommandFlags, WhatIsNotThereIsAppended) {
  const Words base{"octavo", "serve", "m"};
  EXPECT_EQ(set(base, "max_num_seqs", 8), (Words{"octavo", "serve", "m", "--max-num-seqs", "8"}));
  EXPECT_EQ(set(base, "enable_prefix_caching", true),
            (Words{"octavo", "serve", "m", "--enable-prefix-caching"}));
  EXPECT_EQ(set(base, "enable-prefix-caching", false),
            (Words{"octavo", "serve", "m", "--no-enable-prefix-caching"}));
  EXPECT_EQ(set(base, "request_rate", 0.5).back(), "0.5");
  EXPECT_EQ(set(base, "request_rate", "inf").back(), "inf");
  EXPECT_EQ(set(base, "extra_body", {{"a", 1}}).back(), "{\"a\":1}");
  EXPECT_EQ(set(base, "goodput", {"ttft:5", "e2el:9"}),
            (Words{"octavo", "serve", "m", "--goodput", "ttft:5", "e2el:9"}));
  EXPECT_EQ(set(base, "x", nullptr), base);
}

TEST(CommandFlags, NestedKeysKeepTheirSpelling) {
  EXPECT_EQ(set({"c"}, "compilation_config.use_inductor", true),
            (Words{"c", "--compilation-config.use_inductor=true"}));
  EXPECT_EQ(set({"c"}, "compilation_config.use_inductor", false),
            (Words{"c", "--compilation-config.use_inductor=false"}));
  EXPECT_EQ(set({"c", "--compilation-config.a_b", "1"}, "compilation_config.a_b", 2),
            (Words{"c", "--compilation-config.a_b", "2"}));
  EXPECT_EQ(set({"c", "--compilation-config.a_b", "1"}, "compilation_config.a-b", 2).size(), 5u);
}

TEST(CommandFlags, WhatIsThereIsReplacedInPlace) {
  EXPECT_EQ(set({"c", "--port", "1", "--z"}, "port", 2), (Words{"c", "--port", "2", "--z"}));
  EXPECT_EQ(set({"c", "--port=1", "--z"}, "port", 2), (Words{"c", "--port", "2", "--z"}));
  EXPECT_EQ(set({"c", "--max_num_seqs", "1", "--z"}, "max-num-seqs", 2),
            (Words{"c", "--max-num-seqs", "2", "--z"}));
  EXPECT_EQ(set({"c", "--no-cache", "--z"}, "cache", true), (Words{"c", "--cache", "--z"}));
  EXPECT_EQ(set({"c", "--cache", "--z"}, "cache", false), (Words{"c", "--no-cache", "--z"}));
  EXPECT_EQ(set({"c", "--min", "-1", "--z"}, "min", 3), (Words{"c", "--min", "3", "--z"}));
  EXPECT_EQ(set({"c", "--goodput", "a:1", "b:2", "--z"}, "goodput", {"c:3"}),
            (Words{"c", "--goodput", "c:3", "--z"}));
  EXPECT_EQ(set({"c", "--port", "1", "--z"}, "port", nullptr), (Words{"c", "--z"}));
  EXPECT_EQ(set({"c", "--port", "1", "--z", "--port=3", "--port", "4"}, "port", 2),
            (Words{"c", "--port", "2", "--z"}));
  EXPECT_EQ(set({"--port"}, "port", 2), (Words{"--port", "2"}));
  // A name is not its longer neighbour.
  EXPECT_EQ(set({"c", "--port-file", "1"}, "port", 2),
            (Words{"c", "--port-file", "1", "--port", "2"}));
}

TEST(CommandFlags, FindsValues) {
  EXPECT_EQ(find_flag({"c", "--port", "1"}, "port"), "1");
  EXPECT_EQ(find_flag({"c", "--port=1"}, "port"), "1");
  EXPECT_EQ(find_flag({"c", "--port", "--z"}, "port"), "");
  EXPECT_EQ(find_flag({"c", "--port"}, "port"), "");
  EXPECT_EQ(find_flag({"c", "--port", "1", "--port=2"}, "port"), "2");
  EXPECT_EQ(find_flag({"c", "--max_num_seqs", "4"}, "max-num-seqs"), "4");
}

TEST(ShellWords, SplitAsAShellDoes) {
  EXPECT_EQ(*split_shell_words("octavo serve  m\t--x"), (Words{"octavo", "serve", "m", "--x"}));
  EXPECT_EQ(*split_shell_words(R"(a 'b c' "d \"e\" $f" g\ h '' i"j"k)"),
            (Words{"a", "b c", "d \"e\" $f", "g h", "", "ijk"}));
  EXPECT_EQ(*split_shell_words(R"("a\n")"), (Words{R"(a\n)"}));
  for (const char* bad : {"", "   ", "a 'b", "a \"b", "a\\"}) {
    EXPECT_FALSE(split_shell_words(bad).ok()) << bad;
  }
}

TEST(ShellWords, JoinedWordsSplitIntoThemselves) {
  SplitMix64 random(5);
  constexpr std::string_view kLetters = "ab'\"\\ $*\n-=";
  for (int round = 0; round < 500; ++round) {
    Words words(1 + random.below(4));
    for (std::string& word : words) {
      for (size_t i = random.below(6); i > 0; --i) word += kLetters[random.below(kLetters.size())];
    }
    const auto split = split_shell_words(join_shell_words(words));
    ASSERT_TRUE(split.ok()) << join_shell_words(words);
    EXPECT_EQ(*split, words);
  }
}

}  // namespace
}  // namespace octavo::bench
