#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/temp_folder.h"

namespace octavo::bench {

using Json = nlohmann::json;

/// A folder of records.
struct RunFolder : TempFolder {
  /// NAME.json and NAME.record.json; the path of the first.
  std::string write_run(const std::string& name, const Json& record) const {
    Json result = record["results"];
    result["latencies"] = {0.1, 0.2};
    write(name + ".record.json", record.dump());
    return write(name + ".json", result.dump());
  }
};

/// A small record of a run on a quiet machine.
inline Json make_record(double tokens_per_s, double ttft_ms) {
  return {
      {"format", "octavo-run-record/1"},
      {"date", "20260101-000000"},
      {"client", {{"version", "1"}, {"arguments", "Namespace()"}, {"cpu_share", 0.1}}},
      {"server",
       {{"url", "http://127.0.0.1:8000"},
        {"config",
         {{"started_s", 1},
          {"model", {{"path", "m"}}},
          {"cache", {{"block_size", 16}, {"num_blocks", 100}}},
          {"non_default_args", {{"port", "1"}}},
          {"scheduler", {{"max_num_seqs", 64}, {"policy", "fcfs"}}}}},
        {"machine", {{"num_cpus", 2}}}}},
      {"dataset", {{"name", "random"}, {"seed", 0}, {"prompts_sha256", "abc"}}},
      {"load", {{"request_rate", "inf"}, {"num_prompts", 10}}},
      {"errors", Json::object()},
      {"noise",
       {{"steal_share", 0.0}, {"load1_before", 0.1}, {"mhz_before", 2000}, {"mhz_after", 2000}}},
      {"results",
       {{"date", "20260101-000000"},
        {"duration", 5.0},
        {"completed", 10},
        {"failed", 0},
        {"output_throughput", tokens_per_s},
        {"mean_ttft_ms", ttft_ms},
        {"std_ttft_ms", 1.0},
        {"p99_ttft_ms", ttft_ms * 2}}}};
}

}  // namespace octavo::bench
