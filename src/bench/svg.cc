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
    "svg text{font:12px sans-serif;fill:#1a1a1a}.better{color:#176b2c}.worse{color:#a11}"
    ".note{color:#555}";

constexpr double kTicks = 4;

double round_step(double span) {
  const double raw = span / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

std::string number_of(double value, double step) {
  const int decimals = std::clamp(int(-std::floor(std::log10(step))), 0, 9);
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos
             ? text.substr(1)
             : text;
}

template <class Visit>
void for_each_tick(const Scale& scale, Visit visit) {
  const double step = scale.tick_step();
  const double first = std::ceil(scale.low() / step - 1e-9);
  for (int i = 0; i < 20; ++i) {
    const double value = (first + i) * step;
    if (value > scale.high() + step * 1e-9) break;
    visit(value);
  }
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

Scale::Scale(double low, double high, double begin, double end)
    : low_(low), high_(high), begin_(begin), end_(end) {
  if (!(high_ > low_)) {
    const double margin = low_ == 0 ? 1 : std::abs(low_) * 0.05;
    low_ -= margin;
    high_ = low_ + 2 * margin;
  }
  step_ = round_step(high_ - low_);
}

double Scale::at(double value) const {
  return begin_ + (value - low_) / (high_ - low_) * (end_ - begin_);
}

std::string svg_axis_x(const Scale& scale, double y, double top) {
  std::string out;
  for_each_tick(scale, [&](double value) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        scale.at(value), y, top, y + 15, number_of(value, scale.tick_step()));
  });
  return out;
}

std::string svg_axis_y(const Scale& scale, double x, double right) {
  std::string out;
  for_each_tick(scale, [&](double value) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        x, scale.at(value), right, x - 5, scale.at(value) + 4, number_of(value, scale.tick_step()));
  });
  return out;
}

}  // namespace octavo::bench
