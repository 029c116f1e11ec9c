#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/log.h"
#include "openai/request_common.h"

namespace octavo::openai {
namespace {

bool is_empty_container(JsonElement e) {
  return (e.is_array() && array_of(e).begin() == array_of(e).end()) ||
         (e.is_object() && object_of(e).begin() == object_of(e).end());
}
bool is_true(JsonElement e) { return e.is_bool() && bool_of(e); }
bool is_false(JsonElement e) { return e.is_bool() && !bool_of(e); }
bool is_number(JsonElement e, double value) { return e.is_number() && double_of(e) == value; }
bool is_empty_string(JsonElement e) { return e.is_string() && string_of(e).empty(); }
bool is_text_format(JsonElement e) {
  simdjson::dom::element type;
  return e.is_object() && e.at_key("type").get(type) == simdjson::SUCCESS && type.is_string() &&
         string_of(type) == "text";
}

struct UnbuiltField {
  std::string_view name;
  bool (*neutral)(JsonElement);
  std::string_view instead = {};
};
constexpr auto kNever = [](JsonElement) { return false; };
constexpr std::string_view kUseStructured =
    "was removed; use structured_outputs, which this build "
    "does not support yet";

constexpr auto kUnbuilt = std::to_array<UnbuiltField>({
    {"response_format", is_text_format},
    {"structured_outputs", kNever},
    {"logprob_token_ids", kNever},
    {"thinking_token_budget", [](JsonElement e) { return is_number(e, -1); }},
    {"use_beam_search", is_false},
    {"length_penalty", [](JsonElement e) { return is_number(e, 1.0); }},
    {"suffix", is_empty_string},
    {"prompt_embeds", kNever},
    {"detokenize", is_true, "cannot be false: answers are text; use return_token_ids for ids"},
    {"repetition_detection", kNever},
    {"kv_transfer_params", is_empty_container},
    {"ec_transfer_params", is_empty_container},
    {"vllm_xargs", is_empty_container},
    {"media_io_kwargs", is_empty_container},
    {"mm_processor_kwargs", is_empty_container},
    {"guided_json", kNever, kUseStructured},
    {"guided_regex", kNever, kUseStructured},
    {"guided_choice", kNever, kUseStructured},
    {"guided_grammar", kNever, kUseStructured},
    {"guided_decoding_backend", kNever, kUseStructured},
    {"guided_whitespace_pattern", kNever, kUseStructured},
});

/// Names with a meaning here or by contract ignored; all others are unknown.
constexpr auto kKnown = std::to_array<std::string_view>({"add_generation_prompt",
                                                         "add_special_tokens",
                                                         "allowed_token_ids",
                                                         "bad_words",
                                                         "best_of",
                                                         "cache_salt",
                                                         "chat_template",
                                                         "chat_template_kwargs",
                                                         "continue_final_message",
                                                         "documents",
                                                         "echo",
                                                         "frequency_penalty",
                                                         "ignore_eos",
                                                         "include_reasoning",
                                                         "include_stop_str_in_output",
                                                         "logit_bias",
                                                         "logprobs",
                                                         "max_completion_tokens",
                                                         "max_tokens",
                                                         "messages",
                                                         "metadata",
                                                         "min_p",
                                                         "min_tokens",
                                                         "model",
                                                         "n",
                                                         "parallel_tool_calls",
                                                         "presence_penalty",
                                                         "priority",
                                                         "prompt",
                                                         "prompt_logprobs",
                                                         "reasoning_effort",
                                                         "repetition_penalty",
                                                         "request_id",
                                                         "return_prompt_text",
                                                         "return_token_ids",
                                                         "return_tokens_as_token_ids",
                                                         "seed",
                                                         "service_tier",
                                                         "session_id",
                                                         "skip_special_tokens",
                                                         "spaces_between_special_tokens",
                                                         "stop",
                                                         "stop_token_ids",
                                                         "store",
                                                         "stream",
                                                         "stream_interval",
                                                         "stream_options",
                                                         "temperature",
                                                         "tool_choice",
                                                         "tools",
                                                         "top_k",
                                                         "top_logprobs",
                                                         "top_p",
                                                         "truncate_prompt_tokens",
                                                         "truncation_side",
                                                         "user"});
static_assert(std::is_sorted(kKnown.begin(), kKnown.end()));

void parse_stop_strings(const Fields& fields, int64_t max_stop_strings, CommonRequest& out) {
  const auto stop = fields.find("stop");
  if (!stop) return;
  RequestErrors& errors = fields.errors();
  if (stop->is_string()) {
    out.text.stop.emplace_back(string_of(*stop));
  } else if (stop->is_array()) {
    for (const JsonElement item : array_of(*stop)) {
      if (!item.is_string()) {
        return errors.schema(fields.path_of("stop"), "Input should be a list of strings", item);
      }
      if (static_cast<int64_t>(out.text.stop.size()) >= max_stop_strings) {
        return errors.semantic("stop", fmt::format("stop may have at most {} strings "
                                                   "(parameter=stop)",
                                                   max_stop_strings));
      }
      out.text.stop.emplace_back(string_of(item));
    }
  } else {
    return errors.schema(fields.path_of("stop"), "Input should be a string or a list of strings",
                         *stop);
  }
  for (const std::string& text : out.text.stop) {
    if (text.empty()) errors.range("stop", "cannot contain an empty string", "''");
  }
}

/// In order and each once, so that a list is never longer than the vocabulary.
std::vector<engine::TokenId> checked_ids(const Fields& fields, const char* name,
                                         int64_t vocab_size) {
  std::vector<engine::TokenId> out;
  const auto ids = fields.integers(name);
  if (!ids) return out;
  for (const int64_t id : *ids) {
    if (id < 0 || id >= vocab_size) {
      fields.errors().range(name, fmt::format("must hold token ids in [0, {}]", vocab_size - 1),
                            fmt::format("{}", id));
      return out;
    }
    out.push_back(static_cast<engine::TokenId>(id));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.shrink_to_fit();
  return out;
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// As vLLM: each word as it would begin a text and, where that is one other word of as many tokens,
/// behind a space.
void parse_bad_words(const Fields& fields, const ApiContext& api, CommonRequest& out) {
  const auto words = fields.find("bad_words");
  if (!words) return;
  RequestErrors& errors = fields.errors();
  if (!words->is_array()) {
    return errors.schema(fields.path_of("bad_words"), "Input should be a list of strings", *words);
  }
  const tokenizer::Tokenizer& tokenizer = api.frontend->tokenizer();
  const int64_t limit = api.config->frontend.max_num_bad_words;
  // A longer word cannot come up.
  const auto max_tokens = static_cast<size_t>(api.frontend->engine_info().max_model_len);
  const auto encode = [&](const std::string& text) {
    return tokenizer.encode(text, {.add_special_tokens = false, .max_tokens = max_tokens + 1});
  };
  auto& sequences = out.sampling.bad_words;
  for (const JsonElement item : array_of(*words)) {
    if (!item.is_string()) {
      return errors.schema(fields.path_of("bad_words"), "Input should be a list of strings", item);
    }
    std::string_view word = string_of(item);
    if (word.empty()) return errors.range("bad_words", "cannot contain an empty string", "''");
    word.remove_prefix(std::min(word.find_first_not_of(" \t\r\n"), word.size()));
    auto plain = encode(std::string(word));
    auto spaced = encode(" " + std::string(word));
    const bool is_other = !spaced.empty() && spaced.size() == plain.size() && spaced[0] != plain[0];
    for (auto* ids : {&plain, is_other || plain.empty() ? &spaced : nullptr}) {
      if (ids != nullptr && !ids->empty() && ids->size() <= max_tokens) {
        sequences.push_back(std::move(*ids));
      }
    }
    if (static_cast<int64_t>(sequences.size()) > limit) {
      return errors.range("bad_words",
                          fmt::format("may have at most {} sequences of tokens, with and without "
                                      "a space in front of each word",
                                      limit),
                          fmt::format("{}", sequences.size()));
    }
  }
}

engine::LogprobsMode logprobs_mode_of(std::string_view name) {
  if (name == "raw_logits") return engine::LogprobsMode::kRawLogits;
  if (name == "processed_logprobs") return engine::LogprobsMode::kProcessedLogprobs;
  if (name == "processed_logits") return engine::LogprobsMode::kProcessedLogits;
  return engine::LogprobsMode::kRawLogprobs;
}

/// "5", "05" and "+5" are one token: the last one counts.
void keep_last_of_each(std::vector<std::pair<engine::TokenId, float>>& bias) {
  std::reverse(bias.begin(), bias.end());
  std::stable_sort(bias.begin(), bias.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  bias.erase(std::unique(bias.begin(), bias.end(), same), bias.end());
  bias.shrink_to_fit();
}

void parse_logit_bias(const Fields& fields, int64_t vocab_size, CommonRequest& out) {
  const auto bias = fields.object("logit_bias");
  if (!bias) return;
  RequestErrors& errors = fields.errors();
  for (const auto field : *bias) {
    const auto id = parse_int(field.key);
    if (!id) {
      return errors.range("logit_bias", "must have token ids as keys", field.key);
    }
    if (*id < 0 || *id >= vocab_size) {
      return errors.range("logit_bias",
                          fmt::format("must have token ids in [0, {}] as keys", vocab_size - 1),
                          field.key);
    }
    if (!field.value.is_number()) {
      return errors.schema(fmt::format("logit_bias.{}", *id), "Input should be a number",
                           field.value);
    }
    const double value = std::clamp(double_of(field.value), -100.0, 100.0);
    out.sampling.logit_bias.emplace_back(static_cast<engine::TokenId>(*id),
                                         static_cast<float>(value));
  }
  keep_last_of_each(out.sampling.logit_bias);
}

/// Checks a count of top entries: -1 means the whole vocabulary.
std::optional<int32_t> checked_count(RequestErrors& errors, const char* name, int64_t value,
                                     int64_t max_logprobs, int64_t vocab_size) {
  if (value < -1) {
    errors.range(name, "must be at least 0, or -1 for all", fmt::format("{}", value));
    return std::nullopt;
  }
  const int64_t asked = value == -1 ? vocab_size : value;
  if (max_logprobs != -1 && asked > max_logprobs) {
    errors.range(name, fmt::format("must be at most {} (--max-logprobs)", max_logprobs),
                 fmt::format("{}", value));
    return std::nullopt;
  }
  return static_cast<int32_t>(std::min<int64_t>(asked, vocab_size));
}

}  // namespace

void refuse_unbuilt_fields(const Fields& fields) {
  for (const UnbuiltField& field : kUnbuilt) {
    const auto value = fields.find(field.name);
    if (!value || field.neutral(*value)) continue;
    const std::string_view why = field.instead.empty() ? "is not supported yet" : field.instead;
    fields.errors().semantic(std::string(field.name),
                             fmt::format("{} {} (parameter={})", field.name, why, field.name));
  }
}

void parse_token_fields(const Fields& fields, const ApiContext& api, CommonRequest& out) {
  const int64_t vocab_size = api.frontend->engine_info().vocab_size;
  parse_stop_strings(fields, api.config->frontend.max_stop_strings, out);
  parse_bad_words(fields, api, out);
  for (const engine::TokenId id : checked_ids(fields, "stop_token_ids", vocab_size)) {
    out.sampling.stop_token_ids.push_back(id);
  }
  out.sampling.allowed_token_ids = checked_ids(fields, "allowed_token_ids", vocab_size);
  if (const auto allowed = fields.find("allowed_token_ids");
      allowed && is_empty_container(*allowed)) {
    fields.errors().range("allowed_token_ids", "must not be empty", "[]");
  }
  parse_logit_bias(fields, vocab_size, out);
}

void parse_logprobs(const Fields& fields, Route route, const ApiContext& api, CommonRequest& out) {
  const int64_t max_logprobs = api.config->engine.model.max_logprobs;
  const int64_t vocab_size = api.frontend->engine_info().vocab_size;
  out.sampling.logprobs_mode = logprobs_mode_of(api.config->engine.model.logprobs_mode);
  RequestErrors& errors = fields.errors();
  if (route == Route::kChat) {
    const bool logprobs = fields.boolean("logprobs").value_or(false);
    const int64_t top = fields.integer("top_logprobs").value_or(0);
    const auto count = checked_count(errors, "top_logprobs", top, max_logprobs, vocab_size);
    if (top != 0 && !logprobs) {
      errors.range("top_logprobs", "needs logprobs to be true", fmt::format("{}", top));
    }
    if (logprobs) out.sampling.logprobs = count;
  } else if (const auto logprobs = fields.integer("logprobs")) {
    out.sampling.logprobs = checked_count(errors, "logprobs", *logprobs, max_logprobs, vocab_size);
    if (out.echo) out.sampling.prompt_logprobs = out.sampling.logprobs;
  }
  if (const auto count = fields.integer("prompt_logprobs")) {
    out.sampling.prompt_logprobs =
        checked_count(errors, "prompt_logprobs", *count, max_logprobs, vocab_size);
    out.prompt_logprobs_asked = true;
    if (out.stream && *count != 0) {
      errors.range("prompt_logprobs", "are not available with stream", fmt::format("{}", *count));
    }
  }
}

void log_unknown_fields(const Fields& fields, Route route) {
  if (!log::enabled(log::Level::kDebug)) return;
  std::string names;
  size_t num_unknown = 0;
  for (const auto& [name, value] : fields.all()) {
    if (std::binary_search(kKnown.begin(), kKnown.end(), name)) continue;
    const std::string_view field = name;  // clang 14 captures no structured binding
    const bool unbuilt = std::any_of(kUnbuilt.begin(), kUnbuilt.end(),
                                     [&](const UnbuiltField& f) { return f.name == field; });
    if (unbuilt || ++num_unknown > 10) continue;
    if (!names.empty()) names += ", ";
    names += shorten(name, 60);
  }
  if (num_unknown == 0) return;
  log::debug(log::Source::kApiServer, "Ignored {} unknown fields of a {} request: {}", num_unknown,
             route == Route::kChat ? "chat" : "completion", names);
}

}  // namespace octavo::openai
