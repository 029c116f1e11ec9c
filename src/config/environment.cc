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
  std::string_view meaning;
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
    {"VLLM_API_KEY", "a key", "the key that clients must present, when `--api-key` is absent",
     [](Config& c, const std::string& t) {
       c.server.api_key = {t};
       return true;
     }},
    {"VLLM_LOGGING_LEVEL", "CRITICAL, ERROR, WARNING, INFO, DEBUG or NOTSET",
     "least level that is logged, when `--log-level` is absent", set_log_level},
    {"VLLM_LOG_STATS_INTERVAL", "a number of seconds",
     "seconds between two stats lines; 0 or less: the default", set_log_stats_interval},
    {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "a number of seconds, 0 to 86400",
     "how long an idle connection stays open",
     [](Config& c, const std::string& t) {
       return set_integer(c.server.keep_alive_timeout_s, t, 0, 86400);
     }},
    {"VLLM_HTTP_MAX_REQUEST_BODY_SIZE", "a number of bytes, at least 1",
     "longest request body that is read",
     [](Config& c, const std::string& t) {
       return set_integer(c.server.max_request_body_bytes, t, 1, INT64_MAX);
     }},
    {"VLLM_CPU_KVCACHE_SPACE", "a whole number of GiB",
     "size of the KV cache; 0: the share of memory decides", set_kv_cache_space},
    // The list is read against the machine when the threads are planned.
    {"VLLM_CPU_OMP_THREADS_BIND", "auto, nobind or a list of CPUs",
     "CPUs of the compute threads, one each; auto: the CPUs of one NUMA node where there are "
     "several, else not bound",
     [](Config& c, const std::string& t) {
       c.engine.cpus = t;
       return !t.empty();
     }},
    {"VLLM_CPU_NUM_OF_RESERVED_CPU", "a count of CPUs", "CPUs that auto leaves to others",
     [](Config& c, const std::string& t) {
       const auto value = number<int>(t);
       if (!value || *value < 0 || *value > 4096) return false;
       c.engine.num_reserved_cpus = *value;
       return true;
     }},
    {"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "0 or 1",
     "whether the server stays up, answering errors, when the engine has died",
     [](Config& c, const std::string& t) {
       return set_bool(c.server.keep_alive_on_engine_death, t);
     }},
    {"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0 or 1",
     "allows a `--max-model-len` above the model's own limit",
     [](Config& c, const std::string& t) {
       return set_bool(c.engine.model.allow_long_max_model_len, t);
     }},
    {"VLLM_SKIP_MODEL_NAME_VALIDATION", "0 or 1", "accepts any model name in requests",
     [](Config& c, const std::string& t) {
       return set_bool(c.frontend.skip_model_name_validation, t);
     }},
    {"VLLM_MAX_N_SEQUENCES", "a count, at least 1", "highest `n` of a request",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_n_sequences, t, 1, kMaxCount);
     }},
    {"VLLM_MAX_COMPLETION_PROMPTS", "a count, at least 1",
     "most prompts of one completions request",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_completion_prompts, t, 1, kMaxCount);
     }},
    {"VLLM_MAX_STOP_STRINGS", "a count", "most `stop` strings of a request",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_stop_strings, t, 0, kMaxCount);
     }},
    {"VLLM_MAX_NUM_BAD_WORDS", "a count", "most `bad_words` of a request",
     [](Config& c, const std::string& t) {
       return set_integer(c.frontend.max_num_bad_words, t, 0, kMaxCount);
     }},
    {"PYTHONHASHSEED", "a text", "seed of the prefix cache's hashes",
     [](Config& c, const std::string& t) {
       c.engine.cache.python_hash_seed = t;
       return true;
     }},
    {"OCTAVO_PROFILE", "0 or 1", "adds up the time of each op and prints it when the server ends",
     [](Config& c, const std::string& t) { return set_bool(c.engine.profile, t); }},
    // The engine checks it: only it knows whether the build has the hooks.
    {"OCTAVO_FAULT", "kill@N or stall@N",
     "builds with fault hooks only: what a test breaks in step N",
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

std::string environment_markdown() {
  std::string out = "| variable | value | meaning |\n|---|---|---|\n";
  for (const Variable& variable : kVariables) {
    out += fmt::format("| `{}` | {} | {} |\n", variable.name, variable.allowed, variable.meaning);
  }
  return out;
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
