#include "bench/compare_command.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/compare_page.h"
#include "config/command_line.h"

namespace octavo::bench {
namespace {

using enum config::OptionKind;

constexpr int kUsageError = 2;
constexpr int kFailed = 1;
constexpr const char* kUsage = "usage: octavo bench compare A B [C ...] [options]";

constexpr auto kFlags = std::to_array<config::Option>({
    {"variable", kRepeat, "", "What may differ, by a field's last words; may be repeated."},
    {"json", kText, "", "Write the comparison as JSON to this file."},
    {"html", kText, "", "Write it as one HTML page with plots to this file."},
    {"min-effect", kFloat, "1.0", "Percent; a smaller difference is never a verdict."},
    {"seed", kInt, "0", "Seed of the resampling."},
});

Status write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) return Error{Code::kUnavailable, fmt::format("cannot write {}", path)};
  return {};
}

Result<Comparison> compare_paths(std::span<const std::string> paths,
                                 const CompareOptions& options) {
  std::vector<RunSet> sides;
  for (const std::string& path : paths) {
    OCTAVO_TRY(RunSet side, load_runs(path));
    sides.push_back(std::move(side));
  }
  return compare_runs(sides, options);
}

}  // namespace

Result<CompareOptions> read_compare_options(const config::CommandLine& line) {
  CompareOptions options;
  options.variables = line.list("variable");
  const double percent = line.real("min-effect");
  if (!(percent >= 0 && percent < 100)) {
    return Error{Code::kInvalidArgument, "--min-effect must be from 0 to below 100"};
  }
  options.min_effect = percent / 100;
  return options;
}

Status publish_comparison(const Comparison& comparison, const ComparisonFiles& files,
                          std::FILE* out) {
  const std::string page = comparison_page(comparison);
  fmt::print(out, "{}", page);
  std::fflush(out);
  const std::string json =
      comparison_json(comparison)
          .dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  OCTAVO_TRY(write_file(files.markdown, page));
  OCTAVO_TRY(write_file(files.json, json + '\n'));
  return write_file(files.html, comparison_html(comparison));
}

int run_compare(std::span<const std::string> args, const Host& host) {
  const auto complain = [&](const std::string& why, int status) {
    if (status == kUsageError) fmt::print(host.err, "{}\n", kUsage);
    fmt::print(host.err, "octavo bench compare: error: {}\n", why);
    return status;
  };
  const auto line = config::CommandLine::read(kFlags, args);
  if (!line.ok()) return complain(line.error().message, kUsageError);
  if (line->wants_help()) {
    fmt::print(
        host.out,
        "{}\n\nCompares saved runs of `bench serve` whose conditions are the same but for the "
        "declared\nvariables. A, B, ... are results with their records, files that results "
        "were appended to,\nor folders of results. A is what the others are held against."
        "\n\noptions:\n{}",
        kUsage, config::describe_options(kFlags));
    return 0;
  }
  if (line->positionals().size() < 2) return complain("two sides at least are needed", kUsageError);
  const int64_t seed = line->integer("seed");
  if (seed < 0 || seed > int64_t{UINT32_MAX}) {
    return complain("--seed must be between 0 and 2**32 - 1", kUsageError);
  }
  auto options = read_compare_options(*line);
  if (!options.ok()) return complain(options.error().message, kUsageError);
  options->resample.seed = uint32_t(seed);
  const auto comparison = compare_paths(line->positionals(), *options);
  if (!comparison.ok()) return complain(comparison.error().message, kFailed);
  const Status status =
      publish_comparison(*comparison, {"", line->text("json"), line->text("html")}, host.out);
  if (!status.ok()) return complain(status.error().message, kFailed);
  if (!comparison->is_refused()) return 0;
  return complain(
      fmt::format("not compared; conditions that differ and are not declared with --variable: {}",
                  comparison->undeclared.size()),
      kFailed);
}

}  // namespace octavo::bench
