#include "health/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "client/metrics_text.h"

namespace octavo::health {
namespace {

using Json = nlohmann::ordered_json;

Judgement fails(std::string detail) { return {false, std::move(detail), {}}; }

/// The body as a JSON object, or why it is none.
std::optional<Json> read_object(const client::Response& answer, std::string& why) {
  if (answer.is_truncated) {
    why = fmt::format("the answer is larger than {} bytes", kMaxAnswer);
    return std::nullopt;
  }
  Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_object()) return body;
  why = body.is_discarded() ? "the answer is no JSON" : "the answer is no JSON object";
  return std::nullopt;
}

/// A figure of /metrics and the series that carry it, the preferred one first.
struct SeriesRow {
  std::string_view key;
  std::array<std::string_view, 3> names;
  bool takes_max;  // over labels; otherwise they are summed
};
constexpr auto kSeries = std::to_array<SeriesRow>({
    {"running", {"vllm:num_requests_running", "llamacpp:requests_processing", ""}, false},
    {"waiting", {"vllm:num_requests_waiting", "llamacpp:requests_deferred", ""}, false},
    {"kv_cache_usage",
     {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio"},
     true},
    {"generation_tokens",
     {"vllm:generation_tokens_total", "llamacpp:tokens_predicted_total", ""},
     false},
});

}  // namespace

std::string safe_text(std::string_view text, std::string_view api_key) {
  std::string out;
  size_t at = 0;
  // No further than what is shown: the text may be long, and made of the key.
  while (at < text.size() && out.size() <= kMaxText) {
    if (!api_key.empty() && text.substr(at).starts_with(api_key)) {
      out += "***";
      at += api_key.size();
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[at++]);
    out += byte < 32 || byte >= 127 ? '?' : static_cast<char>(byte);
  }
  if (out.size() <= kMaxText && at == text.size()) return out;
  out.resize(std::min(out.size(), kMaxText));
  return out + "...";
}

Judgement judge_status(const Context&, const client::Response&) { return {true, {}, {}}; }

Judgement judge_version(const Context& context, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("version") || !(*body)["version"].is_string()) {
    return fails("no text \"version\" in the answer");
  }
  const std::string version = safe_text((*body)["version"].get<std::string>(), context.api_key);
  return {true, version, Json{{"version", version}}.dump()};
}

Judgement judge_models(const Context& context, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("data") || !(*body)["data"].is_array()) {
    return fails("no list \"data\" in the answer");
  }
  Json names = Json::array();
  size_t count = 0;
  bool has_expected = false;
  for (const Json& entry : (*body)["data"]) {
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
    const std::string id = entry["id"];
    has_expected = has_expected || id == context.expected_model;
    if (count++ < kMaxModels) names.push_back(safe_text(id, context.api_key));
  }
  Judgement out;
  out.data_json = Json{{"count", count}, {"ids", names}}.dump();
  if (count == 0) {
    out.detail = "no model is listed";
  } else if (!context.expected_model.empty() && !has_expected) {
    out.detail =
        fmt::format("'{}' is not served", safe_text(context.expected_model, context.api_key));
  } else {
    out.passed = true;
    out.detail = names[0].get<std::string>() +
                 (count > 1 ? fmt::format(" and {} more", count - 1) : std::string());
  }
  return out;
}

Judgement judge_load(const Context&, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("server_load") || !(*body)["server_load"].is_number()) {
    return fails("no number \"server_load\" in the answer");
  }
  const double load = (*body)["server_load"];
  if (!std::isfinite(load)) return fails("\"server_load\" is out of range");
  return {true, fmt::format("{} requests", load), Json{{"server_load", load}}.dump()};
}

Judgement judge_metrics(const Context&, const client::Response& answer) {
  std::map<std::string_view, double> found;
  client::for_each_sample(answer.body, [&](const client::MetricSample& sample) {
    for (const SeriesRow& row : kSeries) {
      if (std::ranges::find(row.names, sample.name) == row.names.end()) continue;
      if (!std::isfinite(sample.value)) continue;
      const auto [at, is_new] = found.emplace(sample.name, sample.value);
      if (is_new) continue;
      const double next =
          row.takes_max ? std::max(at->second, sample.value) : at->second + sample.value;
      if (std::isfinite(next)) at->second = next;
    }
  });
  Json series = Json::object();
  Json missing = Json::array();
  std::string detail;
  for (const SeriesRow& row : kSeries) {
    const auto name = std::ranges::find_if(
        row.names, [&](std::string_view n) { return !n.empty() && found.contains(n); });
    detail += detail.empty() ? "" : ", ";
    if (name == row.names.end()) {
      series[std::string(row.key)] = nullptr;
      missing.push_back(row.key);
      detail += fmt::format("{} missing", row.key);
    } else {
      series[std::string(row.key)] = {{"series", *name}, {"value", found[*name]}};
      detail += fmt::format("{} {}", row.key, found[*name]);
    }
  }
  Judgement out;
  out.passed = !found.empty();
  out.detail = found.empty() ? "none of the known series is there" : detail;
  out.data_json = Json{{"values", series},
                       {"missing", missing},
                       {"bytes_read", answer.body.size()},
                       {"truncated", answer.is_truncated}}
                      .dump();
  return out;
}

Judgement judge_generate(const Context&, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("choices") || !(*body)["choices"].is_array() || (*body)["choices"].empty()) {
    return fails("no \"choices\" in the answer");
  }
  return {true, "one request of one token was sent and answered", {}};
}

std::optional<std::string> first_model(const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body || !body->contains("data") || !(*body)["data"].is_array()) return std::nullopt;
  for (const Json& entry : (*body)["data"]) {
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
    return entry["id"].get<std::string>();
  }
  return std::nullopt;
}

}  // namespace octavo::health
