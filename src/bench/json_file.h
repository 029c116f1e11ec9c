#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// How much of a JSON file is believed to be one of ours.
struct JsonFileBounds {
  size_t max_bytes = size_t{256} << 20;
  int max_depth = 64;
  size_t max_objects = 200;
  bool keeps_lists = true;  // false: lists are discarded (those per request are long)
};

/// The objects of a JSON file: one, or several on lines of their own, as `--append-result` leaves
/// them. Errors are one line with the file, and where it stops being JSON (NaN is none) the byte
/// and the field before it.
Result<std::vector<nlohmann::json>> read_json_objects(const std::string& path,
                                                      const JsonFileBounds& bounds);

}  // namespace octavo::bench
