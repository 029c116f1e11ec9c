#include "config/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace octavo::config {
namespace {

struct Variable {
  std::string_view name;
  std::string_view allowed;
  /// False when `text` is not `allowed`.
  bool (*apply)(Config&, const std::string& text);
};

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool set_integer(int64_t& field, const std::string& text, int64_t least, int64_t most) {
  const auto value = number<int64_t>(text);
  if (!value || *value < least || *value > most) return false;
  field = *value;
  return true;
}

/// vLLM reads these as bool(int(text)).
bool set_bool(bool& field, const std::string& text) {
  const auto value = number<int64_t>(text);
  if (value) field = *value != 0;
  return value.has_value();
}

bool set_log_level(Config& c, const std::string& text) {
  std::string level = text;
  std::transform(level.begin(), level.end(), level.begin(),
                 [](unsigned char ch) { return std::toupper(ch); });
  constexpr auto kLevels =
      std::to_array<std::string_view>({"CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"});
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) return false;
  c.log_level = level;
  return true;
}

/// Zero or less means the default, as in vLLM.
bool set_log_stats_interval(Config& c, const std::string& text) {
  const auto value = number<double>(text);
  if (!value || !(*value < 1e9)) return false;
  if (*value > 0) c.frontend.log_stats_interval_s = *value;
  return true;
}

/// GiB; 0 means that the share of memory decides.
bool set_kv_cache_space(Config& c, const std::string& text) {
  const auto value = number<int64_t>(text);
  constexpr int64_t kMaxGib = int64_t{1} << 20;
  if (!value || *value < 0 || *value > kMaxGib) return false;
  if (*value > 0) c.engine.cache.kv_cache_memory_bytes = *value << 30;
  return true;
}

constexpr int64_t kMaxCount = int64_t{1} << 31;
constexpr auto kVariables = std::to_array<Variable>({
    {"VLLM_API_KEY", "a key",
     [](Config& c, const std::string& t) {
       c.server.api_key = {t};
       return true;
     }},
    {"VLLM_LOGGING_LEVEL", "CRITICAL, ERROR, WARNING, INFO, DEBUG or NOTSET", set_log_level},
    {"VLLM_LOG_STATS_INTERVAL", "a number of seconds", set_log_stats_interval},
    {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "a number of seconds, 0 to 86400",
     [](Config& c, const std::string& t) {
       return set_integer(c.server.keep_alive_timeout_s, t, 0, 86400);
     }},
    {"VLLM_HTTP_MAX_REQUEST_BODY_SIZE", "a number of bytes, at least 1",
     [](Config& c, const std::string& t) {
       return set_integer(c.server.max_request_body_bytes, t, 1, INT64_MAX);
     }},
    {"VLLM_CPU_KVCACHE_SPACE", "a whole number of GiB", set_kv_cache_space},
    {"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "0 or 1",
     [](Config& c, const std::string& t) {
       return set_bool(c.server.keep_alive_on_engine_death, t);
     }},
    {"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0 or 1",
     [](Config& c, const std::string& t) {
       return set_bool(c.engine.model.allow_long_max_model_len, t);
     }},
    {"VLLM_SKIP_MODEL_NAME_VALIDATION", "0 or 1",
     [](Config& c, const std::string& t) {
       return set_bool(c.frontend.skip_model_name_validation, t);
     }},
    {"VLLM_MAX_N_SEQUENCES", "a count, at least 1",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_n_sequences, t, 1, kMaxCount);
     }},
    {"VLLM_MAX_COMPLETION_PROMPTS", "a count, at least 1",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_completion_prompts, t, 1, kMaxCount);
     }},
    {"VLLM_MAX_STOP_STRINGS", "a count",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_stop_strings, t, 0, kMaxCount);
     }},
    {"VLLM_MAX_NUM_BAD_WORDS", "a count",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_num_bad_words, t, 0, kMaxCount);
     }},
    {"PYTHONHASHSEED", "a text",
     [](Config& c, const std::string& t) {
       c.engine.cache.python_hash_seed = t;
       return true;
     }},
    {"OCTAVO_PROFILE", "0 or 1",
     [](Config& c, const std::string& t) { return set_bool(c.engine.profile, t); }},
    // The engine checks it: only it knows whether the build has the hooks.
    {"OCTAVO_FAULT", "kill@N or stall@N",
     [](Config& c, const std::string& t) {
       c.engine.fault = t;
       return true;
     }},
});

}  // namespace

EnvironmentLookup process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::vector<std::string> process_variable_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::vector<std::string> unread_variables(std::span<const std::string> names) {
  std::vector<std::string> unread;
  for (const std::string& name : names) {
    if (!name.starts_with("VLLM_")) continue;
    if (std::ranges::find(kVariables, name, &Variable::name) == kVariables.end()) {
      unread.push_back(name);
    }
  }
  std::ranges::sort(unread);
  return unread;
}

Status apply_environment(const EnvironmentLookup& lookup, Config& config) {
  for (const Variable& variable : kVariables) {
    const std::optional<std::string> text = lookup(variable.name);
    if (!text || text->empty()) continue;
    if (!variable.apply(config, *text)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("environment variable {} is '{}', allowed is {}", variable.name,
                               *text, variable.allowed)};
    }
  }
  return {};
}

}  // namespace octavo::config
