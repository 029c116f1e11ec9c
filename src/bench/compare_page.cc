#include "bench/compare_page.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

/// Text of a record in a table: one line, no bars, no markup, not endless.
std::string cell(std::string_view text) {
  constexpr size_t kMaxCell = 400;
  std::string out;
  for (const char c : text.substr(0, kMaxCell)) {
    if (std::string_view("|<>`*_[]\\").find(c) != std::string_view::npos) out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return text.size() > kMaxCell ? out + " ..." : out;
}

std::string value_cell(const std::string& value) { return value.empty() ? "(none)" : cell(value); }

std::string differences_as_table(const std::vector<Difference>& differences,
                                 const std::vector<Side>& sides) {
  std::string out = "| field |";
  std::string rule = "|---|";
  for (const Side& side : sides) {
    out += fmt::format(" {} |", side.name);
    rule += "---|";
  }
  out += '\n' + rule + '\n';
  for (const Difference& difference : differences) {
    out += fmt::format("| {} |", cell(difference.field));
    for (const std::string& value : difference.values) out += ' ' + value_cell(value) + " |";
    out += '\n';
  }
  return out;
}

std::string sides_as_table(const Comparison& comparison) {
  std::string out = "| side | runs | answered | failed | from |\n|---|---|---|---|---|\n";
  for (const Side& side : comparison.sides) {
    out += fmt::format("| {} | {} | {} | {} | {} |\n", side.name, side.num_runs, side.num_completed,
                       side.num_failed, cell(side.path));
  }
  return out;
}

std::string rows_as_table(const Comparison& comparison, size_t index) {
  const Side& a = comparison.sides[0];
  const Side& b = comparison.sides[index];
  std::string out = fmt::format(
      "\n## {1} against {0}\n| figure | {0} | {1} | {1}/{0} | interval | {1} is |\n"
      "|---|---|---|---|---|---|\n",
      a.name, b.name);
  for (const MetricRow& row : comparison.rows) {
    const Contrast& contrast = row.contrasts[index - 1];
    out += fmt::format("| {} | {} | {} | {} | {} | {}{} |\n", row.title,
                       format_spread(row.sides[0]), format_spread(row.sides[index]),
                       format_ratio(contrast), format_interval(contrast), name_of(contrast.verdict),
                       contrast.note.empty() ? "" : fmt::format(" ({})", contrast.note));
  }
  return out;
}

std::string section(std::string_view title, const std::vector<Difference>& differences,
                    const Comparison& comparison) {
  if (differences.empty()) return {};
  return fmt::format("\n## {}\n{}", title, differences_as_table(differences, comparison.sides));
}

Json json_of(const std::vector<Difference>& differences, const std::vector<Side>& sides) {
  Json out = Json::array();
  for (const Difference& difference : differences) {
    Json values = Json::object();
    for (size_t i = 0; i < sides.size(); ++i) values[sides[i].name] = difference.values[i];
    out.push_back({{"field", difference.field}, {"values", std::move(values)}});
  }
  return out;
}

Json json_of(const Contrast& contrast) {
  return {{"ratio", contrast.ratio ? Json(*contrast.ratio) : Json()},
          {"low", contrast.interval ? Json(contrast.interval->low) : Json()},
          {"high", contrast.interval ? Json(contrast.interval->high) : Json()},
          {"verdict", name_of(contrast.verdict)},
          {"note", contrast.note}};
}

Json json_of(const MetricRow& row, const std::vector<Side>& sides) {
  Json of_sides = Json::object();
  for (size_t i = 0; i < sides.size(); ++i) {
    const Spread& spread = row.sides[i];
    of_sides[sides[i].name] = {{"median", spread.median},
                               {"min", spread.min},
                               {"max", spread.max},
                               {"values", spread.values}};
  }
  Json against = Json::object();
  for (size_t i = 1; i < sides.size(); ++i) {
    against[sides[i].name] = json_of(row.contrasts[i - 1]);
  }
  return {{"metric", row.key},
          {"title", row.title},
          {"higher_is_better", row.is_higher_better},
          {"sides", std::move(of_sides)},
          {"against_A", std::move(against)}};
}

}  // namespace

std::string format_figure(double value) {
  if (value == 0) return "0";
  const int digits = std::max(0, 3 - int(std::floor(std::log10(std::abs(value)))));
  return fmt::format("{:.{}f}", value, std::min(digits, 6));
}

std::string format_ratio(const Contrast& contrast) {
  return contrast.ratio ? fmt::format("{:.3f}", *contrast.ratio) : "";
}

std::string format_interval(const Contrast& contrast) {
  if (!contrast.interval) return {};
  return fmt::format("{:.3f}–{:.3f}", contrast.interval->low, contrast.interval->high);
}

std::string format_spread(const Spread& spread) {
  if (spread.values.size() == 1) return format_figure(spread.median);
  return fmt::format("{} ({}–{})", format_figure(spread.median), format_figure(spread.min),
                     format_figure(spread.max));
}

std::string describe_method(const Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  return fmt::format(
      "Figures are medians over the runs (least–greatest). A ratio is {}; its interval is the "
      "{:.0f} "
      "% bootstrap interval ({} resamples, seed {}). A verdict needs an interval that leaves out "
      "everything within {:.1f} % of 1; at this confidence about one figure in ten that is the "
      "same in truth gets one.",
      comparison.is_paired ? "the median over the rounds, each against its own round's A"
                           : "of medians, the runs of each side drawn independently",
      options.resample.confidence * 100, options.resample.num_resamples, options.resample.seed,
      options.min_effect * 100);
}

std::string comparison_page(const Comparison& comparison) {
  std::string out = "# Comparison of benchmark runs\n\n" + sides_as_table(comparison);
  if (comparison.is_refused()) {
    out += "\nNot compared: these conditions differ and are not declared.\n";
    out += section("Undeclared differences", comparison.undeclared, comparison);
    out += section("Declared", comparison.declared, comparison);
    return out;
  }
  out += section("Declared", comparison.declared, comparison);
  out += section("What follows from it", comparison.following, comparison);
  if (!comparison.warnings.empty()) out += "\n## Warnings\n";
  for (const std::string& warning : comparison.warnings) {
    out += fmt::format("- {}\n", cell(warning));
  }
  for (size_t i = 1; i < comparison.sides.size(); ++i) out += rows_as_table(comparison, i);
  return out + '\n' + describe_method(comparison) + '\n';
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  Json sides = Json::array();
  for (const Side& side : comparison.sides) {
    sides.push_back({{"name", side.name},
                     {"path", side.path},
                     {"num_runs", side.num_runs},
                     {"completed", side.num_completed},
                     {"failed", side.num_failed}});
  }
  Json metrics = Json::array();
  for (const MetricRow& row : comparison.rows) metrics.push_back(json_of(row, comparison.sides));
  const ResampleOptions& resample = comparison.options.resample;
  return {{"format", "octavo-comparison/1"},
          {"is_compared", !comparison.is_refused()},
          {"sides", std::move(sides)},
          {"variables", comparison.options.variables},
          {"undeclared", json_of(comparison.undeclared, comparison.sides)},
          {"declared", json_of(comparison.declared, comparison.sides)},
          {"following", json_of(comparison.following, comparison.sides)},
          {"warnings", comparison.warnings},
          {"method",
           {{"is_paired", comparison.is_paired},
            {"confidence", resample.confidence},
            {"num_resamples", resample.num_resamples},
            {"seed", resample.seed},
            {"min_effect", comparison.options.min_effect}}},
          {"metrics", std::move(metrics)}};
}

}  // namespace octavo::bench
