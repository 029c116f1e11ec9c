#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/svg.h"

namespace octavo::bench {

struct ChartPoint {
  double x = 0;
  double y = 0;
  double y_low = 0;  // ends of the error bar; equal for none
  double y_high = 0;
  std::string label;  // shown when the pointer rests on it, and beside it if the series says so
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // in the order of the line
  bool has_line = true;
  bool shows_labels = false;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  ScaleKind x_scale = ScaleKind::kLinear;
  ScaleKind y_scale = ScaleKind::kLinear;
  std::vector<ChartSeries> series;
};

/// Charts in rows as one SVG document that needs nothing else: no script, font or network. `height`
/// is that of a chart, in pixels; it is half as wide again. Points that are not finite, or not
/// positive on a logarithmic axis, are left out.
std::string draw_charts(const std::vector<std::vector<Chart>>& rows, double height);

/// A page with drawings and a table, also self-contained.
std::string chart_page(std::string_view title, const std::vector<std::string>& drawings,
                       const std::vector<std::vector<std::string>>& table);

}  // namespace octavo::bench
