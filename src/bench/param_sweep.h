#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// One combination of parameters for a command.
struct SweepItem {
  std::string name;  // `_benchmark_name`; empty: the parameters are the name
  nlohmann::ordered_json params = nlohmann::ordered_json::object();

  /// "max_num_seqs=8, ..." of the parameters.
  std::string as_text(std::string_view separator) const;
  /// What stands for it in a folder's name: the name, else the parameters joined by "-".
  std::string label() const;
  /// The same with one parameter more, or another value of it. The name stays.
  SweepItem with(const std::string& key, nlohmann::ordered_json value) const;
  /// The words of a command with these parameters.
  std::vector<std::string> apply(std::vector<std::string> words) const;
  /// Whether it sets a parameter, spelled with `-` or `_`.
  bool sets(std::string_view key) const;
};

/// A JSON list of maps, or a map of named maps. Errors name the file: not readable, over 16 MiB, no
/// JSON, another form, a name twice, a combination twice, none at all.
Result<std::vector<SweepItem>> read_param_sweep(const std::string& path);
Result<std::vector<SweepItem>> parse_param_sweep(std::string_view text);

/// "a=b,c=d": pairs of a server's and a benchmark's parameter.
using LinkVars = std::vector<std::pair<std::string, std::string>>;
Result<LinkVars> parse_link_vars(std::string_view text);
/// Whether all linked parameters are set and equal.
bool is_linked(const SweepItem& serve, const SweepItem& bench, const LinkVars& links);

/// Folder of a pair: "SERVE--a-BENCH--b", with `extra` behind it; what cannot be in a name is
/// replaced, what is too long for one is cut and numbered by its hash.
std::string pair_folder(const SweepItem& serve, const SweepItem& bench,
                        std::string_view extra = "");
/// The part that stands for the server.
std::string serve_folder(const SweepItem& serve);

/// Levels between two ends, whole numbers, ascending: `count` of them with the ends, of which only
/// the inner ones are returned; none below 1, none equal to an end, none twice.
std::vector<int64_t> inner_levels(int64_t first, int64_t last, int64_t count);

}  // namespace octavo::bench
