#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "bench/sweep.h"
#include "bench/sweep_chart.h"
#include "bench/sweep_data.h"
#include "bench/sweep_runner.h"

namespace octavo::bench {
namespace {

using config::CommandLine;
using config::Option;
using config::OptionKind;

constexpr int kUsageError = 2;
constexpr int kFailed = 1;
constexpr double kPixelsPerInch = 70;

constexpr auto kPlotFlags = std::to_array<Option>({
    {"fig-dir", OptionKind::kText, "", "Folder of the drawings, in the experiment's."},
    {"fig-by", OptionKind::kText, "", "Variables, separated by commas: a drawing for each value."},
    {"row-by", OptionKind::kText, "", "A row of charts for each value."},
    {"col-by", OptionKind::kText, "", "A column of charts for each value."},
    {"curve-by", OptionKind::kText, "", "A curve for each value; default: the server's settings."},
    {"var-x", OptionKind::kText, "total_token_throughput", "Variable of the horizontal axis."},
    {"var-y", OptionKind::kText, "median_ttft_ms", "Variable of the vertical axis."},
    {"filter-by", OptionKind::kText, "", "Only runs like this: a<5,b==x."},
    {"bin-by", OptionKind::kText, "", "Lower values to multiples: a%5."},
    {"scale-x", OptionKind::kChoice, "", "Scale of the horizontal axis.", "linear log sqrt"},
    {"scale-y", OptionKind::kChoice, "", "Scale of the vertical axis.", "linear log sqrt"},
    {"fig-name", OptionKind::kText, "FIGURE", "Begin of the files' names."},
    {"no-error-bars", OptionKind::kSwitch, "", "Leave out lowest and highest of the runs."},
    {"fig-height", OptionKind::kFloat, "6.4", "Height of a chart, inches."},
    {"fig-dpi", OptionKind::kInt, "300", "No effect: the drawings have no pixels."},
    {"dry-run", OptionKind::kSwitch, "", "Say what would be drawn."},
});
constexpr auto kParetoFlags = std::to_array<Option>({
    {"user-count-var", OptionKind::kText, "max_concurrency",
     "Number of users; without it max_concurrent_requests."},
    {"gpu-count-var", OptionKind::kText, "",
     "Number of devices; default: num_gpus, gpu_count, tensor x pipeline size, else 1."},
    {"label-by", OptionKind::kText, "max_concurrency,gpu_count",
     "Variables written beside points that no other beats."},
    {"dry-run", OptionKind::kSwitch, "", "Say what would be drawn."},
});

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// Points by the values of some variables: "a=1, b=2" -> points. All in one group without any.
using Groups = std::map<std::string, std::vector<SweepPoint>>;

std::string values_text(const SweepPoint& point, const std::vector<std::string>& variables) {
  std::string out;
  for (const std::string& variable : variables) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", variable, point.text(variable));
  }
  return out;
}

Groups group_by(const std::vector<SweepPoint>& points, const std::vector<std::string>& variables) {
  Groups groups;
  for (const SweepPoint& point : points) groups[values_text(point, variables)].push_back(point);
  return groups;
}

/// The server's part of a folder's name; "" when there is one server only.
std::string server_of(const SweepPoint& point) {
  constexpr std::string_view kBegin = "SERVE--";
  const std::string& folder = point.folder;
  if (!folder.starts_with(kBegin)) return "";
  const size_t end = std::min(folder.find("-BENCH--"), folder.find("-WL--"));
  return folder.substr(kBegin.size(), end == folder.npos ? end : end - kBegin.size());
}

ScaleKind scale_of(const std::string& name) {
  return name == "log" ? ScaleKind::kLog : name == "sqrt" ? ScaleKind::kSqrt : ScaleKind::kLinear;
}

/// A name of a file from values of variables.
std::string file_part(std::string text) {
  for (char& c : text) {
    if (c == '/' || c == ' ' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  for (size_t at = 0; (at = text.find("..", at)) != std::string::npos;) text.replace(at, 2, "__");
  return text.substr(0, 150);
}

Result<std::vector<SweepPoint>> read_points(const CommandLine& line) {
  if (line.positionals().size() != 1) return invalid("give one folder of an experiment");
  return read_experiment(line.positionals()[0]);
}

/// Writes NAME.svg and NAME.html into a folder that it makes if need be.
Status write_drawing(const std::string& folder, const std::string& name, const std::string& drawing,
                     const std::vector<std::vector<std::string>>& table) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  OCTAVO_TRY(write_whole(fmt::format("{}/{}.svg", folder, name), drawing));
  return write_whole(fmt::format("{}/{}.html", folder, name), chart_page(name, {drawing}, table));
}

class Plot {
 public:
  Plot(const CommandLine& line, std::FILE* out)
      : line_(line),
        out_(out),
        x_(line.text("var-x")),
        y_(line.text("var-y")),
        curve_by_(split_list(line.text("curve-by"))) {}

  Status run() {
    OCTAVO_TRY(const auto filters, parse_filters(line_.text("filter-by")));
    OCTAVO_TRY(const auto bins, parse_bins(line_.text("bin-by")));
    if (!(line_.real("fig-height") >= 1 && line_.real("fig-height") <= 100)) {
      return invalid("--fig-height must be 1 to 100");
    }
    OCTAVO_TRY(std::vector<SweepPoint> points, read_points(line_));
    points = select_points(std::move(points), filters, bins);
    for (const std::string& variable : {x_, y_}) {
      if (std::ranges::none_of(points, [&](const auto& p) { return p.has(variable); })) {
        return invalid(fmt::format("no run has a {}", variable));
      }
    }
    is_binned_ = std::ranges::any_of(bins, [&](const SweepBin& bin) { return bin.variable == x_; });
    for (const auto& [values, group] : group_by(points, split_list(line_.text("fig-by")))) {
      OCTAVO_TRY(draw_figure(values, group));
    }
    return {};
  }

 private:
  Status draw_figure(const std::string& values, const std::vector<SweepPoint>& points) {
    std::string name = line_.text("fig-name");
    if (!values.empty()) name += "-" + file_part(values);
    const std::string folder =
        (std::filesystem::path(line_.positionals()[0]) / line_.text("fig-dir")).string();
    fmt::print(out_, "{}/{}.svg: {} combinations\n", folder, name, points.size());
    if (line_.flag("dry-run")) return {};
    std::vector<std::vector<Chart>> rows;
    const std::vector<std::string> column_by = split_list(line_.text("col-by"));
    const Groups all_columns = group_by(points, column_by);
    for (const auto& [row_values, row_points] :
         group_by(points, split_list(line_.text("row-by")))) {
      Groups columns = group_by(row_points, column_by);
      rows.emplace_back();
      for (const auto& [column_values, unused] : all_columns) {  // also where a row has none
        rows.back().push_back(make_chart(row_values, column_values, columns[column_values]));
      }
    }
    return write_drawing(folder, name, draw_charts(rows, line_.real("fig-height") * kPixelsPerInch),
                         make_table(points));
  }

  Chart make_chart(const std::string& row, const std::string& column,
                   const std::vector<SweepPoint>& points) const {
    Chart chart;
    chart.title = row + (row.empty() || column.empty() ? "" : "; ") + column;
    chart.x_label = x_;
    chart.y_label = y_;
    chart.x_scale = scale_of(line_.text("scale-x"));
    chart.y_scale = scale_of(line_.text("scale-y"));
    Groups curves;
    if (line_.is_given("curve-by")) {
      curves = group_by(points, curve_by_);
    } else {
      for (const SweepPoint& point : points) curves[server_of(point)].push_back(point);
    }
    for (const auto& [name, curve] : curves) {
      ChartSeries series;
      series.name = name;
      for (const SweepPoint& point : merged(curve)) series.points.push_back(chart_point(point));
      std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
      chart.series.push_back(std::move(series));
    }
    return chart;
  }

  /// Points of a binned axis that fell together are one.
  std::vector<SweepPoint> merged(const std::vector<SweepPoint>& points) const {
    if (!is_binned_) return points;
    std::map<double, SweepPoint> bins;
    for (const SweepPoint& point : points) {
      for (const auto& run : point.runs) {
        const double x = SweepPoint{"", {run}}.mean(x_);
        if (!std::isfinite(x)) continue;
        bins[x].folder = point.folder;
        bins[x].runs.push_back(run);
      }
    }
    std::vector<SweepPoint> out;
    out.reserve(bins.size());
    for (auto& [x, point] : bins) out.push_back(std::move(point));
    return out;
  }

  ChartPoint chart_point(const SweepPoint& point) const {
    ChartPoint out{point.mean(x_), point.mean(y_), 0, 0, point.folder};
    const bool has_bars = !line_.flag("no-error-bars");
    out.y_low = has_bars ? point.lowest(y_) : out.y;
    out.y_high = has_bars ? point.highest(y_) : out.y;
    return out;
  }

  std::vector<std::vector<std::string>> make_table(const std::vector<SweepPoint>& points) const {
    std::vector<std::vector<std::string>> table{
        {"combination", "runs", x_, y_, y_ + " lowest", y_ + " highest"}};
    for (const SweepPoint& point : points) {
      table.push_back({point.folder, std::to_string(point.runs.size()),
                       fmt::format("{:.6g}", point.mean(x_)), fmt::format("{:.6g}", point.mean(y_)),
                       fmt::format("{:.6g}", point.lowest(y_)),
                       fmt::format("{:.6g}", point.highest(y_))});
    }
    return table;
  }

  const CommandLine& line_;
  std::FILE* const out_;
  const std::string x_, y_;
  const std::vector<std::string> curve_by_;
  bool is_binned_ = false;
};

class ParetoPlot {
 public:
  ParetoPlot(const CommandLine& line, std::FILE* out) : line_(line), out_(out) {}

  Status run() {
    OCTAVO_TRY(const std::vector<SweepPoint> points, read_points(line_));
    for (const SweepPoint& point : points) {
      const double tokens = point.mean("output_throughput");
      rates_.emplace_back(tokens / num_users(point), tokens / num_devices(point));
    }
    const std::vector<size_t> front = pareto_front(rates_);
    if (front.empty()) {
      return invalid("no run has an output_throughput and a number of users");
    }
    const std::string folder = (std::filesystem::path(line_.positionals()[0]) / "pareto").string();
    fmt::print(out_, "{}/PARETO.svg: {} combinations, {} of them beaten by no other\n", folder,
               points.size(), front.size());
    if (line_.flag("dry-run")) return {};
    constexpr double kHeight = 480;
    return write_drawing(folder, "PARETO", draw_charts({{make_chart(points, front)}}, kHeight),
                         make_table(points, front));
  }

 private:
  double num_users(const SweepPoint& point) const {
    const double users = point.mean(line_.text("user-count-var"));
    return users > 0 && std::isfinite(users) ? users : point.mean("max_concurrent_requests");
  }

  double num_devices(const SweepPoint& point) const {
    const std::string& chosen = line_.text("gpu-count-var");
    if (!chosen.empty()) return point.mean(chosen);
    for (const char* variable : {"num_gpus", "gpu_count"}) {
      if (point.has(variable)) return point.mean(variable);
    }
    const auto size = [&](const char* variable) {
      return point.has(variable) ? point.mean(variable) : 1;
    };
    return size("tensor_parallel_size") * size("pipeline_parallel_size");
  }

  std::string label_of(const SweepPoint& point) const {
    std::string out;
    for (const std::string& variable : split_list(line_.text("label-by"))) {
      const std::string value = variable == "gpu_count" && !point.has(variable)
                                    ? fmt::format("{:g}", num_devices(point))
                                    : point.text(variable);
      if (!value.empty()) out += fmt::format("{}{}={}", out.empty() ? "" : ", ", variable, value);
    }
    return out;
  }

  Chart make_chart(const std::vector<SweepPoint>& points, const std::vector<size_t>& front) const {
    ChartSeries others{"beaten by another", {}, false};
    ChartSeries best{"beaten by no other", {}, true, true};
    for (size_t i = 0; i < points.size(); ++i) {
      if (std::ranges::find(front, i) != front.end()) continue;
      others.points.push_back({rates_[i].first, rates_[i].second, rates_[i].second,
                               rates_[i].second, points[i].folder});
    }
    for (const size_t i : front) {
      best.points.push_back({rates_[i].first, rates_[i].second, rates_[i].second, rates_[i].second,
                             label_of(points[i])});
    }
    return {"Throughput against speed",
            "output tokens/s of a user",
            "output tokens/s of a device",
            ScaleKind::kLinear,
            ScaleKind::kLinear,
            {std::move(best), std::move(others)}};
  }

  std::vector<std::vector<std::string>> make_table(const std::vector<SweepPoint>& points,
                                                   const std::vector<size_t>& front) const {
    std::vector<std::vector<std::string>> table{
        {"combination", "tokens/s/user", "tokens/s/device", "beaten by no other"}};
    for (size_t i = 0; i < points.size(); ++i) {
      table.push_back({points[i].folder, fmt::format("{:.6g}", rates_[i].first),
                       fmt::format("{:.6g}", rates_[i].second),
                       std::ranges::find(front, i) != front.end() ? "yes" : ""});
    }
    return table;
  }

  const CommandLine& line_;
  std::FILE* const out_;
  std::vector<std::pair<double, double>> rates_;  // tokens/s of a user, of a device
};

template <class Drawing>
int run_drawing(std::string_view name, std::span<const Option> table,
                std::span<const std::string> args, const Host& host) {
  const auto fail = [&](const Error& error) {
    fmt::print(host.err, "octavo bench sweep {}: error: {}\n", name, error.message);
    return error.code == Code::kInvalidArgument ? kUsageError : kFailed;
  };
  const auto line = CommandLine::read(table, args);
  if (!line.ok()) return fail(line.error());
  if (line->wants_help()) {
    fmt::print(host.out, "usage: octavo bench sweep {} EXPERIMENT_DIR [options]\n\noptions:\n{}",
               name, config::describe_options(table));
    return 0;
  }
  const Status status = Drawing(*line, host.out).run();
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace

int run_sweep_plot(std::span<const std::string> args, const Host& host) {
  return run_drawing<Plot>("plot", kPlotFlags, args, host);
}

int run_sweep_plot_pareto(std::span<const std::string> args, const Host& host) {
  return run_drawing<ParetoPlot>("plot_pareto", kParetoFlags, args, host);
}

}  // namespace octavo::bench
