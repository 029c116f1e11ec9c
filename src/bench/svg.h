#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::bench {

// Pages with plots that need no network: HTML text with inline SVG, no scripts, nothing loaded.

/// Text for HTML and SVG, also inside attributes; control characters become spaces.
std::string html_escape(std::string_view text);

/// A whole page. Its policy forbids every load, so that a browser holds us to it.
std::string html_page(std::string_view title, std::string_view body);

/// Begins a drawing of `width` by `height` pixels; `label` is for those who cannot see it. Inside a
/// page, or a document of its own.
std::string svg_begin(std::string_view label, double width, double height,
                      bool is_document = false);

enum class ScaleKind : uint8_t { kLinear, kLog, kSqrt };

/// Whether a value has a place on such a scale: finite, and positive on a logarithmic one.
bool can_show(double value, ScaleKind kind);

/// From values to pixels, with a few round ticks.
class Scale {
 public:
  /// From `low` to `high` (equal ones are widened) onto `begin` to `end`. Both can be shown.
  Scale(double low, double high, double begin, double end, ScaleKind kind = ScaleKind::kLinear);
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  /// Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten; on a logarithmic
  /// scale over more than a factor of three those numbers themselves.
  std::vector<double> ticks() const;
  /// A tick as text, with the decimals that its neighbours need.
  std::string label(double tick) const;

 private:
  bool has_decades() const;

  double low_;
  double high_;
  double begin_;
  double end_;
  ScaleKind kind_;
  double step_;  // between ticks, unless they are of decades
};

/// Horizontal axis with ticks and numbers at `y`, and thin lines up to `top`.
std::string svg_axis_x(const Scale& scale, double y, double top);
/// The same, vertical, at `x` with lines to `right`.
std::string svg_axis_y(const Scale& scale, double x, double right);

}  // namespace octavo::bench
