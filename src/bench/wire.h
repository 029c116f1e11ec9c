#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/outcome.h"

namespace octavo::bench {

enum class Wire : uint8_t {
  kCompletions,
  kChat,
  kResponses,
  kEmbeddings,
  kEmbeddingsChat,  // /v1/embeddings with messages
  kInfinity,        // Infinity's /embeddings
  kPooling,
  kRerank
};

/// One value of --backend.
struct Backend {
  std::string_view name;
  Wire wire;
  std::string_view endpoint_suffix;  // what the URL must end with
  bool is_pooling = false;
};

/// nullptr: no such backend. The names that octavo can send are `backend_choices()`.
const Backend* find_backend(std::string_view name);
std::string_view backend_choices();

/// What is the same for all requests of a run.
struct PayloadOptions {
  Wire wire = Wire::kCompletions;
  std::string model;
  std::optional<int64_t> logprobs;
  bool ignore_eos = false;
  std::string extra_body;  // JSON object that overrides fields; may be empty
};

/// Body of a request. `model` of the request, if set, replaces the run's (LoRA).
std::string make_payload(const PayloadOptions& options, const SampleRequest& request);

/// Reads one answer into an Outcome. Streams come event by event; other answers as one body.
class AnswerReader {
 public:
  AnswerReader(Wire wire, Outcome& outcome);
  ~AnswerReader();

  bool is_stream() const;
  /// One event's data at `now_s` on the clock of `outcome.start_s`. Error: no JSON, or the server
  /// reports one.
  Status on_event(std::string_view data, double now_s);
  /// The whole body of an answer that is no stream.
  Status on_body(std::string_view body, double now_s);
  /// The stream ended properly: decides whether the request succeeded.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::bench
