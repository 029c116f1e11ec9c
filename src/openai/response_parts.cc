#include "openai/response_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

namespace octavo::openai {
namespace {

using Entry = engine::TokenLogprobs::Entry;

// Order of engine::FinishReason.
constexpr auto kFinishReasons =
    std::to_array<std::string_view>({"stop", "length", "abort", "error", "repetition"});
static_assert(kFinishReasons.size() == engine::kNumFinishReasons);

/// Calls `f` for the chosen token and then for the top entries, each token once, at most `limit`.
template <class F>
void for_each_entry(const engine::TokenLogprobs& logprobs, size_t limit, F f) {
  size_t num = 0;
  if (num++ < limit) f(logprobs.chosen);
  for (const Entry& entry : logprobs.top) {
    if (entry.token == logprobs.chosen.token) continue;
    if (num++ >= limit) return;
    f(entry);
  }
}

void write_bytes(JsonWriter& w, std::string_view bytes) {
  w.begin_array();
  for (const char c : bytes) w.integer(static_cast<uint8_t>(c));
  w.end_array();
}

void write_chat_entry(JsonWriter& w, const TokenNames& names, const Entry& entry) {
  w.key("token").string(names.text(entry.token)).key("logprob").number(entry.logprob);
  w.key("bytes");
  write_bytes(w, names.tokenizer.token_bytes(entry.token));
}

}  // namespace

std::string TokenNames::text(engine::TokenId id) const {
  if (as_token_ids) return fmt::format("token_id:{}", id);
  return to_valid_utf8(tokenizer.token_bytes(id));
}

void write_usage(JsonWriter& w, const Usage& usage, bool with_nulls) {
  w.begin_object();
  w.key("prompt_tokens").integer(usage.prompt_tokens);
  w.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  w.key("completion_tokens").integer(usage.completion_tokens);
  w.key("prompt_tokens_details").begin_object().key("cached_tokens").integer(usage.cached_tokens);
  if (with_nulls) w.key("created_cache_tokens").null().key("multimodal_tokens").null();
  w.end_object();
  if (with_nulls) w.key("completion_tokens_details").null();
  w.end_object();
}

void write_finish_reason(JsonWriter& w, const std::optional<engine::FinishReason>& reason) {
  if (reason) {
    w.string(kFinishReasons[static_cast<size_t>(*reason)]);
  } else {
    w.null();
  }
}

void write_stop_reason(JsonWriter& w, const engine::StopReason& reason) {
  if (const auto* id = std::get_if<engine::TokenId>(&reason)) {
    w.integer(*id);
  } else if (const auto* text = std::get_if<std::string>(&reason)) {
    w.string(*text);
  } else {
    w.null();
  }
}

void write_finish(JsonWriter& w, const frontend::Delta& delta) {
  w.key("finish_reason");
  write_finish_reason(w, delta.finish_reason);
  w.key("stop_reason");
  write_stop_reason(w, delta.stop_reason);
}

void write_token_ids(JsonWriter& w, bool asked, std::span<const engine::TokenId> ids) {
  if (!asked) {
    w.null();
    return;
  }
  w.begin_array();
  for (const engine::TokenId id : ids) w.integer(id);
  w.end_array();
}

void write_chat_logprobs(JsonWriter& w, const TokenNames& names,
                         std::span<const engine::TokenLogprobs> logprobs, int32_t num_top) {
  w.begin_object().key("content").begin_array();
  for (const engine::TokenLogprobs& position : logprobs) {
    w.begin_object();
    write_chat_entry(w, names, position.chosen);
    w.key("top_logprobs").begin_array();
    for_each_entry(position, static_cast<size_t>(std::max(num_top, 0)), [&](const Entry& entry) {
      w.begin_object();
      write_chat_entry(w, names, entry);
      w.end_object();
    });
    w.end_array().end_object();
  }
  w.end_array().end_object();
}

void write_text_logprobs(JsonWriter& w, const TokenNames& names,
                         std::span<const engine::TokenId> ids,
                         std::span<const std::optional<engine::TokenLogprobs>> logprobs,
                         int32_t num_top, int64_t& offset) {
  const size_t size = std::min(ids.size(), logprobs.size());
  std::vector<std::string> tokens;
  for (size_t i = 0; i < size; ++i) tokens.push_back(names.text(ids[i]));
  w.begin_object().key("text_offset").begin_array();
  for (const std::string& token : tokens) {
    w.integer(offset);
    offset += num_characters(token);
  }
  w.end_array().key("token_logprobs").begin_array();
  for (size_t i = 0; i < size; ++i) {
    if (logprobs[i]) {
      w.number(logprobs[i]->chosen.logprob);
    } else {
      w.null();
    }
  }
  w.end_array().key("tokens").begin_array();
  for (const std::string& token : tokens) w.string(token);
  w.end_array().key("top_logprobs").begin_array();
  for (size_t i = 0; i < size; ++i) {
    if (!logprobs[i]) {
      w.null();
      continue;
    }
    w.begin_object();
    std::unordered_set<std::string> seen;  // two tokens may be shown as the same text
    for_each_entry(*logprobs[i], static_cast<size_t>(std::max(num_top, 0)) + 1,
                   [&](const Entry& entry) {
                     const auto [name, is_new] = seen.insert(names.text(entry.token));
                     if (is_new) w.key(*name).number(entry.logprob);
                   });
    w.end_object();
  }
  w.end_array().end_object();
}

void write_prompt_logprobs(JsonWriter& w, const TokenNames& names,
                           std::span<const std::optional<engine::TokenLogprobs>> logprobs) {
  if (logprobs.empty()) {
    w.null();
    return;
  }
  w.begin_array();
  for (const auto& position : logprobs) {
    if (!position) {
      w.null();
      continue;
    }
    w.begin_object();
    for_each_entry(*position, SIZE_MAX, [&](const Entry& entry) {
      w.key(fmt::format("{}", entry.token)).begin_object();
      w.key("logprob").number(entry.logprob).key("rank").integer(entry.rank);
      w.key("decoded_token").string(to_valid_utf8(names.tokenizer.token_bytes(entry.token)));
      w.end_object();
    });
    w.end_object();
  }
  w.end_array();
}

}  // namespace octavo::openai
