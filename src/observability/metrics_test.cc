#include "observability/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <thread>

namespace octavo::observability {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

EngineMetrics::Options options(std::string model = "m") {
  EngineMetrics::Options o;
  o.model_name = std::move(model);
  o.max_model_len = 4096;
  o.now_wall_s = 1.5;
  return o;
}

std::string text_of(const auto& metrics) {
  std::string out;
  metrics.append_text(out);
  return out;
}

/// Lines that begin with `prefix`.
std::string lines(const std::string& text, const std::string& prefix) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    if (text.compare(at, prefix.size(), prefix) == 0) out += text.substr(at, end - at);
    at = end;
  }
  return out;
}

TEST(FormatValue, PrintsAsPrometheusClient) {
  EXPECT_EQ(format_value(3), "3.0");
  EXPECT_EQ(format_value(0), "0.0");
  EXPECT_EQ(format_value(1234567), "1.234567e+06");
  EXPECT_EQ(format_value(1e6), "1e+06");
  EXPECT_EQ(format_value(1e-5), "1e-05");
  EXPECT_EQ(format_value(0.0001), "0.0001");
  EXPECT_EQ(format_value(123456.7), "123456.7");
  EXPECT_EQ(format_value(1234567.25), "1.23456725e+06");
  EXPECT_EQ(format_value(-1234567), "-1234567.0");
  EXPECT_EQ(format_value(1e16), "1e+16");
  EXPECT_EQ(format_value(1.5e17), "1.5e+17");
  EXPECT_EQ(format_value(2560), "2560.0");
  EXPECT_EQ(format_value(10000000000), "1e+10");
  EXPECT_EQ(format_value(1700000000.123456), "1.700000000123456e+09");
  EXPECT_EQ(format_value(INFINITY), "+Inf");
  EXPECT_EQ(format_value(-INFINITY), "-Inf");
  EXPECT_EQ(format_value(NAN), "NaN");
}

TEST(RequestTokensBuckets, FollowTheModelLength) {
  EXPECT_THAT(request_tokens_buckets(4096),
              ElementsAre(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000));
  EXPECT_EQ(request_tokens_buckets(8192).back(), 5000);
  EXPECT_EQ(request_tokens_buckets(131072).back(), 100000);
  EXPECT_EQ(request_tokens_buckets(1048576).back(), 1e6);
  EXPECT_THAT(request_tokens_buckets(1), ElementsAre(1));
  EXPECT_TRUE(request_tokens_buckets(0).empty());
  EXPECT_EQ(request_tokens_buckets(std::numeric_limits<int64_t>::max()).back(), 5e18);
}

TEST(MetricTable, HasOneRowPerIdAndUniqueNames) {
  std::set<std::string_view> names;
  size_t i = 0;
  for (const MetricDef& def : metric_table()) {
    EXPECT_EQ(static_cast<size_t>(def.id), i++) << def.name;
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_TRUE(def.name.starts_with("vllm:")) << def.name;
    EXPECT_FALSE(def.help.empty()) << def.name;
    EXPECT_TRUE(std::is_sorted(def.buckets.begin(), def.buckets.end())) << def.name;
    EXPECT_EQ(def.label.empty(), def.label_values.empty()) << def.name;
    EXPECT_TRUE(def.buckets.empty() || def.kind == Kind::kHistogram) << def.name;
  }
  EXPECT_EQ(i, static_cast<size_t>(MetricId::kNumMetrics));
}

TEST(EngineMetrics, PrintsCountersWithTotalAndCreated) {
  EngineMetrics m(options());
  m.add(MetricId::kPromptTokens, 3);
  m.publish();
  const std::string text = text_of(m);
  EXPECT_THAT(text,
              HasSubstr("# HELP vllm:prompt_tokens_total Number of prefill tokens processed.\n"
                        "# TYPE vllm:prompt_tokens_total counter\n"
                        "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 3.0\n"
                        "# HELP vllm:prompt_tokens_created Number of prefill tokens processed.\n"
                        "# TYPE vllm:prompt_tokens_created gauge\n"
                        "vllm:prompt_tokens_created{engine=\"0\",model_name=\"m\"} 1.5\n"));
}

TEST(EngineMetrics, PrintsHistogramsCumulatively) {
  EngineMetrics m(options());
  m.observe(MetricId::kRequestParamsN, 1);  // on the bound: inside
  m.observe(MetricId::kRequestParamsN, 3);
  m.observe(MetricId::kRequestParamsN, 100);
  m.publish();
  EXPECT_EQ(lines(text_of(m), "vllm:request_params_n"),
            "vllm:request_params_n_bucket{engine=\"0\",le=\"1.0\",model_name=\"m\"} 1.0\n"
            "vllm:request_params_n_bucket{engine=\"0\",le=\"2.0\",model_name=\"m\"} 1.0\n"
            "vllm:request_params_n_bucket{engine=\"0\",le=\"5.0\",model_name=\"m\"} 2.0\n"
            "vllm:request_params_n_bucket{engine=\"0\",le=\"10.0\",model_name=\"m\"} 2.0\n"
            "vllm:request_params_n_bucket{engine=\"0\",le=\"20.0\",model_name=\"m\"} 2.0\n"
            "vllm:request_params_n_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 3.0\n"
            "vllm:request_params_n_count{engine=\"0\",model_name=\"m\"} 3.0\n"
            "vllm:request_params_n_sum{engine=\"0\",model_name=\"m\"} 104.0\n"
            "vllm:request_params_n_created{engine=\"0\",model_name=\"m\"} 1.5\n");
  EXPECT_EQ(m.value(MetricId::kRequestParamsN), 3);
  EXPECT_EQ(m.histogram_sum(MetricId::kRequestParamsN), 104);
}

TEST(EngineMetrics, KeepsTheNameOfTheIterationHistogram) {
  const std::string text = text_of(EngineMetrics(options()));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:iteration_tokens_total histogram\n"));
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_count{"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:iteration_tokens_total_created gauge\n"));
}

TEST(EngineMetrics, SortsExtraLabelsAndPreCreatesChildren) {
  const std::string text = text_of(EngineMetrics(options()));
  EXPECT_EQ(
      lines(text, "vllm:request_success_total"),
      "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 0.0\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 0.0\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\",model_name=\"m\"} 0.0\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"error\",model_name=\"m\"} 0.0\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"repetition\",model_name=\"m\"} "
      "0.0\n");
  EXPECT_THAT(text, HasSubstr("{engine=\"0\",model_name=\"m\",reason=\"deferred\"} 0.0\n"));
  EXPECT_THAT(text, HasSubstr("{engine=\"0\",model_name=\"m\",sleep_state=\"awake\"} 1.0\n"));
}

TEST(EngineMetrics, EscapesLabelValues) {
  EXPECT_THAT(text_of(EngineMetrics(options("a\"b\\c\nd"))),
              HasSubstr("model_name=\"a\\\"b\\\\c\\nd\"} 0.0\n"));
}

TEST(EngineMetrics, ShowsOnlyWhatIsPublished) {
  EngineMetrics m(options());
  m.set(MetricId::kNumRequestsRunning, 2);
  EXPECT_EQ(m.value(MetricId::kNumRequestsRunning), 0);
  EXPECT_THAT(text_of(m),
              HasSubstr("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0.0"));
  m.publish();
  EXPECT_EQ(m.value(MetricId::kNumRequestsRunning), 2);
}

TEST(EngineMetrics, MirrorsKvUsageInItsOldName) {
  EngineMetrics m(options());
  m.set(MetricId::kKvCacheUsagePerc, 0.25);
  m.publish();
  EXPECT_EQ(m.value(MetricId::kGpuCacheUsagePerc), 0.25);
  EXPECT_THAT(text_of(m),
              HasSubstr("vllm:gpu_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25"));
}

TEST(EngineMetrics, PrintsCacheConfigInfoWithoutAModelName) {
  auto o = options();
  o.engine_index = 3;
  o.cache_config_info = {
      {"_block_size_resolved", "True"}, {"block_size", "16"}, {"num_gpu_blocks", "9"}};
  EXPECT_THAT(text_of(EngineMetrics(o)),
              HasSubstr("# TYPE vllm:cache_config_info gauge\n"
                        "vllm:cache_config_info{_block_size_resolved=\"True\",block_size=\"16\","
                        "engine=\"3\",num_gpu_blocks=\"9\"} 1.0\n"));
}

TEST(EngineMetrics, LeavesOutCreatedSeriesOnRequest) {
  setenv("PROMETHEUS_DISABLE_CREATED_SERIES", "True", 1);
  const std::string text = text_of(EngineMetrics(options()));
  unsetenv("PROMETHEUS_DISABLE_CREATED_SERIES");
  EXPECT_THAT(text, Not(HasSubstr("_created")));
  EXPECT_THAT(text_of(EngineMetrics(options())), HasSubstr("_created"));
}

TEST(EngineMetrics, IdentitiesHoldAtEveryScrape) {
  EngineMetrics m(options());
  std::atomic<bool> stop{false};
  std::atomic<int> scrapes{0};
  std::thread reader([&] {
    while (!stop) {
      const std::string text = text_of(m);
      const auto number = [&](const std::string& prefix) {
        return std::stod(text.substr(text.find(prefix) + prefix.size()));
      };
      const std::string labels = "{engine=\"0\",model_name=\"m\"} ";
      ASSERT_EQ(number("vllm:prompt_tokens_total" + labels),
                number("vllm:request_prompt_tokens_sum" + labels));
      ASSERT_EQ(number("vllm:generation_tokens_total" + labels),
                2 * number("vllm:request_prompt_tokens_count" + labels));
      ++scrapes;
    }
  });
  int steps = 0;
  for (; steps < 5000 || scrapes < 50; ++steps) {
    if (testing::Test::HasFailure()) break;
    m.add(MetricId::kPromptTokens, 7);
    m.observe(MetricId::kRequestPromptTokens, 7);
    m.add(MetricId::kGenerationTokens, 2);
    m.publish();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(m.value(MetricId::kPromptTokens), 7 * steps);
}

TEST(HttpMetrics, GroupsStatusAndCountsSizes) {
  HttpMetrics m(10.0);
  m.record("/v1/completions", "POST", 200, 12, 34, 0.2);
  m.record("/v1/completions", "POST", 404, 1, 2, 0.7);
  m.record("none", "BREW", 404, 0, 5, 100);
  const std::string text = text_of(m);
  EXPECT_EQ(lines(text, "http_requests_total"),
            "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 1.0\n"
            "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"4xx\"} 1.0\n"
            "http_requests_total{handler=\"none\",method=\"OTHER\",status=\"4xx\"} 1.0\n");
  EXPECT_THAT(text, HasSubstr("# TYPE http_request_size_bytes summary\n"
                              "http_request_size_bytes_count{handler=\"/v1/completions\"} 2.0\n"
                              "http_request_size_bytes_sum{handler=\"/v1/completions\"} 13.0\n"));
  EXPECT_EQ(lines(text, "http_request_duration_seconds_bucket{handler=\"/v1"),
            "http_request_duration_seconds_bucket{handler=\"/v1/"
            "completions\",le=\"0.1\",method=\"POST\"} 0.0\n"
            "http_request_duration_seconds_bucket{handler=\"/v1/"
            "completions\",le=\"0.5\",method=\"POST\"} 1.0\n"
            "http_request_duration_seconds_bucket{handler=\"/v1/"
            "completions\",le=\"1.0\",method=\"POST\"} 2.0\n"
            "http_request_duration_seconds_bucket{handler=\"/v1/"
            "completions\",le=\"+Inf\",method=\"POST\"} 2.0\n");
  EXPECT_THAT(text, HasSubstr("http_request_duration_highr_seconds_bucket{le=\"60.0\"} 2.0\n"
                              "http_request_duration_highr_seconds_bucket{le=\"+Inf\"} 3.0\n"
                              "http_request_duration_highr_seconds_count 3.0\n"));
}

TEST(HttpMetrics, LeavesOutProbes) {
  HttpMetrics m(10.0);
  for (const char* route : {"/metrics", "/health", "/load", "/v1/load_lora_adapter", "/ping",
                            "/version", "/server_info", "/live", "/ready"}) {
    m.record(route, "GET", 200, 0, 0, 0);
  }
  const std::string text = text_of(m);
  EXPECT_THAT(text, Not(HasSubstr("handler=")));
  EXPECT_THAT(text, HasSubstr("http_request_duration_highr_seconds_count 0.0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE http_requests_total counter\n"));
}

TEST(ProcessText, ReadsTheProcess) {
  std::string text;
  append_process_text(text);
  const auto number = [&](const std::string& name) {
    const std::string line = lines(text, name + " ");
    EXPECT_FALSE(line.empty()) << name;
    return line.empty() ? 0.0 : std::stod(line.substr(name.size() + 1));
  };
  EXPECT_GT(number("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(number("process_virtual_memory_bytes"), number("process_resident_memory_bytes"));
  EXPECT_GT(number("process_open_fds"), 2);
  EXPECT_GE(number("process_max_fds"), number("process_open_fds"));
  EXPECT_GE(number("process_cpu_seconds_total"), 0);
  const double age = static_cast<double>(time(nullptr)) - number("process_start_time_seconds");
  EXPECT_GT(age, -5);
  EXPECT_LT(age, 3600);
}

TEST(AllText, IsWrittenForAParserByHand) {
  // OCTAVO_METRICS_TEXT names a file that a Prometheus parser can then be run on.
  const char* path = std::getenv("OCTAVO_METRICS_TEXT");
  if (path == nullptr) GTEST_SKIP() << "OCTAVO_METRICS_TEXT is not set";
  EngineMetrics m(options("a\"b\\c\nd"));
  m.observe(MetricId::kTimeToFirstToken, 0.3);
  m.add(MetricId::kPromptTokens, 12345678);
  m.publish();
  HttpMetrics http(10.0);
  http.record("/v1/completions", "POST", 200, 12, 34, 0.2);
  std::string text;
  append_process_text(text);
  m.append_text(text);
  http.append_text(text);
  FILE* file = std::fopen(path, "w");
  ASSERT_NE(file, nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

}  // namespace
}  // namespace octavo::observability
