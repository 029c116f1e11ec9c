#pragma once

#include <string>
#include <vector>

#include "openai/request_common.h"

namespace octavo::openai {

struct CompletionPrompt {
  std::string text;  // as given, or the text of the ids when it is echoed
  std::vector<engine::TokenId> ids;
  bool given_as_text = false;
};

struct CompletionRequest {
  CommonRequest common;
  std::vector<CompletionPrompt> prompts;  // at least one
};

Result<CompletionRequest> parse_completion_request(const JsonBody& body, const ApiContext& api,
                                                   const HttpRequest& http);

/// Fills the ids of prompts given as text, truncates, and fits `max_tokens` for each prompt into
/// `sampling` (same order as the prompts).
Result<std::vector<engine::SamplingParams>> prepare_prompts(CompletionRequest& request,
                                                            const ApiContext& api);

}  // namespace octavo::openai
