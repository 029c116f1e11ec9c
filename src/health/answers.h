#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "client/wait.h"

namespace octavo::health {

// What the checks make of an answer with status 200. Pure: no socket, no clock.

constexpr size_t kMaxAnswer = 1 << 20;     // bytes of a body
constexpr size_t kMaxMetrics = 256 << 10;  // of /metrics
constexpr size_t kMaxText = 200;           // characters of a text that a server gave
constexpr size_t kMaxModels = 20;          // names that are listed

/// What the judges know beside the answer.
struct Context {
  std::string api_key;         // never shown; empty: none
  std::string expected_model;  // empty: any
};

/// Text of a server, made safe for a terminal and short; the key never shows.
std::string safe_text(std::string_view text, std::string_view api_key);

struct Judgement {
  bool passed = false;
  std::string detail;     // one sentence; safe to print
  std::string data_json;  // a bounded JSON object, or empty
};
using Judge = Judgement (*)(const Context&, const client::Response&);

Judgement judge_status(const Context& context, const client::Response& answer);
Judgement judge_version(const Context& context, const client::Response& answer);
Judgement judge_models(const Context& context, const client::Response& answer);
Judgement judge_load(const Context& context, const client::Response& answer);
/// The series that matter, by vLLM's, its older or llama.cpp's name; one that is missing is named
/// as missing, not as zero.
Judgement judge_metrics(const Context& context, const client::Response& answer);
Judgement judge_generate(const Context& context, const client::Response& answer);

/// The first model that /v1/models lists; nullopt: none.
std::optional<std::string> first_model(const client::Response& answer);

}  // namespace octavo::health
