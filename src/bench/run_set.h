#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// Where a run of `bench repeat` stands in its session.
struct SessionPlace {
  std::string id;     // empty: in none
  int64_t round = 0;  // from 1
};

/// One saved run, checked: what a comparison needs of its record.
struct SavedRun {
  std::string name;  // the result file, with the line if there are several
  /// Every leaf of the record: "server.config.cache.block_size" -> its value as JSON text. What is
  /// null or an empty list is not in it.
  std::map<std::string, std::string> fields;
  /// Those that are numbers; all under "results" are finite and not below 0.
  std::map<std::string, double> numbers;
  SessionPlace session;

  std::optional<double> number(const std::string& field) const;
};

/// The runs of one side.
struct RunSet {
  std::string path;
  std::vector<SavedRun> runs;
};

/// Loads what `path` names: a result of `bench serve` with its record beside it, such a record, a
/// file that results were appended to, or a folder of them. Errors are one line with file and
/// field: no record, not JSON, a field that is missing or of another type, a record of another run.
Result<RunSet> load_runs(const std::string& path);

}  // namespace octavo::bench
