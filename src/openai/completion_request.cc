#include "openai/completion_request.h"

#include <fmt/format.h>

namespace octavo::openai {
namespace {

constexpr size_t kMaxParameterBytes = size_t{64} << 20;

/// Ids of one prompt, checked against the vocabulary; nothing when one is no id.
std::optional<std::vector<engine::TokenId>> parse_ids(simdjson::dom::array list,
                                                      const std::string& path, int64_t vocab_size,
                                                      RequestErrors& errors) {
  std::vector<engine::TokenId> ids;
  for (const JsonElement element : list) {
    if (!element.is_int64() || int64_of(element) < 0) {
      errors.schema(fmt::format("{}.{}", path, ids.size()),
                    "Input should be a token id (an integer of at least 0)", element);
      return std::nullopt;
    }
    const int64_t id = int64_of(element);
    if (id >= vocab_size) {
      errors.range("prompt", fmt::format("must hold token ids in [0, {}]", vocab_size - 1),
                   fmt::format("{}", id));
      return std::nullopt;
    }
    ids.push_back(static_cast<engine::TokenId>(id));
  }
  return ids;
}

CompletionPrompt text_prompt(JsonElement element) {
  CompletionPrompt prompt;
  prompt.text = std::string(string_of(element));
  prompt.given_as_text = true;
  return prompt;
}

void parse_prompt_list(simdjson::dom::array list, int64_t max_prompts, int64_t vocab_size,
                       RequestErrors& errors, std::vector<CompletionPrompt>& out) {
  for (const JsonElement element : list) {
    if (static_cast<int64_t>(out.size()) >= max_prompts) {
      errors.semantic("prompt", fmt::format("prompt may hold at most {} prompts (parameter=prompt)",
                                            max_prompts));
      return;
    }
    const std::string path = fmt::format("prompt.{}", out.size());
    if (element.is_string()) {
      out.push_back(text_prompt(element));
    } else if (element.is_array()) {
      auto ids = parse_ids(array_of(element), path, vocab_size, errors);
      if (!ids) return;
      out.push_back({.text = {}, .ids = std::move(*ids), .given_as_text = false});
    } else {
      errors.schema(path, "Input should be a string or a list of token ids", element);
      return;
    }
  }
}

void parse_prompts(const Fields& fields, int64_t max_prompts, int64_t vocab_size,
                   std::vector<CompletionPrompt>& out) {
  RequestErrors& errors = fields.errors();
  const auto prompt = fields.find("prompt");
  if (!prompt) return errors.schema("prompt", "Field required");
  if (prompt->is_string()) {
    out.push_back(text_prompt(*prompt));
    return;
  }
  if (!prompt->is_array()) {
    return errors.schema("prompt", "Input should be a string, a list of strings, or token ids",
                         *prompt);
  }
  const simdjson::dom::array list = array_of(*prompt);
  if (list.begin() == list.end()) {
    return errors.semantic("prompt", "prompt must not be empty (parameter=prompt)");
  }
  if ((*list.begin()).is_number()) {
    if (auto ids = parse_ids(list, "prompt", vocab_size, errors)) {
      out.push_back({.text = {}, .ids = std::move(*ids), .given_as_text = false});
    }
    return;
  }
  parse_prompt_list(list, max_prompts, vocab_size, errors, out);
}

/// Each prompt gets its own copy of the parameters, before admission counts them.
void check_parameter_bytes(const CompletionRequest& request, RequestErrors& errors) {
  const engine::SamplingParams& p = request.common.sampling;
  const size_t num_bytes = request.prompts.size() * engine::num_list_bytes(p);
  if (num_bytes <= kMaxParameterBytes) return;
  errors.semantic("prompt", fmt::format("the token lists times {} prompts have {} bytes, more than "
                                        "the {} allowed; send fewer prompts (parameter=prompt)",
                                        request.prompts.size(), num_bytes, kMaxParameterBytes));
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const JsonBody& body, const ApiContext& api,
                                                   const HttpRequest& http) {
  RequestErrors errors;
  const Fields fields(object_of(body.root()), "", errors);
  CompletionRequest out;
  parse_common(fields, Route::kCompletions, api, http, out.common);
  const config::FrontendConfig& config = api.config->frontend;
  parse_prompts(fields, config.max_completion_prompts, api.frontend->engine_info().vocab_size,
                out.prompts);
  const int64_t num_sequences = static_cast<int64_t>(out.prompts.size()) * out.common.n;
  if (num_sequences > config.max_n_sequences) {
    errors.range(
        "n", fmt::format("times the number of prompts must be at most {}", config.max_n_sequences),
        fmt::format("{}", num_sequences));
  }
  check_parameter_bytes(out, errors);
  OCTAVO_TRY(errors.status());
  OCTAVO_TRY(check_model(api, out.common.model));
  return out;
}

Result<std::vector<engine::SamplingParams>> prepare_prompts(CompletionRequest& request,
                                                            const ApiContext& api) {
  const tokenizer::Tokenizer& tokenizer = api.frontend->tokenizer();
  const int64_t max_model_len = api.frontend->engine_info().max_model_len;
  CommonRequest& common = request.common;
  std::vector<engine::SamplingParams> sampling;
  for (CompletionPrompt& prompt : request.prompts) {
    if (prompt.given_as_text) {
      OCTAVO_TRY(check_text_length(common, prompt.text, *api.frontend));
      prompt.ids = tokenizer.encode(
          prompt.text, {.add_special_tokens = common.add_special_tokens, .untrusted = {}});
    } else if (common.echo) {
      prompt.text = tokenizer.decode(prompt.ids, common.text.skip_special_tokens);
    }
    truncate_prompt(common, max_model_len, prompt.ids);
    OCTAVO_TRY(fit_to_context(common, Route::kCompletions, static_cast<int64_t>(prompt.ids.size()),
                              max_model_len));
    sampling.push_back(common.sampling);
  }
  return sampling;
}

}  // namespace octavo::openai
