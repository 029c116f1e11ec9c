#include "openai/request_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "openai/json_writer.h"
#include "openai/random_id.h"

namespace octavo::openai {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

/// Ids enter logs and headers: printable ASCII without spaces, or not at all.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

bool equal_ignoring_case(std::string_view a, std::string_view upper) {
  return std::equal(a.begin(), a.end(), upper.begin(), upper.end(),
                    [](char x, char y) { return (x >= 'a' && x <= 'z' ? x - 32 : x) == y; });
}

LoadFormat load_format_of(std::string_view name) {
  if (equal_ignoring_case(name, "TEXT")) return LoadFormat::kText;
  if (equal_ignoring_case(name, "JSON")) return LoadFormat::kJson;
  return LoadFormat::kNone;
}

void parse_ids(const Fields& fields, const HttpRequest& http, CommonRequest& out) {
  const auto body_id = fields.string("request_id");
  (void)fields.string("session_id");
  if (const std::string_view header = http.header("x-request-id"); usable_id(header)) {
    out.request_id = header;
  } else if (body_id && usable_id(*body_id)) {
    out.request_id = *body_id;
  } else {
    out.request_id = random_hex(16);
  }
  out.priority = fields.integer("priority").value_or(0);
  const std::string_view priority = http.header("x-vllm-priority");
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(priority.data(), priority.data() + priority.size(), value);
  if (error == std::errc() && !priority.empty() && end == priority.data() + priority.size()) {
    out.priority = value;
  }
}

void parse_stream(const Fields& fields, const ApiContext& api, CommonRequest& out) {
  RequestErrors& errors = fields.errors();
  out.stream = fields.boolean("stream").value_or(false);
  if (const auto options = fields.object("stream_options")) {
    const Fields inner(*options, fields.path_of("stream_options"), errors);
    out.include_usage = inner.boolean("include_usage").value_or(false);
    out.continuous_usage =
        inner.boolean("continuous_usage_stats").value_or(false) && out.include_usage;
    if (!out.stream) {
      errors.semantic("stream_options",
                      "stream_options can only be given when stream is true "
                      "(parameter=stream_options)");
    }
  }
  if (out.stream && api.config->frontend.enable_force_include_usage) {
    out.include_usage = true;
    out.continuous_usage = true;
  }
  if (const auto interval = fields.integer("stream_interval")) {
    if (*interval < 1) {
      errors.range("stream_interval", "must be at least 1", fmt::format("{}", *interval));
    }
    out.text.stream_interval = static_cast<int32_t>(
        std::clamp<int64_t>(*interval, 1, std::numeric_limits<int32_t>::max()));
  }
  out.text.final_only = !out.stream;
}

void parse_lengths(const Fields& fields, Route route, int64_t max_model_len, CommonRequest& out) {
  RequestErrors& errors = fields.errors();
  out.max_tokens = fields.integer("max_tokens");
  const auto max_completion_tokens = fields.integer("max_completion_tokens");
  if (route == Route::kChat && max_completion_tokens) {
    out.max_tokens = max_completion_tokens;
    out.max_tokens_field = "max_completion_tokens";
  }
  if (route == Route::kCompletions && !out.max_tokens) out.max_tokens = 16;
  if (out.max_tokens) {
    const int64_t least = route == Route::kCompletions && out.echo ? 0 : 1;
    const std::string value = fmt::format("{}", *out.max_tokens);
    if (*out.max_tokens < least) {
      errors.range(out.max_tokens_field, fmt::format("must be at least {}", least), value);
    } else if (*out.max_tokens > max_model_len && fields.find(out.max_tokens_field)) {
      errors.range(out.max_tokens_field,
                   fmt::format("must be at most the context length of {} tokens", max_model_len),
                   value);
    }
  }
  const int64_t min_tokens = fields.integer("min_tokens").value_or(0);
  if (min_tokens < 0)
    errors.range("min_tokens", "must be at least 0", fmt::format("{}", min_tokens));
  if (out.max_tokens && min_tokens > *out.max_tokens) {
    errors.range("min_tokens", fmt::format("must be at most max_tokens ({})", *out.max_tokens),
                 fmt::format("{}", min_tokens));
  }
  out.sampling.min_tokens =
      static_cast<int32_t>(std::clamp<int64_t>(min_tokens, 0, std::numeric_limits<int32_t>::max()));
}

void parse_prompt_handling(const Fields& fields, Route route, int64_t max_model_len,
                           CommonRequest& out) {
  RequestErrors& errors = fields.errors();
  out.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens");
  if (const auto k = out.truncate_prompt_tokens) {
    if (*k < -1) {
      errors.range("truncate_prompt_tokens", "must be at least -1", fmt::format("{}", *k));
    } else if (*k > max_model_len) {
      errors.range("truncate_prompt_tokens",
                   fmt::format("must be at most the context length of {} tokens", max_model_len),
                   fmt::format("{}", *k));
    }
  }
  if (const auto side = fields.string("truncation_side")) {
    if (*side != "left" && *side != "right") {
      errors.schema_value(fields.path_of("truncation_side"), "Input should be 'left' or 'right'",
                          *fields.find("truncation_side"));
    }
    out.truncate_left = *side == "left";
  }
  out.add_special_tokens =
      fields.boolean("add_special_tokens").value_or(route == Route::kCompletions);
  if (const auto salt = fields.string("cache_salt")) {
    const bool bad = salt->empty() || num_characters(*salt) > 128 ||
                     salt->find_first_of(std::string_view("@/\\\0", 4)) != std::string::npos;
    if (bad) {
      errors.semantic("cache_salt",
                      "cache_salt must have 1 to 128 characters without '@', '/', '\\' and NUL "
                      "(parameter=cache_salt)");
    }
    out.cache_salt = *salt;
  }
}

}  // namespace

std::string_view served_name(const ApiContext& api) {
  const auto& model = api.config->engine.model;
  return model.served_model_name.empty() ? std::string_view(model.model)
                                         : std::string_view(model.served_model_name.front());
}

void parse_common(const Fields& fields, Route route, const ApiContext& api, const HttpRequest& http,
                  CommonRequest& out) {
  const engine::EngineInfo& info = api.frontend->engine_info();
  RequestErrors& errors = fields.errors();
  out.model = fields.string("model").value_or("");
  parse_ids(fields, http, out);
  out.load_format = load_format_of(http.header("endpoint-load-metrics-format"));
  parse_stream(fields, api, out);
  out.echo = fields.boolean("echo").value_or(false);
  const int64_t n = fields.integer("n").value_or(1);
  const int64_t max_n = std::clamp<int64_t>(api.config->frontend.max_n_sequences, 1,
                                            std::numeric_limits<int32_t>::max());
  if (n < 1 || n > max_n) {
    errors.range("n", fmt::format("must be in [1, {}]", max_n), fmt::format("{}", n));
  }
  out.n = static_cast<int32_t>(std::clamp<int64_t>(n, 1, max_n));
  parse_sampling(fields, api, out);
  parse_lengths(fields, route, info.max_model_len, out);
  parse_token_fields(fields, api, out);
  parse_logprobs(fields, route, api, out);
  parse_prompt_handling(fields, route, info.max_model_len, out);
  out.text.include_stop_str_in_output =
      fields.boolean("include_stop_str_in_output").value_or(false);
  if (const auto skip = fields.boolean("skip_special_tokens")) out.text.skip_special_tokens = *skip;
  (void)fields.boolean("spaces_between_special_tokens");  // byte-level tokens bring their spaces
  out.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  out.tokens_as_token_ids = fields.boolean("return_tokens_as_token_ids")
                                .value_or(api.config->frontend.return_tokens_as_token_ids);
  refuse_unbuilt_fields(fields);
  log_unknown_fields(fields, route);
}

Status fit_to_context(CommonRequest& request, Route route, int64_t num_prompt_tokens,
                      int64_t max_model_len) {
  const auto& field = request.max_tokens_field;
  if (num_prompt_tokens == 0) {
    return Error{Code::kInvalidArgument, "The prompt is empty: it needs at least one token",
                 route == Route::kChat ? "messages" : "prompt"};
  }
  const std::string asked = request.max_tokens
                                ? fmt::format("{} output tokens", *request.max_tokens)
                                : std::string("at least 1 output token");
  if (num_prompt_tokens >= max_model_len) {
    // A full context leaves a limit of 0 output tokens; a longer prompt does not fit by itself.
    const bool full = num_prompt_tokens == max_model_len;
    return Error{
        Code::kInvalidArgument,
        fmt::format("This model's maximum context length is {} tokens. The prompt has {} "
                    "tokens and {} were asked for; shorten the prompt to at most {} tokens, "
                    "or raise --max-model-len. (parameter={}, value={})",
                    max_model_len, num_prompt_tokens, asked, max_model_len - 1,
                    full ? field : "input_tokens", full ? 0 : num_prompt_tokens),
        full ? field : "input_tokens"};
  }
  int64_t max_tokens = max_model_len - num_prompt_tokens;
  if (request.max_tokens) max_tokens = std::min(max_tokens, *request.max_tokens);
  if (request.max_tokens_cap) max_tokens = std::min(max_tokens, *request.max_tokens_cap);
  // 0 is echo alone: the engine still has to make a token, which nobody sees.
  max_tokens = std::max<int64_t>(max_tokens, 1);
  if (request.sampling.min_tokens > max_tokens) {
    return Error{Code::kInvalidArgument,
                 fmt::format("min_tokens must be at most max_tokens ({}) (parameter=min_tokens, "
                             "value={})",
                             max_tokens, request.sampling.min_tokens),
                 "min_tokens"};
  }
  // min_tokens forbids the stop ids at first: something has to be left of what is allowed.
  const auto& allowed = request.sampling.allowed_token_ids;
  const auto& stops = request.sampling.stop_token_ids;
  if (request.sampling.min_tokens > 0 && !allowed.empty() &&
      std::all_of(allowed.begin(), allowed.end(), [&](engine::TokenId id) {
        return std::find(stops.begin(), stops.end(), id) != stops.end();
      })) {
    return Error{Code::kInvalidArgument,
                 "allowed_token_ids holds only stop_token_ids, which min_tokens forbids "
                 "(parameter=allowed_token_ids)",
                 "allowed_token_ids"};
  }
  request.sampling.max_tokens =
      static_cast<int32_t>(std::min<int64_t>(max_tokens, std::numeric_limits<int32_t>::max()));
  return {};
}

void truncate_prompt(const CommonRequest& request, int64_t max_model_len,
                     std::vector<engine::TokenId>& prompt) {
  if (!request.truncate_prompt_tokens) return;
  const int64_t limit =
      *request.truncate_prompt_tokens == -1 ? max_model_len - 1 : *request.truncate_prompt_tokens;
  const auto size = static_cast<int64_t>(prompt.size());
  if (size <= limit) return;
  if (request.truncate_left) prompt.erase(prompt.begin(), prompt.begin() + (size - limit));
  prompt.resize(static_cast<size_t>(limit));
}

Status check_num_bytes(size_t num_bytes, const frontend::Frontend& frontend) {
  const int64_t max_model_len = frontend.engine_info().max_model_len;
  const size_t limit = static_cast<size_t>(max_model_len) * frontend.tokenizer().max_token_bytes();
  if (num_bytes <= limit) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("The text has {} bytes, more than the {} that the context of {} tokens "
                           "could hold (parameter=input_text, value={})",
                           num_bytes, limit, max_model_len, num_bytes),
               "input_text"};
}

Status check_text_length(const CommonRequest& request, std::string_view text,
                         const frontend::Frontend& frontend) {
  if (request.truncate_prompt_tokens) return {};
  return check_num_bytes(text.size(), frontend);
}

void append_load_header(LoadFormat format, const ApiContext& api, HttpResponse& response) {
  if (format == LoadFormat::kNone) return;
  using observability::MetricId;
  const observability::EngineMetrics& metrics = api.frontend->metrics();
  const double usage = metrics.value(MetricId::kKvCacheUsagePerc);
  const double waiting = metrics.value(MetricId::kNumRequestsWaiting);
  const std::string text = format == LoadFormat::kText
                               ? fmt::format(
                                     "TEXT named_metrics.kv_cache_usage_perc={}, "
                                     "named_metrics.num_requests_waiting={}",
                                     usage, waiting)
                               : fmt::format(
                                     "JSON {{\"named_metrics\": {{\"kv_cache_usage_perc\": {}, "
                                     "\"num_requests_waiting\": {}}}}}",
                                     usage, waiting);
  response.headers.emplace_back("endpoint-load-metrics", text);
}

Status check_model(const ApiContext& api, std::string_view model) {
  if (model.empty() || api.config->frontend.skip_model_name_validation) return {};
  const auto& config = api.config->engine.model;
  std::vector<std::string> names = config.served_model_name;
  if (names.empty()) names.push_back(config.model);
  if (std::find(names.begin(), names.end(), model) != names.end()) return {};
  std::string served;
  for (const std::string& name : names) {
    if (!served.empty()) served += ", ";
    served += fmt::format("`{}`", shorten(name, 200));
    if (served.size() > 1000) break;
  }
  return Error{
      Code::kNotFound,
      fmt::format("The model `{}` does not exist. Served: {}", shorten(model, 200), served),
      "model"};
}

std::optional<HttpResponse> check_content_type(const HttpRequest& http) {
  std::string_view type = http.header("content-type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  constexpr std::string_view kJson = "application/json";
  const bool same =
      std::equal(type.begin(), type.end(), kJson.begin(), kJson.end(),
                 [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  if (same) return std::nullopt;
  return error_response(400, "Bad Request",
                        "1 validation error:\n  header: Content-Type must be application/json");
}

}  // namespace octavo::openai
