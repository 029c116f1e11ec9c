#include "bench/run_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "bench/json_file.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kFormat = "octavo-run-record/1";
constexpr std::string_view kRecordSuffix = ".record.json";
constexpr size_t kMaxRecordBytes = 16 << 20;
constexpr size_t kMaxRuns = 200;
constexpr double kMaxFigure = 1e15;  // sums of kMaxRuns of them stay exact enough and in range
constexpr size_t kMaxFolderEntries = 10'000;

Error refused(const std::string& name, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("{}: {}", name, why)};
}

bool is_record(const Json& value) { return value.contains("format") && value["format"] == kFormat; }

/// "/server/a~1b/0" -> "server.a/b.0".
std::string dotted(const std::string& pointer) {
  std::string out;
  for (size_t i = 1; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      out += '.';
    } else if (pointer[i] == '~' && i + 1 < pointer.size()) {
      out += pointer[++i] == '1' ? '/' : '~';
    } else {
      out += pointer[i];
    }
  }
  return out;
}

/// What a table of a comparison may show.
bool is_figure(std::string_view key) {
  return key.ends_with("_ms") || key.ends_with("_throughput") || key == "request_goodput" ||
         key == "failed" || key == "completed" || key == "duration";
}

bool is_figure_value(const Json& value) {
  return value.is_null() ||
         (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMaxFigure);
}

/// Objects that a record must have, and numbers that its results must have.
Status check_shape(const std::string& name, const Json& record) {
  if (!is_record(record)) {
    return refused(name, fmt::format("field 'format' is not '{}'", kFormat));
  }
  for (const char* part : {"server", "dataset", "load", "client", "results"}) {
    if (!record.contains(part)) return refused(name, fmt::format("field '{}' is missing", part));
    if (part == std::string_view("server") && record[part].is_null()) {
      return refused(name, "the record tells nothing of the server, which did not answer");
    }
    if (!record[part].is_object()) {
      return refused(name, fmt::format("field '{}' is no object", part));
    }
  }
  const Json& results = record["results"];
  for (const char* key : {"duration", "completed"}) {
    if (!results.contains(key) || results[key].is_null()) {
      return refused(name, fmt::format("field 'results.{}' is missing", key));
    }
  }
  for (const auto& [key, value] : results.items()) {
    if (is_figure(key) && !is_figure_value(value)) {
      return refused(name, fmt::format("field 'results.{}' is no number from 0 on", key));
    }
  }
  return {};
}

Status take_session(const Json& record, SavedRun& run) {
  if (!record.contains("session") || record["session"].is_null()) return {};
  const Json& session = record["session"];
  if (!session.is_object() || !session.contains("id") || !session["id"].is_string() ||
      !session.contains("round") || !session["round"].is_number_integer()) {
    return refused(run.name, "field 'session' has no 'id' and 'round'");
  }
  run.session = SessionPlace{session["id"].get<std::string>(), session["round"].get<int64_t>()};
  return {};
}

Result<SavedRun> read_record(std::string name, const Json& record) {
  SavedRun run;
  run.name = std::move(name);
  OCTAVO_TRY(check_shape(run.name, record));
  OCTAVO_TRY(take_session(record, run));
  const Json flat = record.flatten();  // as deep as read_json_objects allows
  for (const auto& [pointer, value] : flat.items()) {
    const std::string field = dotted(pointer);
    if (value.is_null()) continue;
    if (value.is_number()) run.numbers[field] = value.get<double>();
    run.fields[field] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return run;
}

/// A result and a record are of one run if these agree.
Status check_same_run(const std::string& name, const Json& result, const SavedRun& run) {
  for (const char* key : {"date", "duration", "completed"}) {
    if (!result.contains(key)) {
      return refused(name, fmt::format("field '{}' is missing: no result of `bench serve`", key));
    }
    const auto found = run.fields.find(fmt::format("results.{}", key));
    const std::string value = result[key].dump(-1, ' ', false, Json::error_handler_t::replace);
    if (found == run.fields.end() || found->second != value) {
      return refused(name, fmt::format("the record beside it is of another run: field '{}'", key));
    }
  }
  return {};
}

std::string name_of_run(const fs::path& path, size_t index, size_t count) {
  return count == 1 ? path.string() : fmt::format("{}, line {}", path.string(), index + 1);
}

Status load_records(const fs::path& path, std::vector<SavedRun>& out) {
  OCTAVO_TRY(const std::vector<Json> records,
             read_json_objects(path.string(), {.max_bytes = kMaxRecordBytes}));
  for (size_t i = 0; i < records.size(); ++i) {
    OCTAVO_TRY(SavedRun run, read_record(name_of_run(path, i, records.size()), records[i]));
    out.push_back(std::move(run));
  }
  return {};
}

Status load_results(const fs::path& path, std::vector<SavedRun>& out) {
  OCTAVO_TRY(const std::vector<Json> results,
             read_json_objects(path.string(), {.keeps_lists = false}));
  fs::path beside = path;
  beside.replace_extension(kRecordSuffix);
  std::error_code error;
  if (!fs::exists(beside, error)) {
    return refused(path.string(), fmt::format("no record of the run: there is no {} beside it; "
                                              "without its conditions a run is not compared",
                                              beside.filename().string()));
  }
  std::vector<SavedRun> runs;
  OCTAVO_TRY(load_records(beside, runs));
  if (runs.size() != results.size()) {
    return refused(path.string(), fmt::format("{} results, but {} records in {}", results.size(),
                                              runs.size(), beside.filename().string()));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = name_of_run(path, i, runs.size());
    OCTAVO_TRY(check_same_run(runs[i].name, results[i], runs[i]));
    out.push_back(std::move(runs[i]));
  }
  return {};
}

/// The result files of a folder by name; records and forms for other programs are beside them.
Result<std::vector<fs::path>> result_files(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  size_t num_entries = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++num_entries > kMaxFolderEntries) {
      return refused(folder.string(), fmt::format("more than {} entries", kMaxFolderEntries));
    }
    const std::string name = at->path().filename().string();
    if (!name.ends_with(".json") || name.ends_with(kRecordSuffix) ||
        name.ends_with(".pytorch.json")) {
      continue;
    }
    out.push_back(at->path());
  }
  if (error) return refused(folder.string(), error.message());
  if (out.empty()) return refused(folder.string(), "no result files (*.json) in this folder");
  std::ranges::sort(out);
  return out;
}

}  // namespace

std::optional<double> SavedRun::number(const std::string& field) const {
  const auto found = numbers.find(field);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

Result<RunSet> load_runs(const std::string& path) {
  RunSet out;
  out.path = path;
  std::error_code error;
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path, error)) {
    OCTAVO_TRY(files, result_files(path));
  }
  for (const fs::path& file : files) {
    const bool is_record = file.string().ends_with(kRecordSuffix);
    OCTAVO_TRY(is_record ? load_records(file, out.runs) : load_results(file, out.runs));
    if (out.runs.size() > kMaxRuns) {
      return refused(path, fmt::format("more than {} runs", kMaxRuns));
    }
  }
  return out;
}

}  // namespace octavo::bench
