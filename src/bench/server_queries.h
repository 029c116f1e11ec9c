#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/outcome.h"
#include "bench/serve_report.h"
#include "client/http_client.h"
#include "client/url.h"

namespace octavo::bench {

/// The server beside its load: what is asked before and after a run.
struct Server {
  client::Url base;
  std::vector<std::pair<std::string, std::string>> headers;
  bool verify_tls = true;
};

/// An entry of GET /v1/models.
struct ServedModel {
  std::string id;
  std::string root;  // where its files are; the id if the server does not say
};
Result<std::vector<ServedModel>> list_models(const Server& server);

/// POST to `path` (/start_profile, /stop_profile) without a body. The error says what came instead
/// of 200.
Status post_control(const Server& server, const std::string& path);

/// Makes prompts as long for the server's tokenizer as they are for ours: if it counts the first
/// one differently, every prompt that is too long is cut there. Prints what it did into `notes`. A
/// server without /tokenize changes nothing.
void align_prompts(const Server& server, const std::string& model,
                   std::vector<SampleRequest>& requests, std::vector<std::string>& notes);

/// The speculation counters in the text of /metrics; nullopt when the server has none.
struct SpecDecodeCounters {
  double num_drafts = 0;
  double draft_tokens = 0;
  double accepted_tokens = 0;
  std::map<int64_t, double> accepted_per_position;
};
std::optional<SpecDecodeCounters> parse_spec_decode(std::string_view metrics_text);

/// What was gained between two readings; nullopt when no draft token was.
std::optional<SpecDecodeStats> spec_decode_gain(const SpecDecodeCounters& before,
                                                const SpecDecodeCounters& after);

}  // namespace octavo::bench
