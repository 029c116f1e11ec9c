#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace octavo::config {

/// How the words after a flag are read.
enum class Kind : uint8_t {
  kSwitch,        // --x
  kBool,          // --x, --no-x
  kInt,           // one integer
  kHumanInt,      // one integer with a suffix: 25.6k, 2K, 1G
  kLength,        // kHumanInt, also "auto" = -1
  kFloat,         // one number
  kString,        // one word
  kEnum,          // one of `choices`
  kList,          // one or more words
  kJson,          // one JSON value, or dotted keys
  kJsonList,      // one JSON list of strings
  kRepeat,        // one word; every use adds one
  kBoolOrString,  // --x alone is true
};

enum class Group : uint8_t {
  kPositional,
  kOptions,
  kFrontend,
  kModel,
  kLoad,
  kAttention,
  kMamba,
  kStructuredOutputs,
  kParallel,
  kCache,
  kOffload,
  kMultiModal,
  kLora,
  kLogging,
  kObservability,
  kScheduler,
  kCompilation,
  kKernel,
  kVllm,
  kOctavo,
  kNumGroups,
};
std::string_view title_of(Group group);

enum class Stage : uint8_t {
  kBuilt,     // sets a field of Config
  kNoEffect,  // accepted; there is nothing to set
  kLater,     // only its neutral values are accepted
};

/// A value as its flag's Kind reads it; only the members of that kind are set.
struct Value {
  bool is_unset = false;  // the word was None or empty
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;  // as written, or the JSON text
  std::vector<std::string> list;
};

/// The rarer columns of a row.
struct Extra {
  std::string_view choices = {};         // separated by spaces
  std::string_view bounds = {};          // ">=1", ">0 <=1"
  std::string_view short_name = {};      // "tp" for -tp
  std::string_view neutral = {};         // kLater: accepted values beside the default
  std::string_view octavo_default = {};  // where design differs from vLLM's default
  bool is_secret = false;                // shown as ***
};

/// One row of the flag table. `default_text` is vLLM's, "unset" when it has none.
struct Flag {
  std::string_view name;  // without dashes
  Kind kind = Kind::kString;
  std::string_view default_text;
  Group group = Group::kOptions;
  char tier = 'C';
  Stage stage = Stage::kLater;
  std::string_view help;
  Extra extra = {};
  void (*apply)(Config&, const Value&) = nullptr;  // kBuilt only

  std::string_view effective_default() const {
    return extra.octavo_default.empty() ? default_text : extra.octavo_default;
  }
  bool takes_bool() const { return kind == Kind::kBool || kind == Kind::kSwitch; }
};

constexpr Flag built(std::string_view name, Kind kind, std::string_view default_text, Group group,
                     char tier, std::string_view help, void (*apply)(Config&, const Value&),
                     Extra extra = {}) {
  return {name, kind, default_text, group, tier, Stage::kBuilt, help, extra, apply};
}
constexpr Flag later(std::string_view name, Kind kind, std::string_view default_text, Group group,
                     char tier, std::string_view help = {}, Extra extra = {}) {
  return {name, kind, default_text, group, tier, Stage::kLater, help, extra, nullptr};
}
constexpr Flag no_effect(std::string_view name, Kind kind, std::string_view default_text,
                         Group group, char tier, std::string_view help, Extra extra = {}) {
  return {name, kind, default_text, group, tier, Stage::kNoEffect, help, extra, nullptr};
}

}  // namespace octavo::config
