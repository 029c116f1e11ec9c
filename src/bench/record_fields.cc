#include "bench/record_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace octavo::bench {
namespace {

using enum FieldRole;

constexpr std::string_view kPoolCauses =
    "kv_cache_dtype dtype block_size kv_cache_memory_bytes gpu_memory_utilization max_model_len "
    "max_num_seqs max_num_batched_tokens model path weight_format";
constexpr std::string_view kModelCauses = "model path dtype weight_format kv_cache_dtype kernel";

constexpr auto kRules = std::to_array<FieldRule>({
    {"client", kCondition, "another client measures otherwise"},
    {"client.arguments", kIgnored, "what matters of it stands in `load` and `dataset`"},
    {"client.cpu_share", kState, "above 0.8 the latencies hold the client's own queueing"},
    {"dataset", kCondition, "name, seed and the hash of all prompts and lengths"},
    {"dataset.path", kIgnored, "the hash decides"},
    {"date", kIgnored, "when it was"},
    {"errors", kOutcome, "failed requests are shown and weaken verdicts"},
    {"format", kCondition, "of the record"},
    {"gpu_state", kState, "clocks, temperature and utilisation during the run"},
    {"kv_cache", kOutcome, "peak use of the KV cache and of the batch"},
    {"load", kCondition, "backend, rate, concurrency, sampling fields, warm-ups"},
    {"metrics_delta", kOutcome, "what the server's counters gained"},
    {"noise", kState, "load, stolen time and frequency of the client's machine"},
    {"prefix_cache", kState, "cold, warm or off when the run began"},
    {"prefix_cache.hit_share", kOutcome, "share of the prompt tokens that it had"},
    {"result_file", kIgnored, "a name"},
    {"results", kOutcome, "the figures"},
    {"server", kCondition, "all that it tells of itself, but for what follows"},
    {"server.cache_config_info.kv_cache_memory_bytes", kFollows, "size of the pool", kPoolCauses},
    {"server.cache_config_info.kv_cache_size_tokens", kFollows, "size of the pool", kPoolCauses},
    {"server.cache_config_info.num_cpu_blocks", kFollows, "size of the pool", kPoolCauses},
    {"server.cache_config_info.num_gpu_blocks", kFollows, "size of the pool", kPoolCauses},
    {"server.cache_config_info.cache_dtype", kFollows, "set by --kv-cache-dtype",
     "kv_cache_dtype dtype"},
    {"server.config.cache.kv_cache_bytes", kFollows, "size of the pool", kPoolCauses},
    {"server.config.cache.kv_cache_size_tokens", kFollows, "size of the pool", kPoolCauses},
    {"server.config.cache.kv_cache_dtype", kFollows, "as the model's, unless it is set", "dtype"},
    {"server.config.cache.num_blocks", kFollows, "size of the pool", kPoolCauses},
    {"server.config.command_line", kIgnored, "what it sets is in the other fields"},
    {"server.config.image_digest", kIfKnown, "the container image"},
    {"server.config.device.kernels", kFollows, "the instruction set", "kernel"},
    {"server.config.model.revision", kIfKnown, "of a hub's cache folder"},
    {"server.config.model.weight_bytes", kFollows, "size of the weights", kModelCauses},
    {"server.config.model.weights_sha256", kIfKnown, "null until the server has computed it"},
    {"server.config.model.weights_sha256_state", kIgnored, "why the hash is null"},
    {"server.config.model.weight_format", kFollows, "of the weights", "model path"},
    {"server.config.non_default_args.api_key", kIgnored, "a secret"},
    {"server.config.non_default_args.host", kIgnored, "where it listens"},
    {"server.config.non_default_args.port", kIgnored, "where it listens"},
    {"server.config.started_s", kIgnored, "when it was"},
    {"server.config.system_fingerprint", kFollows, "of weights, types and kernels",
     "model path dtype weight_format kv_cache_dtype kernel version"},
    {"server.gpu", kCondition, "name, driver, memory, ECC of each GPU"},
    {"server.gpu.reason", kIgnored, "why there are none"},
    {"server.url", kIgnored, "where it listens; the machine is recorded by itself"},
    {"session", kIgnored, "place of the run in a `bench repeat`"},
});

constexpr FieldRule kUnlisted = {"", kCondition, "not listed"};

/// "a.b" stands for "a.b" and "a.b.c".
bool stands_for(std::string_view rule, std::string_view field) {
  return field.starts_with(rule) && (field.size() == rule.size() || field[rule.size()] == '.');
}

bool is_same_letter(char a, char b) { return (a == '-' ? '_' : a) == (b == '-' ? '_' : b); }

std::string_view name_of(FieldRole role) {
  switch (role) {
    case kCondition:
      return "condition";
    case kIfKnown:
      return "condition, if known";
    case kFollows:
      return "follows";
    case kState:
      return "state";
    case kOutcome:
      return "outcome";
    case kIgnored:
      return "ignored";
  }
  return "";
}

}  // namespace

std::span<const FieldRule> field_rules() { return kRules; }

const FieldRule& rule_of(std::string_view field) {
  const FieldRule* best = &kUnlisted;
  for (const FieldRule& rule : kRules) {
    if (stands_for(rule.field, field) && rule.field.size() > best->field.size()) best = &rule;
  }
  return *best;
}

bool is_named(std::string_view field, std::string_view name) {
  if (name.empty()) return false;
  for (size_t begin = 0; begin + name.size() <= field.size(); ++begin) {
    if (begin > 0 && field[begin - 1] != '.') continue;
    const size_t end = begin + name.size();
    if (end < field.size() && field[end] != '.') continue;
    if (std::ranges::equal(field.substr(begin, name.size()), name, is_same_letter)) return true;
  }
  return false;
}

std::string describe_field_rules() {
  std::string out =
      "# Fields of a run record\n\nGenerated; do not edit. What `octavo bench compare` makes of "
      "each "
      "field of a record (`NAME.record.json`). A rule holds for all below its field that have no "
      "rule of their own; a field without a rule is a condition. Null and absent are the same.\n\n"
      "- condition: must be equal in all runs, or be declared with `--variable`\n"
      "- condition, if known: the same where both runs know it\n"
      "- follows: a condition, unless one of its causes is declared\n"
      "- state: of the moment; what is unusual is a warning\n"
      "- outcome: what was measured\n"
      "- ignored: names, times, and what is recorded better elsewhere\n\n"
      "| field | is | why | causes |\n|---|---|---|---|\n";
  for (const FieldRule& rule : kRules) {
    out += fmt::format("| `{}` | {} | {} |{}{} |\n", rule.field, name_of(rule.role), rule.why,
                       rule.causes.empty() ? "" : " ", rule.causes);
  }
  return out;
}

}  // namespace octavo::bench
