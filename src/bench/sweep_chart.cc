#include "bench/sweep_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bench/svg.h"

namespace octavo::bench {
namespace {

// Told apart also by most colour-blind readers (Okabe and Ito, 2008).
constexpr auto kColours = std::to_array<std::string_view>(
    {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"});
constexpr double kLeft = 80, kRight = 20, kTop = 36, kBottom = 52, kLegendLine = 18;

double scaled(double value, ChartScale scale) {
  switch (scale) {
    case ChartScale::kLog:
      return std::log10(value);
    case ChartScale::kSqrt:
      return std::sqrt(value);
    case ChartScale::kLinear:
      return value;
  }
  return value;
}

bool can_draw(double value, ChartScale scale) {
  if (!std::isfinite(value)) return false;
  return scale == ChartScale::kLinear || value > 0 || (scale == ChartScale::kSqrt && value == 0);
}

/// An axis of `pixels` from `low` to `high`.
struct Axis {
  ChartScale scale = ChartScale::kLinear;
  double low = 0;
  double high = 1;
  double pixels = 1;

  double at(double value) const {
    const double from = scaled(low, scale);
    return (scaled(value, scale) - from) / (scaled(high, scale) - from) * pixels;
  }
};

Axis make_axis(double low, double high, ChartScale scale, double pixels) {
  if (!(low <= high)) low = scale == ChartScale::kLinear ? 0 : 1, high = low + 1;
  if (scale == ChartScale::kLog) {
    low /= 1.1;
    high *= 1.1;
  } else {
    const double margin = high > low ? (high - low) * 0.05 : std::max(std::abs(high) * 0.1, 0.5);
    // From nought where that is near: lengths then compare.
    low = low >= 0 && low < (high - low) * 0.5 ? 0 : low - margin;
    if (scale == ChartScale::kSqrt) low = std::max(low, 0.0);
    high += margin;
  }
  return {scale, low, high, pixels};
}

class ChartDrawing {
 public:
  ChartDrawing(const Chart& chart, double width, double height)
      : chart_(chart), width_(width), height_(height) {
    double x_low = kNone, x_high = -kNone, y_low = kNone, y_high = -kNone;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!can_draw(point)) continue;
        x_low = std::min(x_low, point.x), x_high = std::max(x_high, point.x);
        y_low = std::min(y_low, low_of(point)), y_high = std::max(y_high, high_of(point));
      }
    }
    x_ = make_axis(x_low, x_high, chart.x_scale, width - kLeft - kRight);
    y_ = make_axis(y_low, y_high, chart.y_scale, height - kTop - kBottom);
  }

  std::string draw() {
    draw_frame();
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      draw_series(chart_.series[i], kColours[i % kColours.size()]);
      draw_legend(i);
    }
    return std::move(out_);
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  bool can_draw(const ChartPoint& point) const {
    return bench::can_draw(point.x, chart_.x_scale) && bench::can_draw(point.y, chart_.y_scale);
  }
  double low_of(const ChartPoint& point) const {
    return bench::can_draw(point.y_low, chart_.y_scale) ? std::min(point.y_low, point.y) : point.y;
  }
  double high_of(const ChartPoint& point) const {
    return bench::can_draw(point.y_high, chart_.y_scale) ? std::max(point.y_high, point.y)
                                                         : point.y;
  }
  double x(double value) const { return kLeft + x_.at(value); }
  double y(double value) const { return height_ - kBottom - y_.at(value); }

  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                        y1, x2, y2, style);
  }
  void text(double at_x, double at_y, std::string_view anchor, std::string_view words,
            std::string_view more = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", at_x,
                        at_y, anchor, more, html_escape(words));
  }

  void draw_frame() {
    text(width_ / 2, 20, "middle", chart_.title, "font-weight=\"bold\"");
    for (const double tick : axis_ticks(x_.low, x_.high, x_.scale)) {
      line(x(tick), kTop, x(tick), height_ - kBottom, "stroke=\"#dddddd\"");
      text(x(tick), height_ - kBottom + 16, "middle", fmt::format("{:g}", tick));
    }
    for (const double tick : axis_ticks(y_.low, y_.high, y_.scale)) {
      line(kLeft, y(tick), width_ - kRight, y(tick), "stroke=\"#dddddd\"");
      text(kLeft - 6, y(tick) + 4, "end", fmt::format("{:g}", tick));
    }
    out_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
        "stroke=\"#666666\"/>\n",
        kLeft, kTop, x_.pixels, y_.pixels);
    text(kLeft + x_.pixels / 2, height_ - 14, "middle", chart_.x_label);
    const double middle = kTop + y_.pixels / 2;
    text(16, middle, "middle", chart_.y_label,
         fmt::format("transform=\"rotate(-90 16 {:.1f})\"", middle));
  }

  void draw_series(const ChartSeries& series, std::string_view colour) {
    std::string path;
    for (const ChartPoint& point : series.points) {
      if (can_draw(point)) path += fmt::format(" {:.1f},{:.1f}", x(point.x), y(point.y));
    }
    if (series.has_line && !path.empty()) {
      out_ += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
          path.substr(1), colour);
    }
    for (const ChartPoint& point : series.points) {
      if (!can_draw(point)) continue;
      const double low = low_of(point), high = high_of(point);
      if (low < high) {
        line(x(point.x), y(low), x(point.x), y(high), fmt::format("stroke=\"{}\"", colour));
      }
      out_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}</title></circle>\n",
          x(point.x), y(point.y), colour,
          html_escape(fmt::format("{} ({:g}, {:g})", point.label, point.x, point.y)));
      const bool is_left = x_.at(point.x) < x_.pixels * 0.6;  // keeps it inside
      if (series.shows_labels) {
        text(x(point.x) + (is_left ? 6 : -6), y(point.y) - 6, is_left ? "start" : "end",
             point.label);
      }
    }
  }

  void draw_legend(size_t index) {
    const std::string& name = chart_.series[index].name;
    if (name.empty()) return;
    // Labels stand right of points that are high and left; lines end high and right.
    const bool is_right = std::ranges::any_of(chart_.series, &ChartSeries::shows_labels);
    const double edge = is_right ? width_ - kRight - 14 : kLeft + 14;
    const double at = kTop + kLegendLine * double(index + 1);
    out_ += fmt::format("<circle cx=\"{}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", edge, at - 4,
                        kColours[index % kColours.size()]);
    text(edge + (is_right ? -10 : 10), at, is_right ? "end" : "start", name);
  }

  const Chart& chart_;
  const double width_, height_;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

std::vector<double> axis_ticks(double low, double high, ChartScale scale) {
  std::vector<double> ticks;
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) return ticks;
  if (scale == ChartScale::kLog && high / low > 3) {
    const bool is_long = high / low > 1e4;
    const auto first = int(std::floor(std::log10(low)));
    const auto last = int(std::floor(std::log10(high)));
    for (int decade = first; decade <= last; ++decade) {
      for (const double step : {1.0, 2.0, 5.0}) {
        if (step > 1 && is_long) break;
        const double tick = step * std::pow(10, decade);
        if (tick >= low && tick <= high) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double rough = (high - low) / 5;
  const double unit = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough / unit < 1.5 ? unit : rough / unit < 3.5 ? 2 * unit : 5 * unit;
  const double first = std::ceil(low / step);
  const auto count = int(std::clamp(std::floor(high / step) - first + 1, 0.0, 20.0));
  for (int i = 0; i < count; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::string draw_charts(const std::vector<std::vector<Chart>>& rows, double height) {
  const double width = height * 1.5;
  size_t columns = 1;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width * double(columns), height * double(std::max<size_t>(rows.size(), 1)));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < rows[row].size(); ++column) {
      out += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">\n", width * double(column),
                         height * double(row));
      out += ChartDrawing(rows[row][column], width, height).draw();
      out += "</g>\n";
    }
  }
  return out + "</svg>\n";
}

std::string chart_page(std::string_view title, const std::vector<std::string>& drawings,
                       const std::vector<std::vector<std::string>>& table) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif}}table{{border-collapse:collapse}}td,th{{border:1px "
      "solid #ccc;padding:2px 6px;text-align:right}}svg{{max-width:100%;height:auto}}</style>"
      "</head><body>\n<h1>{0}</h1>\n",
      html_escape(title));
  for (const std::string& drawing : drawings) out += drawing;
  out += "<table>\n";
  for (size_t i = 0; i < table.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    out += "<tr>";
    for (const std::string& text : table[i])
      out += fmt::format("<{0}>{1}</{0}>", cell, html_escape(text));
    out += "</tr>\n";
  }
  return out + "</table>\n</body></html>\n";
}

}  // namespace octavo::bench
