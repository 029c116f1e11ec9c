#include "bench/serve_plots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/svg.h"

namespace octavo::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome answered(double start_s, double ttft_s, std::vector<double> gaps) {
  Outcome out;
  out.success = true;
  out.start_s = start_s;
  out.ttft_s = ttft_s;
  out.latency_s = ttft_s;
  for (const double gap : gaps) out.latency_s += gap;
  out.itl_s = std::move(gaps);
  return out;
}

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(ServePlots, EveryRequestIsARowWithGapsInTheColoursOfTheLimits) {
  // Limits 25 and 50 ms: two quick gaps are one piece, then a slow one, then a quick one.
  std::vector<Outcome> outcomes = {answered(10, 0.1, {0.01, 0.02, 0.06, 0.01}),
                                   answered(11, 0.1, {0.025}), Outcome{}};
  const std::string page = timeline_page(outcomes, {25, 50});
  EXPECT_EQ(count_of(page, "<title>Req "), 2u);
  EXPECT_THAT(page, HasSubstr("a row for each of 2 of 3 requests (1 failed)"));
  const size_t first = page.find("<title>Req 0");
  const std::string row = page.substr(first, page.find("</g>", first) - first);
  EXPECT_EQ(count_of(row, "stroke=\"#109618\""), 1u);
  EXPECT_EQ(count_of(row, "stroke=\"#d62728\""), 1u);
  EXPECT_EQ(count_of(row, "stroke=\"#ff7f0e\""), 0u);
  EXPECT_EQ(count_of(row, "H"), 4u);  // TTFT, quick, slow, quick
  EXPECT_EQ(count_of(page.substr(page.find("<title>Req 1")), "stroke=\"#ff7f0e\""), 1u);
}

TEST(ServePlots, NothingToShowIsAPageToo) {
  EXPECT_THAT(timeline_page({}, {25, 50}), HasSubstr("No request succeeded"));
  EXPECT_THAT(timeline_page(std::vector<Outcome>(3), {25, 50}), HasSubstr("No request succeeded"));
  EXPECT_THAT(dataset_stats_page({}, {}), HasSubstr("No requests"));
  const std::vector<int64_t> same = {7, 7, 7};
  EXPECT_THAT(dataset_stats_page(same, same), Not(HasSubstr("nan")));
}

TEST(ServePlots, LargeRunsAreCut) {
  const std::vector<Outcome> outcomes(3000, answered(0, 0.1, std::vector<double>(100, 0.01)));
  const std::string page = timeline_page(outcomes, {25, 50});
  EXPECT_THAT(page, HasSubstr("a row for each of 2000 of 3000 requests"));
  EXPECT_LT(page.size(), size_t{2} << 20);
  const std::vector<int64_t> lengths(100'000, 3);
  EXPECT_THAT(dataset_stats_page(lengths, lengths), HasSubstr("The first 2000 of 100000"));
}

TEST(ServePlots, BinsHoldEveryValue) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i <= 60; ++i) lengths.push_back(i);
  const std::string page = dataset_stats_page(lengths, lengths);
  EXPECT_EQ(count_of(page, "<rect "), 90u);          // 30 bins, three plots
  EXPECT_THAT(page, HasSubstr("<title>3</title>"));  // the last bin has its upper end too
}

TEST(Svg, ScalesAndTicks) {
  const Scale scale(0, 10, 100, 200);
  EXPECT_DOUBLE_EQ(scale.at(5), 150);
  EXPECT_EQ(scale.ticks(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const Scale point(3, 3, 0, 1);
  EXPECT_LT(point.low(), 3);
  EXPECT_GT(point.high(), 3);
  EXPECT_THAT(svg_axis_x(Scale(0.9, 1.1, 0, 100), 10, 0), HasSubstr(">1.00<"));
  EXPECT_EQ(html_escape("<a b='c' d=\"e\">&\n"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp; ");
}

}  // namespace
}  // namespace octavo::bench
