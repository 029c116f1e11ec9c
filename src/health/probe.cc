#include "health/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/wait.h"
#include "health/answers.h"

namespace octavo::health {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kTimeoutStatus = 124;

/// A check: where it asks and how the answer is judged.
struct Check {
  std::string_view name;
  std::string_view path;
  Judge judge;
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
        context_{options.api_key, options.expected_model},
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
      finding.detail =
          is_timeout ? "no answer in time" : safe_text(answer.error().message, options_.api_key);
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
      finding.data_json = judgement.data_json;
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
    const std::string what = safe_text(
        is_redirect ? answer.head.header("location") : std::string_view(answer.head.reason),
        options_.api_key);
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
    if (const auto first = first_model(*answer)) {
      model = *first;
      return true;
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

bool is_check(std::string_view name) {
  return std::ranges::find(kChecks, name, &Check::name) != kChecks.end();
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
