// Formulas on cases computed by hand; the printed block and the JSON of one of them.
#include "bench/serve_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/serve_report.h"

namespace octavo::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Chunks at ttft, ttft + gap, ...; the clock starts at 100 s.
Outcome answered(double start_s, double ttft_s, std::vector<double> itl_s, int64_t output_tokens,
                 int64_t prompt_len = 10) {
  Outcome outcome;
  outcome.success = true;
  outcome.start_s = 100 + start_s;
  outcome.ttft_s = ttft_s;
  outcome.itl_s = std::move(itl_s);
  outcome.latency_s = ttft_s;
  for (const double gap_s : outcome.itl_s) outcome.latency_s += gap_s;
  outcome.output_tokens = output_tokens;
  outcome.prompt_len = prompt_len;
  return outcome;
}

Outcome failed(const std::string& error = "Service Unavailable") {
  Outcome outcome;
  outcome.error = error;
  outcome.prompt_len = 1000;  // must not be counted
  outcome.start_s = 50;
  return outcome;
}

/// Three answers and a failure in 4 s: one token; three tokens in chunks of one; eight tokens in
/// three chunks.
std::vector<Outcome> mixed() {
  return {answered(0, 0.5, {}, 1), answered(0, 0.25, {0.25, 0.5}, 3), failed(),
          answered(1.5, 0.5, {1, 1}, 8, 20)};
}

TEST(ServeMetrics, HandComputedMix) {
  MetricOptions options;
  options.percentiles = {50, 99.9};
  const ServeMetrics m = compute_metrics(mixed(), 4, options);
  EXPECT_EQ(m.completed, 3);
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.total_input, 40);
  EXPECT_EQ(m.total_output, 12);
  EXPECT_THAT(m.output_lens, ElementsAre(1, 3, 0, 8));
  EXPECT_DOUBLE_EQ(m.request_throughput, 0.75);
  EXPECT_DOUBLE_EQ(m.output_throughput, 3);
  EXPECT_DOUBLE_EQ(m.total_token_throughput, 13);
  EXPECT_DOUBLE_EQ(m.request_goodput, 0.75);  // no limits: every answer is good
  // TPOT: (1 - 0.25) / 2 and (2.5 - 0.5) / 7; the one-token answer has none.
  EXPECT_DOUBLE_EQ(m.tpot.mean, (0.375 + 2.0 / 7) / 2);
  EXPECT_DOUBLE_EQ(m.ttft.mean, 1.25 / 3);
  EXPECT_DOUBLE_EQ(m.ttft.median, 0.5);
  EXPECT_DOUBLE_EQ(m.itl.mean, 2.75 / 4);
  EXPECT_DOUBLE_EQ(m.itl.median, 0.75);
  EXPECT_DOUBLE_EQ(m.e2el.mean, (0.5 + 1 + 2.5) / 3);
  EXPECT_NEAR(m.ttft.std, std::sqrt(2.0 / 9) * 0.25, 1e-12);
  // Chunks at 0.5, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0 s: three in the first second.
  EXPECT_EQ(m.max_output_tokens_per_s, 3);
  // Second 1 is touched by the answer that ends at 1.0 and the one that starts at 1.5.
  EXPECT_EQ(m.max_concurrent_requests, 2);
  EXPECT_FALSE(m.client_queue_time.has_value());
}

TEST(ServeMetrics, GoodputNeedsEveryLimitAndCountsOneTokenAnswersAsZeroTpot) {
  MetricOptions options;
  options.goodput.tpot_ms = 300;
  EXPECT_DOUBLE_EQ(compute_metrics(mixed(), 4, options).request_goodput, 0.5);
  options.goodput.ttft_ms = 500;  // the limit itself is good
  options.goodput.e2el_ms = 1000;
  EXPECT_DOUBLE_EQ(compute_metrics(mixed(), 4, options).request_goodput, 0.25);
}

TEST(ServeMetrics, WithoutAnswersEverythingIsZero) {
  for (const std::vector<Outcome>& outcomes : {std::vector<Outcome>{}, {failed(), failed()}}) {
    const ServeMetrics m = compute_metrics(outcomes, 1, {});
    EXPECT_EQ(m.completed, 0);
    EXPECT_EQ(m.failed, int64_t(outcomes.size()));
    EXPECT_EQ(m.request_throughput, 0);
    EXPECT_EQ(m.ttft.percentiles[0].second, 0);
    EXPECT_EQ(m.max_concurrent_requests, 0);
  }
}

TEST(ServeMetrics, TokensThatTheServerDidNotCountAreCountedHere) {
  std::vector<Outcome> outcomes = {answered(0, 1, {1}, 0)};
  outcomes[0].generated_text = "a b c";
  MetricOptions options;
  EXPECT_EQ(compute_metrics(outcomes, 1, options).total_output, 1);  // no tokenizer
  options.count_tokens = [](std::string_view text) { return int64_t(text.size()); };
  EXPECT_EQ(compute_metrics(outcomes, 1, options).total_output, 5);
}

TEST(ServeMetrics, QueueTimesNeedALimit) {
  std::vector<Outcome> outcomes = {answered(0, 1, {}, 1), answered(0, 1, {}, 1)};
  outcomes[1].client_queue_s = 3;
  MetricOptions options;
  options.has_concurrency_limit = true;
  ServeMetrics m = compute_metrics(outcomes, 1, options);
  EXPECT_DOUBLE_EQ(m.client_queue_time->mean, 1.5);
  EXPECT_FALSE(m.e2el_including_client_queue.has_value());
  options.has_finite_rate = true;
  m = compute_metrics(outcomes, 1, options);
  EXPECT_DOUBLE_EQ(m.e2el_including_client_queue->mean, 2.5);
}

TEST(ServeMetrics, PoolingCountsSequencesAndLatencyOnly) {
  std::vector<Outcome> outcomes = {answered(0, 1, {}, 0, 30), failed()};
  outcomes[0].num_input_sequences = 4;
  MetricOptions options;
  options.is_pooling = true;
  const ServeMetrics m = compute_metrics(outcomes, 2, options);
  EXPECT_EQ(m.total_input_sequences, 4);
  EXPECT_DOUBLE_EQ(m.input_sequence_throughput, 2);
  EXPECT_DOUBLE_EQ(m.total_token_throughput, 15);
  EXPECT_EQ(m.total_output, 0);
}

ServeReport report_of(std::vector<Outcome> outcomes, MetricOptions options) {
  ServeReport report;
  report.date = "20260102-030405";
  report.backend = "openai";
  report.model_id = "org/name";
  report.tokenizer_id = "org/name";
  report.num_prompts = 4;
  report.request_rate = std::numeric_limits<double>::infinity();
  report.selected_metrics = {"ttft", "tpot", "itl"};
  report.has_goodput = options.goodput.is_set();
  report.metrics = compute_metrics(outcomes, 4, options);
  report.outcomes = std::move(outcomes);
  return report;
}

TEST(ServeReport, TheBlockIsTheOriginals) {
  EXPECT_EQ(format_block(report_of(mixed(), {})),
            "============ Serving Benchmark Result ============\n"
            "Successful requests:                     3         \n"
            "Failed requests:                         1         \n"
            "Benchmark duration (s):                  4.00      \n"
            "Total input tokens:                      40        \n"
            "Total generated tokens:                  12        \n"
            "Request throughput (req/s):              0.75      \n"
            "Output token throughput (tok/s):         3.00      \n"
            "Peak output token throughput (tok/s):    3.00      \n"
            "Peak concurrent requests:                2.00      \n"
            "Total token throughput (tok/s):          13.00     \n"
            "---------------Time to First Token----------------\n"
            "Mean TTFT (ms):                          416.67    \n"
            "Median TTFT (ms):                        500.00    \n"
            "P99 TTFT (ms):                           500.00    \n"
            "-----Time per Output Token (excl. 1st token)------\n"
            "Mean TPOT (ms):                          330.36    \n"
            "Median TPOT (ms):                        330.36    \n"
            "P99 TPOT (ms):                           374.11    \n"
            "---------------Inter-token Latency----------------\n"
            "Mean ITL (ms):                           687.50    \n"
            "Median ITL (ms):                         750.00    \n"
            "P99 ITL (ms):                            1000.00   \n"
            "==================================================\n");
}

TEST(ServeReport, EveryConditionalLineHasItsPlace) {
  MetricOptions options;
  options.goodput.ttft_ms = 1;
  options.percentiles = {99, 99.9};
  options.has_concurrency_limit = options.has_finite_rate = true;
  ServeReport report = report_of(mixed(), options);
  report.max_concurrency = 8;
  report.request_rate = 2.5;
  report.selected_metrics = {"e2el_including_client_queue", "client_queue_time", "e2el"};
  report.probes = ProbeStats{3, 1, 1.5, 2.5, 3.5};
  report.spec_decode = SpecDecodeStats{50, 2.5, 10, 30, 15, {0.9, 0.6}};
  EXPECT_EQ(format_block(report),
            "============ Serving Benchmark Result ============\n"
            "Successful requests:                     3         \n"
            "Failed requests:                         1         \n"
            "Maximum request concurrency:             8         \n"
            "Request rate configured (RPS):           2.50      \n"
            "Benchmark duration (s):                  4.00      \n"
            "Total input tokens:                      40        \n"
            "Total generated tokens:                  12        \n"
            "Request throughput (req/s):              0.75      \n"
            "Request goodput (req/s):                 0.00      \n"
            "Output token throughput (tok/s):         3.00      \n"
            "Peak output token throughput (tok/s):    3.00      \n"
            "Peak concurrent requests:                2.00      \n"
            "Total token throughput (tok/s):          13.00     \n"
            "------------------Probe Requests------------------\n"
            "Probe requests completed:                3         \n"
            "Probe requests failed:                   1         \n"
            "Median probe E2EL (ms):                  1.50      \n"
            "P99 probe E2EL (ms):                     2.50      \n"
            "Max probe E2EL (ms):                     3.50      \n"
            "----------------End-to-end Latency----------------\n"
            "Mean E2EL (ms):                          1333.33   \n"
            "Median E2EL (ms):                        1000.00   \n"
            "P99 E2EL (ms):                           2470.00   \n"
            "P99.9 E2EL (ms):                         2497.00   \n"
            "---------------Client-side Queueing---------------\n"
            "Mean Client Queue Time (ms):             0.00      \n"
            "Median Client Queue Time (ms):           0.00      \n"
            "P99 Client Queue Time (ms):              0.00      \n"
            "P99.9 Client Queue Time (ms):            0.00      \n"
            "--------Queue-inclusive End-to-end Latency--------\n"
            "Mean E2EL incl. Client Queue (ms):       1333.33   \n"
            "Median E2EL incl. Client Queue (ms):     1000.00   \n"
            "P99 E2EL incl. Client Queue (ms):        2470.00   \n"
            "P99.9 E2EL incl. Client Queue (ms):      2497.00   \n"
            "---------------Speculative Decoding---------------\n"
            "Acceptance rate (%):                     50.00     \n"
            "Acceptance length:                       2.50      \n"
            "Drafts:                                  10        \n"
            "Draft tokens:                            30        \n"
            "Accepted tokens:                         15        \n"
            "Per-position acceptance (%):\n"
            "  Position 0:                            90.00     \n"
            "  Position 1:                            60.00     \n"
            "==================================================\n");
}

TEST(ServeReport, WithoutATokenizerTokensAreNotShown) {
  ServeReport report = report_of(mixed(), {});
  report.tokenizer_id.reset();
  const std::string block = format_block(report);
  EXPECT_THAT(block, Not(HasSubstr("tok/s")));
  EXPECT_THAT(block, Not(HasSubstr("Total generated tokens")));
  EXPECT_THAT(block, HasSubstr("Mean TTFT (ms):"));
  EXPECT_THAT(block, HasSubstr("Peak concurrent requests:"));
}

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

TEST(ServeReport, KeysOfTheResultAreTheOriginals) {
  ServeReport report = report_of(mixed(), {});
  report.selected_metrics = {"ttft"};
  report.metadata = {{"version", "1"}, {"label", "mine"}};  // an old key keeps its place
  const auto brief = result_json(report, false);
  EXPECT_THAT(keys(brief),
              ElementsAre("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id",
                          "num_prompts", "version", "request_rate", "burstiness", "max_concurrency",
                          "duration", "completed", "failed", "total_input_tokens",
                          "total_output_tokens", "request_throughput", "request_goodput",
                          "output_throughput", "total_token_throughput", "latencies", "queue_times",
                          "max_output_tokens_per_s", "max_concurrent_requests", "rtfx",
                          "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms"));
  EXPECT_EQ(brief["request_rate"], "inf");
  EXPECT_EQ(brief["label"], "mine");
  EXPECT_TRUE(brief["request_goodput"].is_null());
  const auto full = keys(result_json(report, true));
  EXPECT_THAT(std::vector(full.begin() + 20, full.end() - 4),
              ElementsAre("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times",
                          "queue_times", "generated_texts", "errors", "max_output_tokens_per_s",
                          "max_concurrent_requests", "rtfx"));
}

TEST(ServeReport, PoolingHasKeysAndLinesOfItsOwn) {
  MetricOptions options;
  options.is_pooling = true;
  ServeReport report = report_of({answered(0, 1, {}, 0)}, options);
  report.selected_metrics = {"e2el"};
  EXPECT_THAT(keys(result_json(report, false)),
              testing::IsSupersetOf(
                  {"total_input_sequences", "input_sequence_throughput", "mean_e2el_ms"}));
  EXPECT_FALSE(result_json(report, true).contains("failed"));
  EXPECT_FALSE(result_json(report, true).contains("ttfts"));
  EXPECT_THAT(format_block(report), HasSubstr("Input throughput (inputs/s):             0.25"));
  EXPECT_THAT(format_block(report), Not(HasSubstr("Peak")));
}

TEST(ServeReport, FileNamesSayTheLoad) {
  ServeReport report = report_of({}, {});
  EXPECT_EQ(result_file_name(report), "openai-infqps-name-20260102-030405.json");
  report.request_rate = 2;
  report.max_concurrency = 4;
  report.label = "mine";
  EXPECT_EQ(result_file_name(report), "mine-2.0qps-concurrency4-name-20260102-030405.json");
  report.ramp_up_strategy = "linear";
  report.ramp_up_start_rps = 1;
  report.ramp_up_end_rps = 9;
  EXPECT_EQ(result_file_name(report),
            "mine-ramp-up-linear-1qps-9qps-concurrency4-name-20260102-030405.json");
}

TEST(ServeReport, ASaturatedClientIsAWarning) {
  EXPECT_EQ(saturation_warning(0), "");
  EXPECT_EQ(saturation_warning(0.8), "");
  EXPECT_EQ(saturation_warning(std::nan("")), "");
  EXPECT_THAT(saturation_warning(0.93), HasSubstr("busy 93 % of the time"));
}

TEST(ServeReport, TenFailuresAreShown) {
  EXPECT_EQ(format_failures({answered(0, 1, {}, 1)}), "");
  const std::string text = format_failures(std::vector<Outcome>(12, failed("Bad Gateway")));
  EXPECT_THAT(text, HasSubstr("Error 9: Bad Gateway\n"));
  EXPECT_THAT(text, Not(HasSubstr("Error 10")));
}

}  // namespace
}  // namespace octavo::bench
