#include "bench/pytorch_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace octavo::bench {
namespace {

using config::OptionKind;
using Json = nlohmann::ordered_json;

constexpr auto kFigures =
    std::to_array<std::string_view>({"median_ttft_ms", "mean_ttft_ms", "std_ttft_ms", "p99_ttft_ms",
                                     "mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms",
                                     "median_itl_ms", "mean_itl_ms", "std_itl_ms", "p99_itl_ms"});
constexpr auto kTooLong =
    std::to_array<std::string_view>({"ttfts", "itls", "generated_texts", "errors"});

Json value_of(const config::CommandLine& line, const config::Option& option) {
  if (option.kind == OptionKind::kSwitch) return line.flag(option.name);
  if (option.kind == OptionKind::kBool) {
    return line.has(option.name) ? Json(line.flag(option.name)) : Json();
  }
  if (!line.has(option.name)) return nullptr;
  if (option.is_secret) return "***";
  switch (option.kind) {
    case OptionKind::kInt:
      return line.integer(option.name);
    case OptionKind::kFloat: {
      const double value = line.real(option.name);
      return std::isfinite(value) ? Json(value) : Json(config::python_number(value));
    }
    case OptionKind::kJson:
      return Json::parse(line.text(option.name), nullptr, false);
    case OptionKind::kList:
    case OptionKind::kRepeat:
      return line.list(option.name);
    default:
      return line.text(option.name);
  }
}

/// A key of the result (from --metadata), or "".
Json found_in(const Json& result, const char* key) {
  return result.contains(key) ? result[key] : Json("");
}

}  // namespace

nlohmann::ordered_json arguments_json(const config::CommandLine& line,
                                      std::span<const config::Option> table) {
  Json out = Json::object();
  for (const config::Option& option : table) {
    std::string name(option.name);
    std::replace(name.begin(), name.end(), '-', '_');
    out[name] = value_of(line, option);
  }
  return out;
}

nlohmann::ordered_json pytorch_records(const nlohmann::ordered_json& result,
                                       const nlohmann::ordered_json& arguments) {
  const auto is_among = [](std::string_view key, auto& keys) {
    return std::ranges::find(keys, key) != keys.end();
  };
  Json extra = Json::object();
  for (const auto& [key, value] : result.items()) {
    if (!is_among(key, kFigures) && !is_among(key, kTooLong)) extra[key] = value;
  }
  const Json model = arguments.contains("model") && arguments["model"].is_string()
                         ? arguments["model"]
                         : result.value("model_id", Json());
  Json out = Json::array();
  for (const std::string_view figure : kFigures) {
    if (!result.contains(figure)) continue;
    const Json mode = found_in(result, "compilation_config.mode");
    out.push_back({{"benchmark",
                    {{"name", "vLLM benchmark"},
                     {"extra_info",
                      {{"args", arguments},
                       {"compilation_config.mode", mode},
                       {"optimization_level", found_in(result, "optimization_level")},
                       {"use_compile", mode != "0"}}}}},
                   {"model", {{"name", model}}},
                   {"metric",
                    {{"name", figure},
                     {"benchmark_values", Json::array({result[figure]})},
                     {"extra_info", extra}}}});
    Json& args = out.back()["benchmark"]["extra_info"]["args"];
    if (result.contains("tensor_parallel_size")) {
      args["tensor_parallel_size"] = result["tensor_parallel_size"];
    }
  }
  return out;
}

}  // namespace octavo::bench
