#include "health/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/metrics_text.h"
#include "client/wait.h"

namespace octavo::health {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAnswer = 1 << 20;
constexpr size_t kMaxMetrics = 256 << 10;
constexpr size_t kMaxText = 200;   // characters of a text that a server gave
constexpr size_t kMaxModels = 20;  // names that are listed
constexpr int kTimeoutStatus = 124;

/// Text of a server, made safe for a terminal and short; the key never shows.
std::string safe_text(std::string text, const std::string& api_key) {
  if (!api_key.empty()) {
    for (size_t at = text.find(api_key); at != std::string::npos; at = text.find(api_key, at + 3)) {
      text.replace(at, api_key.size(), "***");
    }
  }
  const bool is_long = text.size() > kMaxText;
  text.resize(std::min(text.size(), kMaxText));
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte >= 127) c = '?';
  }
  return is_long ? text + "..." : text;
}

/// What a check makes of an answer with status 200.
struct Judgement {
  bool passed = false;
  std::string detail;
  Json data = nullptr;
};
Judgement fails(std::string detail) { return {false, std::move(detail), nullptr}; }

struct Context {
  const ProbeOptions& options;
  std::string safe(const std::string& text) const { return safe_text(text, options.api_key); }
};

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

Judgement judge_status(const Context&, const client::Response&) { return {true, "", nullptr}; }

Judgement judge_version(const Context& context, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("version") || !(*body)["version"].is_string()) {
    return fails("no text \"version\" in the answer");
  }
  const std::string version = context.safe((*body)["version"].get<std::string>());
  return {true, version, {{"version", version}}};
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
    has_expected = has_expected || id == context.options.expected_model;
    if (count++ < kMaxModels) names.push_back(context.safe(id));
  }
  Judgement out;
  out.data = {{"count", count}, {"ids", names}};
  if (count == 0) {
    out.detail = "no model is listed";
  } else if (!context.options.expected_model.empty() && !has_expected) {
    out.detail = fmt::format("'{}' is not served", context.safe(context.options.expected_model));
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
  return {true, fmt::format("{} requests", load), {{"server_load", load}}};
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

Judgement judge_metrics(const Context&, const client::Response& answer) {
  std::map<std::string_view, double> found;
  client::for_each_sample(answer.body, [&](const client::MetricSample& sample) {
    for (const SeriesRow& row : kSeries) {
      if (std::ranges::find(row.names, sample.name) == row.names.end()) continue;
      if (!std::isfinite(sample.value)) continue;
      const auto [at, is_new] = found.emplace(sample.name, sample.value);
      if (is_new) continue;
      at->second = row.takes_max ? std::max(at->second, sample.value) : at->second + sample.value;
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
  out.data = {{"values", series},
              {"missing", missing},
              {"bytes_read", answer.body.size()},
              {"truncated", answer.is_truncated}};
  return out;
}

Judgement judge_generate(const Context&, const client::Response& answer) {
  std::string why;
  const auto body = read_object(answer, why);
  if (!body) return fails(why);
  if (!body->contains("choices") || !(*body)["choices"].is_array() || (*body)["choices"].empty()) {
    return fails("no \"choices\" in the answer");
  }
  return {true, "one request of one token was sent and answered", nullptr};
}

/// A check: where it asks and how the answer is judged.
struct Check {
  std::string_view name;
  std::string_view path;
  Judgement (*judge)(const Context&, const client::Response&);
  bool is_default = false;
  bool is_optional = false;  // by default, a server without this route is all right
  size_t max_kept = kMaxAnswer;
};
constexpr auto kChecks = std::to_array<Check>({
    {"health", "/health", judge_status, true, false, 4096},
    {"version", "/version", judge_version, true, true},
    {"models", "/v1/models", judge_models, true},
    {"load", "/load", judge_load, true, true},
    {"metrics", "/metrics", judge_metrics, true, true, kMaxMetrics},
    {"live", "/live", judge_status, false, false, 4096},
    {"ready", "/ready", judge_status, false, false, 4096},
    {"generate", "/v1/completions", judge_generate},
});

class Prober {
 public:
  explicit Prober(const ProbeOptions& options)
      : options_(options),
        context_{options},
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options.timeout_s))) {}

  Finding run(const Check& check) {
    Finding finding;
    finding.check = check.name;
    const bool is_generate = check.name == "generate";
    finding.request = fmt::format("{} {}", is_generate ? "POST" : "GET", check.path);
    client::Request request = get(check.path);
    if (is_generate) {
      std::string model;
      if (!find_model(model, finding)) return finding;
      request.method = "POST";
      request.headers.emplace_back("Content-Type", "application/json");
      request.body = Json({{"model", model}, {"prompt", "Hi"}, {"max_tokens", 1}})
                         .dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    const auto answer = ask(std::move(request), check.max_kept, finding);
    if (answer) judge(check, *answer, finding);
    return finding;
  }

 private:
  client::Request get(std::string_view path) const {
    client::Request request{"GET", options_.url.path + std::string(path), {}, ""};
    request.headers = {{"Accept", "*/*"}, {"User-Agent", "octavo-health"}, {"Connection", "close"}};
    if (!options_.api_key.empty()) {
      request.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
    }
    return request;
  }

  /// The answer, or nothing and the finding says why.
  std::optional<client::Response> ask(client::Request request, size_t max_kept, Finding& finding) {
    const auto start = Clock::now();
    const double left_s = std::chrono::duration<double>(deadline_ - start).count();
    if (left_s <= 0) return std::nullopt;  // not run
    client::ClientOptions limits;
    limits.verify_tls = options_.verify_tls;
    limits.connect_timeout_s = limits.total_timeout_s = left_s;
    auto answer = client::fetch(options_.url.origin, std::move(request), limits, max_kept);
    finding.latency_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (!answer.ok()) {
      const bool is_timeout = answer.error().code == Code::kCancelled;
      finding.verdict = is_timeout ? Verdict::kTimedOut : Verdict::kFailed;
      finding.detail = is_timeout ? "no answer in time" : context_.safe(answer.error().message);
      return std::nullopt;
    }
    finding.status = answer->head.status;
    return std::move(*answer);
  }

  void judge(const Check& check, const client::Response& answer, Finding& finding) {
    const int status = answer.head.status;
    if (status == 200) {
      const Judgement judgement = check.judge(context_, answer);
      finding.verdict = judgement.passed ? Verdict::kPassed : Verdict::kFailed;
      finding.detail = judgement.detail;
      if (!judgement.data.is_null()) finding.data_json = judgement.data.dump();
      return;
    }
    const bool is_missing = status == 404 || status == 405 || status == 501;
    if (is_missing && check.is_optional && options_.checks.empty()) {
      finding.verdict = Verdict::kNotOffered;
      finding.detail = "this server has no such route";
      return;
    }
    finding.verdict = Verdict::kFailed;
    const bool is_redirect = status >= 300 && status < 400;
    const std::string what = context_.safe(is_redirect ? std::string(answer.head.header("location"))
                                                       : answer.head.reason);
    finding.detail =
        is_redirect ? fmt::format("redirects to '{}', which is not followed", what) : what;
  }

  bool find_model(std::string& model, Finding& finding) {
    if (!options_.expected_model.empty()) {
      model = options_.expected_model;
      return true;
    }
    const auto answer = ask(get("/v1/models"), kMaxAnswer, finding);
    if (!answer) return false;
    std::string why;
    const auto body = read_object(*answer, why);
    if (body && body->contains("data") && (*body)["data"].is_array()) {
      for (const Json& entry : (*body)["data"]) {
        if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
        model = entry["id"];
        return true;
      }
    }
    finding.verdict = Verdict::kFailed;
    finding.detail = "no model is listed to ask";
    return false;
  }

  const ProbeOptions& options_;
  const Context context_;
  const Clock::time_point deadline_;
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"passed", "failed", "not_offered", "timed_out", "not_run"});
  return kNames[static_cast<size_t>(verdict)];
}

std::string_view check_choices() {
  return "health version models load metrics live ready generate";
}

int ProbeResult::exit_status() const {
  if (timed_out) return kTimeoutStatus;
  return std::ranges::any_of(findings,
                             [](const Finding& f) {
                               return f.verdict != Verdict::kPassed &&
                                      f.verdict != Verdict::kNotOffered;
                             })
             ? 1
             : 0;
}

ProbeResult probe(const ProbeOptions& options) {
  const auto start = Clock::now();
  ProbeResult result;
  Prober prober(options);
  for (const Check& check : kChecks) {
    const bool is_wanted = options.checks.empty() ? check.is_default
                                                  : std::ranges::find(options.checks, check.name) !=
                                                        options.checks.end();
    if (!is_wanted) continue;
    result.findings.push_back(prober.run(check));
    const Verdict verdict = result.findings.back().verdict;
    result.timed_out =
        result.timed_out || verdict == Verdict::kTimedOut || verdict == Verdict::kNotRun;
  }
  result.duration_s = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

std::string as_json(const ProbeOptions& options, const ProbeResult& result) {
  Json checks = Json::array();
  for (const Finding& finding : result.findings) {
    Json entry = {{"check", finding.check},
                  {"verdict", name_of(finding.verdict)},
                  {"request", finding.request},
                  {"status", finding.status == 0 ? Json() : Json(finding.status)},
                  {"latency_ms", std::round(finding.latency_ms * 1000) / 1000},
                  {"detail", finding.detail}};
    if (!finding.data_json.empty()) entry["data"] = Json::parse(finding.data_json);
    checks.push_back(std::move(entry));
  }
  const int status = result.exit_status();
  const Json out = {{"format", "octavo-health/1"},
                    {"url", fmt::format("{}://{}{}", options.url.origin.is_tls ? "https" : "http",
                                        options.url.origin.host_header(), options.url.path)},
                    {"passed", status == 0},
                    {"exit_status", status},
                    {"timed_out", result.timed_out},
                    {"duration_s", std::round(result.duration_s * 1e6) / 1e6},
                    {"checks", std::move(checks)}};
  return out.dump(-1, ' ', true) + "\n";
}

std::string as_text(const ProbeOptions& options, const ProbeResult& result) {
  std::string out;
  size_t num_passed = 0;
  for (const Finding& finding : result.findings) {
    num_passed += finding.verdict == Verdict::kPassed;
    std::string verdict(name_of(finding.verdict));
    std::replace(verdict.begin(), verdict.end(), '_', ' ');
    std::string line = fmt::format("{:<11} {:<8} {}", verdict, finding.check, finding.request);
    if (finding.status != 0) {
      line += fmt::format(" {} in {:.1f} ms", finding.status, finding.latency_ms);
    }
    if (!finding.detail.empty()) line += ": " + finding.detail;
    out += line + "\n";
  }
  out += fmt::format(
      "{}: {} of {} checks passed in {:.2f} s{}\n", result.exit_status() == 0 ? "OK" : "NOT OK",
      num_passed, result.findings.size(), result.duration_s,
      result.timed_out ? fmt::format(" (the {} s of --timeout are over)", options.timeout_s)
                       : std::string());
  return out;
}

}  // namespace octavo::health
