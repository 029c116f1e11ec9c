#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "frontend/frontend.h"
#include "openai/json_writer.h"
#include "tokenizer/tokenizer.h"

namespace octavo::openai {

/// How tokens are shown in logprobs.
struct TokenNames {
  const tokenizer::Tokenizer& tokenizer;
  bool as_token_ids = false;  // "token_id:N"
  std::string text(engine::TokenId id) const;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};
/// `with_nulls`: every field of vLLM's usage object; without: only those with a value.
void write_usage(JsonWriter& w, const Usage& usage, bool with_nulls);

/// The finish reason's name, or null.
void write_finish_reason(JsonWriter& w, const std::optional<engine::FinishReason>& reason);
void write_stop_reason(JsonWriter& w, const engine::StopReason& reason);
/// Both with their keys, where a choice always carries the two.
void write_finish(JsonWriter& w, const frontend::Delta& delta);
/// The ids, or null when they were not asked for.
void write_token_ids(JsonWriter& w, bool asked, std::span<const engine::TokenId> ids);

/// `{"content":[…]}` of chat completions; `num_top` entries each, the sampled token first.
void write_chat_logprobs(JsonWriter& w, const TokenNames& names,
                         std::span<const engine::TokenLogprobs> logprobs, int32_t num_top);

/// Text logprobs of a run of tokens; entries without a value are the first prompt token of an echo.
/// `offset` counts characters and is advanced over the tokens.
void write_text_logprobs(JsonWriter& w, const TokenNames& names,
                         std::span<const engine::TokenId> ids,
                         std::span<const std::optional<engine::TokenLogprobs>> logprobs,
                         int32_t num_top, int64_t& offset);

/// prompt_logprobs of a response, or null when there are none.
void write_prompt_logprobs(JsonWriter& w, const TokenNames& names,
                           std::span<const std::optional<engine::TokenLogprobs>> logprobs);

}  // namespace octavo::openai
