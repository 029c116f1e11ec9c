#include "bench/record_fields.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

namespace octavo::bench {
namespace {

TEST(RecordFields, TheLongestRuleDecides) {
  EXPECT_EQ(rule_of("load.request_rate").role, FieldRole::kCondition);
  EXPECT_EQ(rule_of("client.cpu_share").role, FieldRole::kState);
  EXPECT_EQ(rule_of("client.version").role, FieldRole::kCondition);
  EXPECT_EQ(rule_of("server.config.cache.num_blocks").role, FieldRole::kFollows);
  EXPECT_EQ(rule_of("server.url").role, FieldRole::kIgnored);
  EXPECT_EQ(rule_of("server.urls").role, FieldRole::kCondition);
  EXPECT_EQ(rule_of("results.mean_ttft_ms").role, FieldRole::kOutcome);
}

TEST(RecordFields, WhatHasNoRuleIsACondition) {
  EXPECT_EQ(rule_of("surprise.deep.inside").role, FieldRole::kCondition);
  EXPECT_EQ(rule_of("").role, FieldRole::kCondition);
}

TEST(RecordFields, NamesAreWordsSideBySide) {
  const char* field = "server.config.scheduler.max_num_seqs";
  EXPECT_TRUE(is_named(field, "max_num_seqs"));
  EXPECT_TRUE(is_named(field, "max-num-seqs"));
  EXPECT_TRUE(is_named(field, "scheduler.max_num_seqs"));
  EXPECT_TRUE(is_named(field, "config.scheduler"));
  EXPECT_TRUE(is_named(field, "server"));
  EXPECT_FALSE(is_named(field, "num_seqs"));
  EXPECT_FALSE(is_named(field, "max_num"));
  EXPECT_FALSE(is_named(field, "server.scheduler"));
  EXPECT_FALSE(is_named(field, ""));
}

TEST(RecordFields, RulesStandOnceEachAndOnlyFollowersHaveCauses) {
  std::set<std::string_view> names;
  for (const FieldRule& rule : field_rules()) {
    EXPECT_TRUE(names.insert(rule.field).second) << rule.field;
    EXPECT_EQ(rule.role == FieldRole::kFollows, !rule.causes.empty()) << rule.field;
    EXPECT_FALSE(rule.why.empty()) << rule.field;
  }
}

TEST(RecordFields, ThePageIsCurrent) {
  const std::string path = OCTAVO_SOURCE_DIR "/docs/reference/record-fields.md";
  const std::string page = describe_field_rules();
  if (std::getenv("OCTAVO_UPDATE_DOCS") != nullptr) std::ofstream(path) << page;
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, page) << "run with OCTAVO_UPDATE_DOCS=1 and commit " << path;
}

}  // namespace
}  // namespace octavo::bench
