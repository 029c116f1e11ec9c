#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "frontend/frontend.h"
#include "openai/api.h"
#include "openai/json_body.h"

namespace octavo::openai {

enum class Route { kChat, kCompletions };

/// What the header endpoint-load-metrics-format asks for.
enum class LoadFormat { kNone, kText, kJson };

/// What chat and text completions share. Cannot hold an invalid value once parsed, except for the
/// rules that need the prompt's length (`fit_to_context`).
struct CommonRequest {
  std::string model;
  std::string request_id;           // suffix of the id; never empty
  engine::SamplingParams sampling;  // max_tokens is filled by fit_to_context
  frontend::TextParams text;
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool echo = false;
  bool return_token_ids = false;
  bool tokens_as_token_ids = false;
  bool add_special_tokens = true;
  std::optional<int64_t> max_tokens;  // as asked; 0 only for completions with echo
  std::string max_tokens_field = "max_tokens";
  std::optional<int64_t> max_tokens_cap;  // max_new_tokens of the generation config
  std::optional<int64_t> truncate_prompt_tokens;
  bool truncate_left = true;
  int64_t priority = 0;
  std::string cache_salt;
  bool prompt_logprobs_asked = false;  // not only through echo
  LoadFormat load_format = LoadFormat::kNone;
};

/// Reads and checks the fields that both routes have. What is wrong goes into the errors of
/// `fields`.
void parse_common(const Fields& fields, Route route, const ApiContext& api, const HttpRequest& http,
                  CommonRequest& out);
/// Settles max_tokens for a prompt; errors: the prompt does not fit, min_tokens above max_tokens.
Status fit_to_context(CommonRequest& request, Route route, int64_t num_prompt_tokens,
                      int64_t max_model_len);
/// truncate_prompt_tokens.
void truncate_prompt(const CommonRequest& request, int64_t max_model_len,
                     std::vector<engine::TokenId>& prompt);
/// More text than any tokenisation could fit into the context: refused before it costs time.
Status check_text_length(const CommonRequest& request, std::string_view text,
                         const frontend::Frontend& frontend);
/// The same for a number of bytes.
Status check_num_bytes(size_t num_bytes, const frontend::Frontend& frontend);
/// kNotFound unless `model` is empty or served.
Status check_model(const ApiContext& api, std::string_view model);
/// Content-Type must be application/json; nullopt when it is.
std::optional<HttpResponse> check_content_type(const HttpRequest& http);
/// Adds the endpoint-load-metrics header: the load after the last step, for load balancers.
void append_load_header(LoadFormat format, const ApiContext& api, HttpResponse& response);
std::string_view served_name(const ApiContext& api);

// request_fields.cc
/// 400 for fields that the contract knows and this build does not have, unless neutral.
void refuse_unbuilt_fields(const Fields& fields);
/// Stop strings and ids, bad_words, logit_bias, allowed_token_ids.
void parse_token_fields(const Fields& fields, const ApiContext& api, CommonRequest& out);
/// logprobs, top_logprobs, prompt_logprobs. After `stream` and `echo` are known.
void parse_logprobs(const Fields& fields, Route route, const ApiContext& api, CommonRequest& out);
/// One debug line with the names that the contract does not know.
void log_unknown_fields(const Fields& fields, Route route);

// request_sampling.cc
/// temperature … seed, with the server's defaults.
void parse_sampling(const Fields& fields, const ApiContext& api, CommonRequest& out);

}  // namespace octavo::openai
