#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace octavo::bench {

/// What a field of a run record means to a comparison.
enum class FieldRole : uint8_t {
  kCondition,  // must be equal, or declared
  kIfKnown,    // must be equal, or declared, where both runs know it
  kFollows,    // must be equal, unless one of its causes is declared
  kState,      // of the moment: a difference is a warning
  kOutcome,    // what was measured
  kIgnored,    // names, times and what is recorded better elsewhere
};

/// A rule for one field, or for all below it that have no rule of their own.
struct FieldRule {
  std::string_view field;  // "server.config.cache"
  FieldRole role = FieldRole::kCondition;
  std::string_view why;
  std::string_view causes = {};  // of kFollows: names separated by spaces
};

/// The one table of what is a condition. What has no rule is a condition.
std::span<const FieldRule> field_rules();

/// The rule with the longest name that stands for `field`.
const FieldRule& rule_of(std::string_view field);

/// Whether `name` names `field`: its words, with `-` and `_` alike, stand side by side in the
/// field's. "max-num-seqs" names "server.config.scheduler.max_num_seqs", "config.cache" all below
/// that.
bool is_named(std::string_view field, std::string_view name);

/// The table as a page of docs/reference.
std::string describe_field_rules();

}  // namespace octavo::bench
