#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/url.h"

namespace octavo::health {

enum class Verdict {
  kPassed,
  kFailed,
  kNotOffered,  // the server lacks the route, and the check was not asked for by name
  kTimedOut,
  kNotRun,  // the time was up before its turn
};
std::string_view name_of(Verdict verdict);

/// One check: what was asked, what came.
struct Finding {
  std::string check;
  Verdict verdict = Verdict::kNotRun;
  std::string request;    // "GET /health"
  int status = 0;         // HTTP, 0 = there was no answer
  double latency_ms = 0;  // to the end of the answer
  std::string detail;     // one sentence; safe to print
  std::string data_json;  // a bounded JSON object, or empty
};

/// What is probed and how.
struct ProbeOptions {
  client::Url url;
  std::vector<std::string> checks;  // empty: the default ones
  std::string expected_model;       // "models" fails unless it is listed; empty: any
  std::string api_key;              // empty: none
  double timeout_s = 10;            // of the whole run
  bool verify_tls = true;
};

/// Names of all checks, separated by spaces.
std::string_view check_choices();
/// Whether `name` is one of them.
bool is_check(std::string_view name);

struct ProbeResult {
  std::vector<Finding> findings;  // in the order of the checks
  double duration_s = 0;
  bool timed_out = false;
  /// 0 all passed, 1 a finding, 124 out of time (whatever else was found).
  int exit_status() const;
};

/// Runs the checks one after another. Sends nothing but GET unless "generate" is among them.
ProbeResult probe(const ProbeOptions& options);

/// The whole result as JSON (docs/operations/evidence.md lists the fields).
std::string as_json(const ProbeOptions& options, const ProbeResult& result);
/// One line a check and a last line with the verdict.
std::string as_text(const ProbeOptions& options, const ProbeResult& result);

}  // namespace octavo::health
