#include "bench/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octavo::bench {
namespace {

constexpr std::string_view kStyle =
    "body{font:14px/1.45 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:.6em 0}td,th{border:1px solid #bbb;padding:.2em .6em;"
    "text-align:left;vertical-align:top;overflow-wrap:anywhere}th{background:#eee}"
    "svg{max-width:100%;height:auto}svg text{font:12px "
    "sans-serif;fill:#1a1a1a}.better{color:#176b2c}.worse{color:#a11}"
    ".note{color:#555}";

constexpr double kTicks = 4;

double round_step(double span) {
  const double raw = span / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

double scaled(double value, ScaleKind kind) {
  switch (kind) {
    case ScaleKind::kLog:
      return std::log10(value);
    case ScaleKind::kSqrt:
      return std::sqrt(value);
    case ScaleKind::kLinear:
      return value;
  }
  return value;
}

/// 1, 2 and 5 of every power of ten, or the powers alone where there are many.
std::vector<double> decade_ticks(double low, double high) {
  const bool is_long = high / low > 1e4;
  std::vector<double> ticks;
  for (auto power = int(std::floor(std::log10(low))); std::pow(10, power) <= high; ++power) {
    for (const double lead : {1.0, 2.0, 5.0}) {
      if (lead > 1 && is_long) break;
      const double tick = lead * std::pow(10, power);
      if (tick >= low && tick <= high) ticks.push_back(tick);
    }
  }
  return ticks;
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n"
      "{2}</body></html>\n",
      html_escape(title), kStyle, body);
}

std::string svg_begin(std::string_view label, double width, double height, bool is_document) {
  return fmt::format(
      "<svg{3} role=\"img\" aria-label=\"{0}\" "
      "width=\"{1:.0f}\" height=\"{2:.0f}\" viewBox=\"0 0 {1:.0f} {2:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      html_escape(label), width, height,
      is_document ? " xmlns=\"http://www.w3.org/2000/svg\"" : "");
}

bool can_show(double value, ScaleKind kind) {
  if (!std::isfinite(value)) return false;
  return kind == ScaleKind::kLinear || value > 0 || (kind == ScaleKind::kSqrt && value == 0);
}

Scale::Scale(double low, double high, double begin, double end, ScaleKind kind)
    : low_(low), high_(high), begin_(begin), end_(end), kind_(kind) {
  if (!(high_ > low_)) {
    const double margin = low_ == 0 ? 1 : std::abs(low_) * 0.05;
    low_ -= kind_ == ScaleKind::kSqrt && low_ == 0 ? 0 : margin;
    high_ = low_ + 2 * margin;
  }
  step_ = round_step(high_ - low_);
}

double Scale::at(double value) const {
  const double from = scaled(low_, kind_);
  return begin_ + (scaled(value, kind_) - from) / (scaled(high_, kind_) - from) * (end_ - begin_);
}

bool Scale::has_decades() const { return kind_ == ScaleKind::kLog && high_ / low_ > 3; }

std::vector<double> Scale::ticks() const {
  if (has_decades()) return decade_ticks(low_, high_);
  constexpr int kMost = 20;
  std::vector<double> ticks;
  const double first = std::ceil(low_ / step_ - 1e-9);
  for (int i = 0; i < kMost; ++i) {
    const double value = (first + i) * step_;
    if (value > high_ + step_ * 1e-9) break;
    ticks.push_back(value);
  }
  return ticks;
}

std::string Scale::label(double tick) const {
  if (has_decades()) return fmt::format("{:g}", tick);
  const int decimals = std::clamp(int(-std::floor(std::log10(step_))), 0, 9);
  const std::string text = fmt::format("{:.{}f}", tick, decimals);
  return text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos
             ? text.substr(1)
             : text;
}

std::string svg_axis_x(const Scale& scale, double y, double top) {
  std::string out;
  for (const double tick : scale.ticks()) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        scale.at(tick), y, top, y + 15, scale.label(tick));
  }
  return out;
}

std::string svg_axis_y(const Scale& scale, double x, double right) {
  std::string out;
  for (const double tick : scale.ticks()) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        x, scale.at(tick), right, x - 5, scale.at(tick) + 4, scale.label(tick));
  }
  return out;
}

}  // namespace octavo::bench
