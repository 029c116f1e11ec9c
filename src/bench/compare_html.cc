#include <fmt/format.h>

#include <algorithm>

#include "bench/compare_page.h"
#include "bench/svg.h"

namespace octavo::bench {
namespace {

constexpr double kLabelWidth = 230;
constexpr double kPlotWidth = 560;
constexpr double kWidth = kLabelWidth + kPlotWidth + 40;
constexpr double kRowHeight = 22;
constexpr double kAxisHeight = 26;
constexpr double kTop = 8;

std::string_view color_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "#176b2c";
    case Verdict::kWorse:
      return "#aa1111";
    case Verdict::kNotDistinguishable:
      return "#777777";
  }
  return "";
}

std::string label_at(std::string_view text, double y) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                     kLabelWidth - 12, y + 4, html_escape(text));
}

/// Ratios of all figures with their intervals, 1 as a line.
std::string ratio_plot(const Comparison& comparison, size_t index) {
  double low = 1;
  double high = 1;
  for (const MetricRow& row : comparison.rows) {
    const Contrast& contrast = row.contrasts[index - 1];
    if (!contrast.ratio) continue;
    low = std::min({low, *contrast.ratio, contrast.interval ? contrast.interval->low : 1});
    high = std::max({high, *contrast.ratio, contrast.interval ? contrast.interval->high : 1});
  }
  const Scale scale(low, high, kLabelWidth, kLabelWidth + kPlotWidth);
  const double bottom = kTop + kRowHeight * double(comparison.rows.size());
  std::string out =
      svg_begin("ratios", kWidth, bottom + kAxisHeight) + svg_axis_x(scale, bottom, kTop);
  out += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#000\"/>\n",
      scale.at(1), kTop, bottom);
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const MetricRow& row = comparison.rows[i];
    const Contrast& contrast = row.contrasts[index - 1];
    const double y = kTop + kRowHeight * (double(i) + 0.5);
    out += label_at(row.title, y);
    if (contrast.interval) {
      out += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"3\"/>",
          scale.at(contrast.interval->low), y, scale.at(contrast.interval->high), y,
          color_of(contrast.verdict));
    }
    if (contrast.ratio) {
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>",
                         scale.at(*contrast.ratio), y, color_of(contrast.verdict));
    }
    out += '\n';
  }
  return out + "</svg>\n";
}

/// Every run of every side of one figure, the medians as bars.
std::string runs_plot(const Comparison& comparison, const MetricRow& row) {
  double low = row.sides[0].min;
  double high = row.sides[0].max;
  for (const Spread& spread : row.sides) {
    low = std::min(low, spread.min);
    high = std::max(high, spread.max);
  }
  const Scale scale(low, high, kLabelWidth, kLabelWidth + kPlotWidth);
  const double bottom = kTop + kRowHeight * double(row.sides.size());
  std::string out =
      svg_begin(row.title, kWidth, bottom + kAxisHeight) + svg_axis_x(scale, bottom, kTop);
  for (size_t i = 0; i < row.sides.size(); ++i) {
    const double y = kTop + kRowHeight * (double(i) + 0.5);
    out += label_at(comparison.sides[i].name, y);
    for (const double value : row.sides[i].values) {
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#2a62a8\" fill-opacity=\"0.6\"/>",
          scale.at(value), y);
    }
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#000\" "
        "stroke-width=\"2\"/>\n",
        scale.at(row.sides[i].median), y - 8, y + 8);
  }
  return out + "</svg>\n";
}

std::string differences_table(std::string_view title, const std::vector<Difference>& differences,
                              const Comparison& comparison) {
  if (differences.empty()) return {};
  std::string out = fmt::format("<h2>{}</h2>\n<table><tr><th>field</th>", title);
  for (const Side& side : comparison.sides) out += fmt::format("<th>{}</th>", side.name);
  out += "</tr>\n";
  for (const Difference& difference : differences) {
    out += fmt::format("<tr><td>{}</td>", html_escape(difference.field));
    for (const std::string& value : difference.values) {
      out += fmt::format("<td>{}</td>", value.empty() ? "(none)" : html_escape(value));
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string sides_table(const Comparison& comparison) {
  std::string out =
      "<table><tr><th>side</th><th>runs</th><th>answered</th><th>failed</th><th>from</th></tr>\n";
  for (const Side& side : comparison.sides) {
    out +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", side.name,
                    side.num_runs, side.num_completed, side.num_failed, html_escape(side.path));
  }
  return out + "</table>\n";
}

std::string verdict_table(const Comparison& comparison, size_t index) {
  const std::string& a = comparison.sides[0].name;
  const std::string& b = comparison.sides[index].name;
  std::string out = fmt::format(
      "<h2>{1} against {0}</h2>\n<table><tr><th>figure</th><th>{0}</th><th>{1}</th>"
      "<th>{1}/{0}</th><th>interval</th><th>{1} is</th></tr>\n",
      a, b);
  for (const MetricRow& row : comparison.rows) {
    const Contrast& contrast = row.contrasts[index - 1];
    const std::string_view name = name_of(contrast.verdict);
    const std::string_view style = contrast.verdict == Verdict::kNotDistinguishable ? "note" : name;
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}{}</td>"
        "</tr>\n",
        html_escape(row.title), format_spread(row.sides[0]), format_spread(row.sides[index]),
        format_ratio(contrast), format_interval(contrast), style, name,
        contrast.note.empty() ? "" : html_escape(fmt::format(" ({})", contrast.note)));
  }
  return out + "</table>\n" + ratio_plot(comparison, index);
}

}  // namespace

std::string comparison_html(const Comparison& comparison) {
  std::string body = sides_table(comparison);
  if (comparison.is_refused()) {
    body += "<p>Not compared: these conditions differ and are not declared.</p>\n";
    body += differences_table("Undeclared differences", comparison.undeclared, comparison);
    body += differences_table("Declared", comparison.declared, comparison);
    return html_page("Comparison of benchmark runs", body);
  }
  body += differences_table("Declared", comparison.declared, comparison);
  body += differences_table("What follows from it", comparison.following, comparison);
  if (!comparison.warnings.empty()) {
    body += "<h2>Warnings</h2>\n<ul>\n";
    for (const std::string& warning : comparison.warnings) {
      body += fmt::format("<li>{}</li>\n", html_escape(warning));
    }
    body += "</ul>\n";
  }
  for (size_t i = 1; i < comparison.sides.size(); ++i) body += verdict_table(comparison, i);
  body += fmt::format("<p class=\"note\">{}</p>\n<h2>Every run</h2>\n",
                      html_escape(describe_method(comparison)));
  for (const MetricRow& row : comparison.rows) {
    body += fmt::format("<h3>{}</h3>\n{}", html_escape(row.title), runs_plot(comparison, row));
  }
  return html_page("Comparison of benchmark runs", body);
}

}  // namespace octavo::bench
