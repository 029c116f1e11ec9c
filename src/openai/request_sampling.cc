#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "openai/request_common.h"

namespace octavo::openai {
namespace {

constexpr double kGreedyBelow = 1e-5;
constexpr double kLowestTemperature = 0.01;

/// The request's value, else the generation config's, else `fallback`.
double value_or_default(const Fields& fields, const Fields* defaults, std::string_view name,
                        double fallback) {
  if (const auto value = fields.number(name)) return *value;
  if (defaults != nullptr) {
    if (const auto value = defaults->number(name)) return *value;
  }
  return fallback;
}

int64_t integer_or_default(const Fields& fields, const Fields* defaults, std::string_view name,
                           int64_t fallback) {
  if (const auto value = fields.integer(name)) return *value;
  if (defaults != nullptr) {
    if (const auto value = defaults->integer(name)) return *value;
  }
  return fallback;
}

void parse_penalties(const Fields& fields, const Fields* defaults, engine::SamplingParams& out) {
  RequestErrors& errors = fields.errors();
  const auto penalty = [&](const char* name, float& to) {
    const double value = value_or_default(fields, defaults, name, 0.0);
    if (!(value >= -2.0 && value <= 2.0)) {
      errors.range(name, "must be in [-2, 2]", fmt::format("{}", value));
    }
    to = static_cast<float>(value);
  };
  penalty("presence_penalty", out.presence_penalty);
  penalty("frequency_penalty", out.frequency_penalty);
  const double repetition = value_or_default(fields, defaults, "repetition_penalty", 1.0);
  // The contract says greater than 0 and finite; beyond these bounds scaled logits leave the range
  // of a float and no token could be chosen.
  if (!(repetition >= 1e-6 && repetition <= 1e6)) {
    errors.range("repetition_penalty", "must be greater than 0, and in [1e-6, 1e6]",
                 fmt::format("{}", repetition));
  }
  out.repetition_penalty = static_cast<float>(std::clamp(repetition, 1e-6, 1e6));
}

void parse_truncation(const Fields& fields, const Fields* defaults, engine::SamplingParams& out) {
  RequestErrors& errors = fields.errors();
  const double top_p = value_or_default(fields, defaults, "top_p", 1.0);
  out.top_p = static_cast<float>(top_p);
  if (!(out.top_p > 0.0f && top_p <= 1.0)) {
    errors.range("top_p", "must be in (0, 1]", fmt::format("{}", top_p));
  }
  const int64_t top_k = integer_or_default(fields, defaults, "top_k", 0);
  if (top_k < -1) errors.range("top_k", "must be at least -1", fmt::format("{}", top_k));
  out.top_k =
      top_k <= 0 || top_k > std::numeric_limits<int32_t>::max() ? 0 : static_cast<int32_t>(top_k);
  const double min_p = value_or_default(fields, defaults, "min_p", 0.0);
  if (!(min_p >= 0.0 && min_p <= 1.0)) {
    errors.range("min_p", "must be in [0, 1]", fmt::format("{}", min_p));
  }
  out.min_p = static_cast<float>(min_p);
}

/// Ends of sequence beyond the primary one are stop tokens: `eos_token_id` as the file has it, or
/// already taken apart as `stop_token_ids`.
void add_eos_ids(const Fields& defaults, const ApiContext& api, engine::SamplingParams& out) {
  if (out.ignore_eos) return;
  const int64_t vocab_size = api.frontend->engine_info().vocab_size;
  for (const char* name : {"eos_token_id", "stop_token_ids"}) {
    const auto element = defaults.find(name);
    if (!element || !element->is_array()) continue;
    for (const JsonElement id : array_of(*element)) {
      const auto value = as_integer(id);
      if (!value || *value < 0 || *value >= vocab_size) continue;
      if (*value == api.frontend->tokenizer().eos_token_id()) continue;
      out.stop_token_ids.push_back(static_cast<engine::TokenId>(*value));
    }
  }
}

void parse_temperature(const Fields& fields, const Fields* defaults, CommonRequest& out) {
  RequestErrors& errors = fields.errors();
  double temperature = value_or_default(fields, defaults, "temperature", 1.0);
  if (!(temperature >= 0.0 && temperature <= 2.0)) {
    errors.range("temperature", "must be in [0, 2]", fmt::format("{}", temperature));
  }
  if (temperature < kGreedyBelow) {
    temperature = 0.0;
    out.sampling.top_p = 1.0f;
    out.sampling.top_k = 0;
    out.sampling.min_p = 0.0f;
    if (out.n > 1) {
      errors.range("n", "must be 1 when using greedy sampling", fmt::format("{}", out.n));
    }
  } else if (temperature < kLowestTemperature) {
    temperature = kLowestTemperature;
  }
  out.sampling.temperature = static_cast<float>(temperature);
}

}  // namespace

void parse_sampling(const Fields& fields, const ApiContext& api, CommonRequest& out) {
  RequestErrors ignored;  // of the operator's file, which was checked at start
  std::optional<JsonBody> body;
  std::optional<Fields> defaults;
  if (!api.default_sampling_json.empty()) {
    if (auto parsed = JsonBody::parse(api.default_sampling_json, 32); parsed.ok()) {
      body = std::move(parsed).value();
      defaults.emplace(object_of(body->root()), "", ignored);
    }
  }
  const Fields* server = defaults ? &*defaults : nullptr;
  parse_penalties(fields, server, out.sampling);
  parse_truncation(fields, server, out.sampling);
  parse_temperature(fields, server, out);
  if (const auto seed = fields.integer("seed"); seed && *seed != -1) out.sampling.seed = *seed;
  out.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  if (server == nullptr) return;
  add_eos_ids(*server, api, out.sampling);
  if (const auto cap = server->integer("max_new_tokens"); cap && *cap >= 1) {
    out.max_tokens_cap = *cap;
  }
  if (!fields.find("skip_special_tokens")) {
    out.text.skip_special_tokens = server->boolean("skip_special_tokens").value_or(true);
  }
}

}  // namespace octavo::openai
