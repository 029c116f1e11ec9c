#include "bench/sweep_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace octavo::bench {
namespace {

// Told apart also by most colour-blind readers (Okabe and Ito, 2008).
constexpr auto kColours = std::to_array<std::string_view>(
    {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"});
constexpr double kLeft = 80, kRight = 20, kTop = 36, kBottom = 52, kLegendLine = 18;

/// A scale with room beside the values; any if there are none.
Scale make_scale(double low, double high, ScaleKind kind, double begin, double end) {
  if (!(low <= high)) low = kind == ScaleKind::kLinear ? 0 : 1, high = low + 1;
  if (kind == ScaleKind::kLog) return {low / 1.1, high * 1.1, begin, end, kind};
  const double margin = high > low ? (high - low) * 0.05 : std::max(std::abs(high) * 0.1, 0.5);
  // From nought where that is near: lengths then compare.
  low = low >= 0 && low < (high - low) * 0.5 ? 0 : low - margin;
  if (kind == ScaleKind::kSqrt) low = std::max(low, 0.0);
  return {low, high + margin, begin, end, kind};
}

class ChartDrawing {
 public:
  ChartDrawing(const Chart& chart, double width, double height)
      : chart_(chart), width_(width), height_(height), x_(make_x()), y_(make_y()) {}

  std::string draw() {
    draw_frame();
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      draw_series(chart_.series[i], kColours[i % kColours.size()]);
      draw_legend(i);
    }
    return std::move(out_);
  }

 private:
  struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    void add(double from, double to) { low = std::min(low, from), high = std::max(high, to); }
  };

  Scale make_x() const {
    Range range;
    for_each_point([&](const ChartPoint& point) { range.add(point.x, point.x); });
    return make_scale(range.low, range.high, chart_.x_scale, kLeft, width_ - kRight);
  }
  Scale make_y() const {
    Range range;
    for_each_point([&](const ChartPoint& point) { range.add(low_of(point), high_of(point)); });
    return make_scale(range.low, range.high, chart_.y_scale, height_ - kBottom, kTop);
  }
  template <class Visit>
  void for_each_point(Visit visit) const {
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (can_draw(point)) visit(point);
      }
    }
  }

  bool can_draw(const ChartPoint& point) const {
    return can_show(point.x, chart_.x_scale) && can_show(point.y, chart_.y_scale);
  }
  double low_of(const ChartPoint& point) const {
    return can_show(point.y_low, chart_.y_scale) ? std::min(point.y_low, point.y) : point.y;
  }
  double high_of(const ChartPoint& point) const {
    return can_show(point.y_high, chart_.y_scale) ? std::max(point.y_high, point.y) : point.y;
  }
  double x(double value) const { return x_.at(value); }
  double y(double value) const { return y_.at(value); }

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
    out_ += svg_axis_x(x_, height_ - kBottom, kTop) + svg_axis_y(y_, kLeft, width_ - kRight);
    const double wide = width_ - kRight - kLeft, high = height_ - kBottom - kTop;
    out_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
        "stroke=\"#666666\"/>\n",
        kLeft, kTop, wide, high);
    text(kLeft + wide / 2, height_ - 14, "middle", chart_.x_label);
    const double middle = kTop + high / 2;
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
      const bool is_left = x(point.x) < kLeft + (width_ - kRight - kLeft) * 0.6;  // keeps it inside
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
  const Scale x_, y_;
  std::string out_;
};

}  // namespace

std::string draw_charts(const std::vector<std::vector<Chart>>& rows, double height) {
  const double width = height * 1.5;
  size_t columns = 1;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  std::string out = svg_begin("charts", width * double(columns),
                              height * double(std::max<size_t>(rows.size(), 1)), true);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
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
  std::string out;
  for (const std::string& drawing : drawings) out += drawing;
  out += "<table>\n";
  for (size_t i = 0; i < table.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    out += "<tr>";
    for (const std::string& text : table[i]) {
      out += fmt::format("<{0}>{1}</{0}>", cell, html_escape(text));
    }
    out += "</tr>\n";
  }
  return html_page(title, out + "</table>\n");
}

}  // namespace octavo::bench
