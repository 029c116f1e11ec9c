#include "bench/serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/command_line.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;
using config::python_number;

constexpr double kMsPerSecond = 1000;

/// A latency with its names: in flags and JSON, on lines, in titles.
struct MetricRow {
  std::string_view key;
  std::string_view name;
  std::string_view title;
  const Distribution* values;  // seconds; nullptr: not shown in this run
};

std::vector<MetricRow> rows_of(const ServeReport& report) {
  const ServeMetrics& m = report.metrics;
  const bool has_tokens = !m.is_pooling;
  const auto all = std::to_array<MetricRow>({
      {"ttft", "TTFT", "Time to First Token", has_tokens ? &m.ttft : nullptr},
      {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", has_tokens ? &m.tpot : nullptr},
      {"itl", "ITL", "Inter-token Latency", has_tokens ? &m.itl : nullptr},
      {"e2el", "E2EL", "End-to-end Latency", &m.e2el},
      {"client_queue_time", "Client Queue Time", "Client-side Queueing",
       m.client_queue_time ? &*m.client_queue_time : nullptr},
      {"e2el_including_client_queue", "E2EL incl. Client Queue",
       "Queue-inclusive End-to-end Latency",
       m.e2el_including_client_queue ? &*m.e2el_including_client_queue : nullptr},
  });
  std::vector<MetricRow> out;
  for (const MetricRow& row : all) {
    const bool is_selected =
        std::ranges::find(report.selected_metrics, row.key) != report.selected_metrics.end();
    if (is_selected && row.values != nullptr) out.push_back(row);
  }
  return out;
}

/// "99" for 99.0, "99.9" for 99.9.
std::string percentile_word(double p) {
  return std::floor(p) == p ? fmt::format("{}", int64_t(p)) : python_number(p);
}

class Block {
 public:
  void title(std::string_view text, char fill) {
    out_ += fill == '=' ? fmt::format("{:=^50}\n", text) : fmt::format("{:-^50}\n", text);
  }
  void line(std::string_view label, int64_t value) {
    out_ += fmt::format("{:<40} {:<10}\n", label, value);
  }
  void line(std::string_view label, double value) {
    out_ += fmt::format("{:<40} {:<10.2f}\n", label, value);
  }
  void text(std::string_view line) { (out_ += line) += '\n'; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void add_totals(const ServeReport& report, Block& block) {
  const ServeMetrics& m = report.metrics;
  const bool has_tokenizer = report.tokenizer_id.has_value();
  block.line("Successful requests:", m.completed);
  block.line("Failed requests:", m.failed);
  if (report.max_concurrency) block.line("Maximum request concurrency:", *report.max_concurrency);
  if (!std::isinf(report.request_rate)) {
    block.line("Request rate configured (RPS):", report.request_rate);
  }
  block.line("Benchmark duration (s):", m.duration_s);
  block.line("Total input tokens:", m.total_input);
  if (!m.is_pooling && has_tokenizer) block.line("Total generated tokens:", m.total_output);
  block.line("Request throughput (req/s):", m.request_throughput);
  if (m.is_pooling) block.line("Input throughput (inputs/s):", m.input_sequence_throughput);
  if (!m.is_pooling && report.has_goodput) {
    block.line("Request goodput (req/s):", m.request_goodput);
  }
  if (!m.is_pooling) {
    if (has_tokenizer) {
      block.line("Output token throughput (tok/s):", m.output_throughput);
      block.line("Peak output token throughput (tok/s):", m.max_output_tokens_per_s);
    }
    block.line("Peak concurrent requests:", double(m.max_concurrent_requests));
  }
  if (has_tokenizer) block.line("Total token throughput (tok/s):", m.total_token_throughput);
}

void add_probes(const ProbeStats& probes, Block& block) {
  block.title("Probe Requests", '-');
  block.line("Probe requests completed:", probes.completed);
  block.line("Probe requests failed:", probes.failed);
  block.line("Median probe E2EL (ms):", probes.median_e2el_ms);
  block.line("P99 probe E2EL (ms):", probes.p99_e2el_ms);
  block.line("Max probe E2EL (ms):", probes.max_e2el_ms);
}

void add_distribution(const MetricRow& row, Block& block) {
  const Distribution ms = row.values->scaled(kMsPerSecond);
  block.title(row.title, '-');
  block.line(fmt::format("Mean {} (ms):", row.name), ms.mean);
  block.line(fmt::format("Median {} (ms):", row.name), ms.median);
  for (const auto& [p, value] : ms.percentiles) {
    block.line(fmt::format("P{} {} (ms):", percentile_word(p), row.name), value);
  }
}

void add_spec_decode(const SpecDecodeStats& stats, Block& block) {
  block.title("Speculative Decoding", '-');
  block.line("Acceptance rate (%):", stats.acceptance_rate);
  block.line("Acceptance length:", stats.acceptance_length);
  block.line("Drafts:", stats.num_drafts);
  block.line("Draft tokens:", stats.draft_tokens);
  block.line("Accepted tokens:", stats.accepted_tokens);
  if (stats.per_position_rates.empty()) return;
  block.text("Per-position acceptance (%):");
  for (size_t i = 0; i < stats.per_position_rates.size(); ++i) {
    block.line(fmt::format("  Position {}:", i), stats.per_position_rates[i] * 100);
  }
}

template <class Member>
Json column(const std::vector<Outcome>& outcomes, Member member) {
  Json out = Json::array();
  for (const Outcome& outcome : outcomes) out.push_back(outcome.*member);
  return out;
}

Json optional_column(const std::vector<Outcome>& outcomes, std::optional<double> Outcome::*member) {
  Json out = Json::array();
  for (const Outcome& outcome : outcomes) {
    out.push_back(outcome.*member ? Json(*(outcome.*member)) : Json());
  }
  return out;
}

void add_conditions(const ServeReport& report, Json& out) {
  out["date"] = report.date;
  out["endpoint_type"] = report.backend;
  out["backend"] = report.backend;
  out["label"] = report.label ? Json(*report.label) : Json();
  out["model_id"] = report.model_id;
  out["tokenizer_id"] = report.tokenizer_id ? Json(*report.tokenizer_id) : Json();
  out["num_prompts"] = report.num_prompts;
  for (const auto& [key, value] : report.metadata) out[key] = value;
  out["request_rate"] = std::isinf(report.request_rate) ? Json("inf") : Json(report.request_rate);
  if (std::isinf(report.burstiness)) {
    out["burstiness"] = "inf";  // JSON has no infinity
  } else {
    out["burstiness"] = report.burstiness;
  }
  out["max_concurrency"] = report.max_concurrency ? Json(*report.max_concurrency) : Json();
  if (report.ramp_up_strategy.empty()) return;
  out["ramp_up_strategy"] = report.ramp_up_strategy;
  out["ramp_up_start_rps"] = report.ramp_up_start_rps;
  out["ramp_up_end_rps"] = report.ramp_up_end_rps;
}

void add_generation(const ServeReport& report, bool is_detailed, Json& out) {
  const ServeMetrics& m = report.metrics;
  const std::vector<Outcome>& all = report.outcomes;
  out["duration"] = m.duration_s;
  out["completed"] = m.completed;
  out["failed"] = m.failed;
  out["total_input_tokens"] = m.total_input;
  out["total_output_tokens"] = m.total_output;
  out["request_throughput"] = m.request_throughput;
  out["request_goodput"] = report.has_goodput ? Json(m.request_goodput) : Json();
  out["output_throughput"] = m.output_throughput;
  out["total_token_throughput"] = m.total_token_throughput;
  if (is_detailed) {
    out["input_lens"] = column(all, &Outcome::prompt_len);
    out["output_lens"] = m.output_lens;
    out["ttfts"] = column(all, &Outcome::ttft_s);
    out["itls"] = column(all, &Outcome::itl_s);
  }
  out["latencies"] = column(all, &Outcome::latency_s);
  if (is_detailed) out["start_times"] = column(all, &Outcome::start_s);
  out["queue_times"] = column(all, &Outcome::client_queue_s);
  if (is_detailed) {
    out["generated_texts"] = column(all, &Outcome::generated_text);
    out["errors"] = column(all, &Outcome::error);
  }
  out["max_output_tokens_per_s"] = m.max_output_tokens_per_s;
  out["max_concurrent_requests"] = m.max_concurrent_requests;
  out["rtfx"] = 0.0;
  const auto has = [&](std::optional<double> Outcome::*member) {
    return std::ranges::any_of(all, [&](const Outcome& o) { return (o.*member).has_value(); });
  };
  if (is_detailed && has(&Outcome::server_queue_s)) {
    out["server_queue_times"] = optional_column(all, &Outcome::server_queue_s);
  }
  if (is_detailed && has(&Outcome::server_ttft_s)) {
    out["server_ttfts"] = optional_column(all, &Outcome::server_ttft_s);
  }
}

void add_pooling(const ServeReport& report, bool is_detailed, Json& out) {
  const ServeMetrics& m = report.metrics;
  out["duration"] = m.duration_s;
  out["completed"] = m.completed;
  out["total_input_tokens"] = m.total_input;
  out["total_input_sequences"] = m.total_input_sequences;
  out["request_throughput"] = m.request_throughput;
  out["input_sequence_throughput"] = m.input_sequence_throughput;
  out["total_token_throughput"] = m.total_token_throughput;
  if (is_detailed) out["input_lens"] = column(report.outcomes, &Outcome::prompt_len);
  out["latencies"] = column(report.outcomes, &Outcome::latency_s);
  out["queue_times"] = column(report.outcomes, &Outcome::client_queue_s);
  if (is_detailed) out["errors"] = column(report.outcomes, &Outcome::error);
}

void add_extras(const ServeReport& report, Json& out) {
  if (report.probes) {
    out["probe_completed"] = report.probes->completed;
    out["probe_failed"] = report.probes->failed;
    out["probe_median_e2el_ms"] = report.probes->median_e2el_ms;
    out["probe_p99_e2el_ms"] = report.probes->p99_e2el_ms;
    out["probe_max_e2el_ms"] = report.probes->max_e2el_ms;
  }
  if (!report.rps_changes.empty()) {
    Json list = Json::array();
    for (const RpsChange& change : report.rps_changes) {
      list.push_back({{"rps", change.rps}, {"timestamp", change.timestamp}});
    }
    out["rps_change_events"] = std::move(list);
  }
  if (report.spec_decode) {
    const SpecDecodeStats& stats = *report.spec_decode;
    out["spec_decode_acceptance_rate"] = stats.acceptance_rate;
    out["spec_decode_acceptance_length"] = stats.acceptance_length;
    out["spec_decode_num_drafts"] = stats.num_drafts;
    out["spec_decode_draft_tokens"] = stats.draft_tokens;
    out["spec_decode_accepted_tokens"] = stats.accepted_tokens;
    out["spec_decode_per_position_acceptance_rates"] = stats.per_position_rates;
  }
}

}  // namespace

std::string saturation_warning(double cpu_share) {
  constexpr double kSaturated = 0.8;  // beyond it the client's own queueing shows
  if (!(cpu_share > kSaturated)) return {};
  return fmt::format(
      "WARNING: this client was busy {:.0f} % of the time: the latencies above contain its own "
      "queueing. Lower the load or split it over several clients.\n",
      cpu_share * 100);
}

std::string format_failures(const std::vector<Outcome>& outcomes) {
  constexpr int kMaxShown = 10;
  std::string out;
  int shown = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.success) continue;
    if (shown == 0) out += "Failed requests during benchmark run detected (capping to 10):\n";
    if (shown == kMaxShown) break;
    out += fmt::format("Error {}: {}\n", shown++, outcome.error);
  }
  return out;
}

std::string format_block(const ServeReport& report) {
  Block block;
  block.title(" Serving Benchmark Result ", '=');
  add_totals(report, block);
  if (report.probes) add_probes(*report.probes, block);
  for (const MetricRow& row : rows_of(report)) add_distribution(row, block);
  if (report.spec_decode) add_spec_decode(*report.spec_decode, block);
  block.title("", '=');
  return block.take();
}

nlohmann::ordered_json result_json(const ServeReport& report, bool is_detailed) {
  Json out = Json::object();
  add_conditions(report, out);
  report.metrics.is_pooling ? add_pooling(report, is_detailed, out)
                            : add_generation(report, is_detailed, out);
  add_extras(report, out);
  for (const MetricRow& row : rows_of(report)) {
    const Distribution ms = row.values->scaled(kMsPerSecond);
    out[fmt::format("mean_{}_ms", row.key)] = ms.mean;
    out[fmt::format("median_{}_ms", row.key)] = ms.median;
    out[fmt::format("std_{}_ms", row.key)] = ms.std;
    for (const auto& [p, value] : ms.percentiles) {
      out[fmt::format("p{}_{}_ms", percentile_word(p), row.key)] = value;
    }
  }
  return out;
}

std::string result_file_name(const ServeReport& report) {
  const std::string label = report.label && !report.label->empty() ? *report.label : report.backend;
  const std::string cap =
      report.max_concurrency ? fmt::format("-concurrency{}", *report.max_concurrency) : "";
  const std::string model = report.model_id.substr(report.model_id.rfind('/') + 1);
  const std::string load = report.ramp_up_strategy.empty()
                               ? fmt::format("{}qps", python_number(report.request_rate))
                               : fmt::format("ramp-up-{}-{}qps-{}qps", report.ramp_up_strategy,
                                             report.ramp_up_start_rps, report.ramp_up_end_rps);
  return fmt::format("{}-{}{}-{}-{}.json", label, load, cap, model, report.date);
}

}  // namespace octavo::bench
