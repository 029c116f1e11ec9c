#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "bench/param_sweep.h"
#include "bench/sweep_chart.h"
#include "bench/sweep_data.h"
#include "bench/sweep_runner.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

TEST(ParamSweep, ReadsBothForms) {
  const auto list = parse_param_sweep(R"([{"a": 1}, {"_benchmark_name": "x", "b_c": true}])");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ((*list)[0].label(), "a=1");
  EXPECT_EQ((*list)[1].label(), "x");
  EXPECT_EQ((*list)[1].as_text(", "), "b_c=true");
  const auto map = parse_param_sweep(R"({"one": {"a": 1}, "two": {}})");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ((*map)[1].label(), "two");
  EXPECT_EQ((*map)[0].apply({"c"}), (std::vector<std::string>{"c", "--a", "1"}));
  for (const char* bad :
       {"", "{", "1", "null", "[]", "{}", "[[]]", R"({"a": []})", R"([{"_benchmark_name": ""}])",
        R"([{"": 1}])", R"([{"_benchmark_name": "a/b"}, {"_benchmark_name": "a_b"}])"}) {
    EXPECT_FALSE(parse_param_sweep(bad).ok()) << bad;
  }
  // Deeper than any stack: an error or a value, no crash.
  parse_param_sweep("[" + std::string(100000, '[')).ok();
}

TEST(ParamSweep, AChangedParameterKeepsItsSpelling) {
  SweepItem item;
  item.params = {{"num-prompts", 5}};
  EXPECT_TRUE(item.sets("num_prompts"));
  EXPECT_EQ(item.with("num_prompts", 9).params, (Json{{"num-prompts", 9}}));
  EXPECT_EQ(item.with("x", 1).params.size(), 2u);
  EXPECT_EQ(item.params["num-prompts"], 5);
}

TEST(ParamSweep, FoldersAreNames) {
  const auto item = [](std::string name) {
    SweepItem out;
    out.name = std::move(name);
    return out;
  };
  EXPECT_EQ(pair_folder(item("a/../b"), item("c")), "SERVE--a____b-BENCH--c");
  EXPECT_EQ(pair_folder({}, {}), "default");
  EXPECT_EQ(pair_folder({}, item("c"), "WL--request_rate=1"), "BENCH--c-WL--request_rate=1");
  const std::string first = pair_folder(item(std::string(300, 'x') + "1"), {});
  EXPECT_LE(first.size(), 255u);
  EXPECT_NE(first, pair_folder(item(std::string(300, 'x') + "2"), {}));
}

TEST(ParamSweep, LinksComparePairs) {
  SweepItem serve, bench;
  serve.params = {{"s", 4}};
  bench.params = {{"b", 4}, {"c", 5}};
  EXPECT_TRUE(is_linked(serve, bench, parse_link_vars(" s = b ").value()));
  EXPECT_FALSE(is_linked(serve, bench, parse_link_vars("s=b,s=c").value()));
  EXPECT_FALSE(is_linked(serve, bench, parse_link_vars("s=d").value()));
  EXPECT_TRUE(is_linked(serve, bench, parse_link_vars("").value()));
  for (const char* bad : {"s", "=b", "s=", "a=b=c"}) EXPECT_FALSE(parse_link_vars(bad).ok()) << bad;
}

TEST(ParamSweep, LevelsBetweenTwoEnds) {
  using Levels = std::vector<int64_t>;
  EXPECT_EQ(inner_levels(1, 10, 10), (Levels{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(inner_levels(2, 12, 5), (Levels{4, 7, 10}));  // 4.5 and 9.5 to even
  EXPECT_EQ(inner_levels(1, 3, 10), (Levels{2}));
  EXPECT_EQ(inner_levels(1, 0, 10), (Levels{}));  // slower together than alone
  EXPECT_EQ(inner_levels(5, 1, 3), (Levels{3}));
  EXPECT_EQ(inner_levels(1, 100, 2), (Levels{}));
}

TEST(SweepRunner, CsvHasEveryKeyInTheOrderOfItsComing) {
  EXPECT_EQ(to_csv({Json{{"a", 1}, {"b", "x,\"y\""}},
                    Json{{"b", nullptr}, {"c", true}, {"d", {1, 2}}, {"a", 0.5}}}),
            ",a,b,c,d\n0,1,\"x,\"\"y\"\"\",,\n1,0.5,,True,\"[1,2]\"\n");
}

TEST(SweepRunner, FilesAreWholeOrNotThere) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / ("octavo_whole_" + std::to_string(::getpid()))).string();
  ASSERT_TRUE(write_whole(path, "one").ok());
  ASSERT_TRUE(write_whole(path, "two").ok());
  std::ifstream file(path);
  std::string text;
  file >> text;
  EXPECT_EQ(text, "two");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  std::filesystem::remove(path);
  EXPECT_FALSE(write_whole("/nonexistent/x", "one").ok());
}

TEST(SweepData, FiltersAndBins) {
  const Json run{{"a", 5}, {"rate", "inf"}, {"name", "x"}};
  const auto accepts = [&](const char* text) {
    const auto filters = parse_filters(text).value();
    for (const SweepFilter& filter : filters) {
      if (!filter.accepts(run)) return false;
    }
    return true;
  };
  EXPECT_TRUE(accepts("a<6,a<=5,a>=5,a>4.5,a==5,a!=6,name==x,name!=y,rate>1000"));
  EXPECT_FALSE(accepts("a<5"));
  EXPECT_FALSE(accepts("name<x"));
  EXPECT_FALSE(accepts("other==1"));
  for (const char* bad : {"a", "<5", "a<"}) EXPECT_FALSE(parse_filters(bad).ok()) << bad;
  for (const char* bad : {"a", "a%", "a%0", "a%-1", "%3", "a%inf"}) {
    EXPECT_FALSE(parse_bins(bad).ok()) << bad;
  }
  const auto points = select_points({{"p", {run, Json{{"a", 12}}}}, {"q", {Json{{"a", 99}}}}},
                                    parse_filters("a<50").value(), parse_bins("a%5").value());
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].mean("a"), 7.5);  // 5 and 10
  EXPECT_EQ(points[0].lowest("a"), 5);
  EXPECT_TRUE(std::isnan(points[0].mean("none")));
}

TEST(SweepData, TheFrontIsWhatNoOtherBeats) {
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(pareto_front(Points{{1, 5}, {2, 4}, {2, 3}, {0, 1}, {3, NAN}, {1, 5}, {4, 1}}).size(),
            3u);
  EXPECT_TRUE(pareto_front({}).empty());
  SplitMix64 random(9);
  for (int round = 0; round < 200; ++round) {
    Points points(1 + random.below(20));
    for (auto& [x, y] : points) x = double(random.below(6)), y = double(random.below(6));
    const std::vector<size_t> front = pareto_front(points);
    for (size_t i = 0; i < points.size(); ++i) {
      const bool is_beaten = std::ranges::any_of(points, [&](const auto& other) {
        return other.first >= points[i].first && other.second >= points[i].second &&
               other != points[i];
      });
      const bool is_there =
          std::ranges::any_of(front, [&](size_t f) { return points[f] == points[i]; });
      EXPECT_EQ(is_there, !is_beaten) << round;
    }
  }
}

TEST(SweepChart, DrawsWhatCanBeDrawn) {
  Chart chart;
  chart.title = "<a & b>";
  chart.x_scale = ScaleKind::kLog;
  chart.series.push_back(
      {"s", {{1, 2, 1, 3, "p"}, {0, 2, 2, 2, "at zero"}, {NAN, 1, 1, 1, ""}, {100, 5, 5, 5, ""}}});
  const std::string svg = draw_charts({{chart}}, 300);
  EXPECT_NE(svg.find("&lt;a &amp; b&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("at zero"), std::string::npos);
  for (const char* bad : {"nan", "inf\"", "\"-inf"}) EXPECT_EQ(svg.find(bad), std::string::npos);
  // Nothing, and one point only.
  EXPECT_EQ(draw_charts({{Chart{}}}, 300).find("nan"), std::string::npos);
  Chart single;
  single.series.push_back({"", {{7, 7, 7, 7, ""}}});
  EXPECT_NE(draw_charts({{single}}, 300).find("<circle"), std::string::npos);
  EXPECT_EQ(draw_charts({{single}}, 300).find("nan"), std::string::npos);
}

TEST(SweepChart, TicksAreFewAndInside) {
  SplitMix64 random(2);
  for (int round = 0; round < 1000; ++round) {
    const double low = std::exp(random.uniform() * 20 - 10);
    const double high = low * (1 + std::exp(random.uniform() * 16 - 8));
    for (const ScaleKind scale : {ScaleKind::kLinear, ScaleKind::kLog, ScaleKind::kSqrt}) {
      const auto ticks = Scale(low, high, 0, 100, scale).ticks();
      EXPECT_LE(ticks.size(), 14u) << low << " " << high;
      EXPECT_GE(ticks.size(), 1u) << low << " " << high;
      for (const double tick : ticks) {
        EXPECT_GE(tick, low * (1 - 1e-9));
        EXPECT_LE(tick, high * (1 + 1e-9));
      }
    }
  }
  EXPECT_EQ(Scale(1, 100, 0, 100, ScaleKind::kLog).ticks(),
            (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_DOUBLE_EQ(Scale(1, 100, 0, 100, ScaleKind::kLog).at(10), 50);
  EXPECT_DOUBLE_EQ(Scale(0, 100, 0, 100, ScaleKind::kSqrt).at(25), 50);
}

}  // namespace
}  // namespace octavo::bench
