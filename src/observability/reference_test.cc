#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "observability/metrics.h"

// docs/reference/metrics.md is made from the metric table; this test holds it current.
// OCTAVO_UPDATE_DOCS=1 rewrites it.

namespace octavo::observability {
namespace {

constexpr const char* kPath = OCTAVO_SOURCE_DIR "/docs/reference/metrics.md";

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kGauge:
      return "gauge";
    case Kind::kCounter:
      return "counter";
    case Kind::kHistogram:
      return "histogram";
    default:
      return "info";
  }
}

std::string buckets_of(const MetricDef& metric) {
  if (metric.kind != Kind::kHistogram) return "";
  if (metric.buckets.empty()) return "1-2-5 series up to max_model_len";
  std::string text;
  for (const double bound : metric.buckets) text += format_value(bound) + " ";
  text.pop_back();
  return text;
}

std::string reference() {
  std::string text =
      "# Metrics of /metrics\n\nMade from the table in `src/observability/metric_table.cc`; "
      "`OCTAVO_UPDATE_DOCS=1 build/release/observability_test` rewrites it. Every series carries "
      "`engine` and `model_name`. Beside these: `vllm:cache_config_info`, `http_*` "
      "(`src/observability/http_metrics.cc`) and `process_*`.\n\n"
      "| name | kind | label | buckets | meaning |\n|---|---|---|---|---|\n";
  for (const MetricDef& metric : metric_table()) {
    std::string label(metric.label);
    for (const auto value : metric.label_values) label += fmt::format(" `{}`", value);
    const bool is_counter = metric.kind == Kind::kCounter;
    text += fmt::format("| `{}{}` | {} | {} | {} | {} |\n", metric.name,
                        is_counter && !metric.name.ends_with("_total") ? "_total" : "",
                        name_of(metric.kind), label, buckets_of(metric), metric.help);
  }
  return text;
}

TEST(Reference, MetricsPageIsCurrent) {
  if (std::getenv("OCTAVO_UPDATE_DOCS") != nullptr) std::ofstream(kPath) << reference();
  std::ifstream in(kPath);
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(page, reference()) << "run with OCTAVO_UPDATE_DOCS=1 and commit " << kPath;
}

}  // namespace
}  // namespace octavo::observability
