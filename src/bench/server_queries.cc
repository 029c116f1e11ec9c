#include "bench/server_queries.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/metrics_text.h"
#include "client/wait.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxAnswer = 64u << 20;
constexpr double kQueryTimeout = 60;
constexpr size_t kConcurrency = 64;

client::ClientOptions query_options(const Server& server) {
  client::ClientOptions options;
  options.total_timeout_s = kQueryTimeout;
  options.verify_tls = server.verify_tls;
  return options;
}

client::Request post(const Server& server, const std::string& path, const Json& body) {
  return {"POST", server.base.path + path, server.headers,
          body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::optional<std::vector<int64_t>> tokens_of(const Result<client::Response>& answer) {
  if (!answer.ok() || answer->head.status != 200) return std::nullopt;
  const Json body = Json::parse(answer->body, nullptr, false);
  if (!body.is_object() || !body.contains("tokens") || !body["tokens"].is_array()) {
    return std::nullopt;
  }
  std::vector<int64_t> out;
  for (const Json& token : body["tokens"]) {
    if (!token.is_number_integer()) return std::nullopt;
    out.push_back(token.get<int64_t>());
  }
  return out;
}

std::vector<std::optional<std::vector<int64_t>>> tokenize(
    const Server& server, const std::string& model, const std::vector<SampleRequest>& requests,
    size_t count) {
  std::vector<client::Request> questions;
  for (size_t i = 0; i < count; ++i) {
    questions.push_back(post(
        server, "/tokenize",
        {{"model", model}, {"prompt", requests[i].prompts[0]}, {"add_special_tokens", false}}));
  }
  std::vector<std::optional<std::vector<int64_t>>> out;
  for (const auto& answer : client::fetch_all(server.base.origin, std::move(questions),
                                              query_options(server), kMaxAnswer, kConcurrency)) {
    out.push_back(tokens_of(answer));
  }
  return out;
}

/// Value of a label in `a="b",c="d"`; empty when it is not there.
std::string_view label_value(std::string_view labels, std::string_view name) {
  const std::string wanted = fmt::format("{}=\"", name);
  const size_t at = labels.find(wanted);
  if (at == std::string_view::npos) return {};
  labels.remove_prefix(at + wanted.size());
  return labels.substr(0, labels.find('"'));
}

}  // namespace

Status post_control(const Server& server, const std::string& path) {
  client::Request request{"POST", server.base.path + path, server.headers, ""};
  OCTAVO_TRY(const client::Response answer, client::fetch(server.base.origin, std::move(request),
                                                          query_options(server), kMaxAnswer));
  if (answer.head.status == 200) return {};
  return Error{Code::kUnavailable,
               fmt::format("POST {}: {} {}", path, answer.head.status, answer.head.reason)};
}

Result<std::vector<ServedModel>> list_models(const Server& server) {
  client::Request request{"GET", server.base.path + "/v1/models", server.headers, ""};
  OCTAVO_TRY(const client::Response answer, client::fetch(server.base.origin, std::move(request),
                                                          query_options(server), kMaxAnswer));
  if (answer.head.status != 200) {
    return Error{Code::kUnavailable,
                 fmt::format("GET /v1/models: {} {}", answer.head.status, answer.head.reason)};
  }
  const Json body = Json::parse(answer.body, nullptr, false);
  std::vector<ServedModel> out;
  if (body.is_object() && body.contains("data") && body["data"].is_array()) {
    for (const Json& entry : body["data"]) {
      if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
      ServedModel model{entry["id"], entry["id"]};
      if (entry.contains("root") && entry["root"].is_string()) model.root = entry["root"];
      out.push_back(std::move(model));
    }
  }
  if (out.empty()) return Error{Code::kUnavailable, "GET /v1/models: the server has no models"};
  return out;
}

void align_prompts(const Server& server, const std::string& model,
                   std::vector<SampleRequest>& requests, std::vector<std::string>& notes) {
  if (requests.empty() || requests[0].prompts.size() != 1) return;
  const auto first = tokenize(server, model, requests, 1);
  if (!first[0]) {
    notes.push_back("WARNING: /tokenize unavailable, skipping alignment.");
    return;
  }
  if (int64_t(first[0]->size()) == requests[0].prompt_len) return;
  notes.push_back(
      fmt::format("WARNING: tokenizer mismatch (server={}, expected={}), re-aligning prompts.",
                  first[0]->size(), requests[0].prompt_len));
  const auto all = tokenize(server, model, requests, requests.size());
  std::vector<client::Request> questions;
  std::vector<size_t> asked;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!all[i] || int64_t(all[i]->size()) <= requests[i].prompt_len) continue;
    const std::vector<int64_t> cut(all[i]->begin(), all[i]->begin() + requests[i].prompt_len);
    questions.push_back(post(server, "/detokenize", {{"model", model}, {"tokens", cut}}));
    asked.push_back(i);
  }
  const auto answers = client::fetch_all(server.base.origin, std::move(questions),
                                         query_options(server), kMaxAnswer, kConcurrency);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok() || answers[i]->head.status != 200) continue;
    const Json body = Json::parse(answers[i]->body, nullptr, false);
    if (!body.is_object() || !body.contains("prompt") || !body["prompt"].is_string()) continue;
    requests[asked[i]].prompts = {body["prompt"].get<std::string>()};
  }
}

std::optional<SpecDecodeCounters> parse_spec_decode(std::string_view metrics_text) {
  constexpr std::string_view kPrefix = "vllm:spec_decode_";
  SpecDecodeCounters out;
  bool has_any = false;
  client::for_each_sample(metrics_text, [&](const client::MetricSample& sample) {
    if (!sample.name.starts_with(kPrefix)) return;
    const std::string_view name = sample.name.substr(kPrefix.size());
    has_any = true;
    if (name == "num_drafts_total") out.num_drafts += sample.value;
    if (name == "num_draft_tokens_total") out.draft_tokens += sample.value;
    if (name == "num_accepted_tokens_total") out.accepted_tokens += sample.value;
    if (name != "num_accepted_tokens_per_pos_total") return;
    const std::string_view position = label_value(sample.labels, "position");
    int64_t number = 0;
    if (std::from_chars(position.data(), position.data() + position.size(), number).ec ==
        std::errc()) {
      out.accepted_per_position[number] += sample.value;
    }
  });
  return has_any ? std::optional(out) : std::nullopt;
}

std::optional<SpecDecodeStats> spec_decode_gain(const SpecDecodeCounters& before,
                                                const SpecDecodeCounters& after) {
  const double drafts = after.num_drafts - before.num_drafts;
  const double tokens = after.draft_tokens - before.draft_tokens;
  const double accepted = after.accepted_tokens - before.accepted_tokens;
  if (!(tokens > 0)) return std::nullopt;
  SpecDecodeStats stats;
  stats.acceptance_rate = accepted / tokens * 100;
  stats.acceptance_length = drafts > 0 ? 1 + accepted / drafts : 0;
  stats.num_drafts = int64_t(drafts);
  stats.draft_tokens = int64_t(tokens);
  stats.accepted_tokens = int64_t(accepted);
  if (!(drafts > 0)) return stats;
  for (const auto& [position, value] : after.accepted_per_position) {
    const auto old = before.accepted_per_position.find(position);
    const double start = old == before.accepted_per_position.end() ? 0 : old->second;
    stats.per_position_rates.push_back((value - start) / drafts);
  }
  return stats;
}

}  // namespace octavo::bench
