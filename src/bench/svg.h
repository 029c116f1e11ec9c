#pragma once

#include <string>
#include <string_view>

namespace octavo::bench {

// Pages with plots that need no network: HTML text with inline SVG, no scripts, nothing loaded.

/// Text for HTML and SVG, also inside attributes; control characters become spaces.
std::string html_escape(std::string_view text);

/// A whole page. Its policy forbids every load, so that a browser holds us to it.
std::string html_page(std::string_view title, std::string_view body);

/// A linear scale from values to pixels with some four round ticks.
class Scale {
 public:
  /// From `low` to `high` (equal ones are widened) onto `begin` to `end`.
  Scale(double low, double high, double begin, double end);
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  /// Distance of the ticks: 1, 2 or 5 times a power of ten.
  double tick_step() const { return step_; }

 private:
  double low_;
  double high_;
  double begin_;
  double end_;
  double step_;
};

/// Horizontal axis with ticks and numbers at `y`, and thin lines up to `top`.
std::string svg_axis_x(const Scale& scale, double y, double top);
/// The same, vertical, at `x` with lines to `right`.
std::string svg_axis_y(const Scale& scale, double x, double right);

}  // namespace octavo::bench
