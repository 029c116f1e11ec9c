#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/datasets.h"

namespace octavo::bench {

// What the data sets that are read from files share. Errors name --dataset-path's file.

constexpr int64_t kMaxTokens = 10'000'000;  // of one prompt or answer

/// The whole file, up to 4 GiB.
Result<std::string> read_dataset_file(const std::string& path);

/// Lines that are not blank, with their numbers from 1.
std::vector<std::pair<size_t, std::string_view>> lines_of(std::string_view text);

/// A file with one JSON object a line.
Result<std::vector<nlohmann::json>> read_json_lines(const std::string& path);

/// A file with a JSON list of objects, or with one object a line.
Result<std::vector<nlohmann::json>> read_json_rows(const std::string& path);

/// Member `key` if it is a text, else nullptr.
const std::string* text_of(const nlohmann::json& object, std::string_view key);

/// The text of `turns[index]`: itself, or its member `key`. nullptr: there is none.
const std::string* text_of_turn(const nlohmann::json& row, std::string_view turns, size_t index,
                                std::string_view key);

/// Two lengths that make a usable request. The bounds are vLLM's, for runs that compare.
struct LengthBounds {
  int64_t min_prompt_len = 4;
  int64_t min_output_len = 4;
  int64_t max_prompt_len = 1024;
  int64_t max_total_len = 2048;
  bool admits(int64_t prompt_len, int64_t output_len) const {
    return prompt_len >= min_prompt_len && output_len >= min_output_len &&
           prompt_len <= max_prompt_len && prompt_len + output_len <= max_total_len;
  }
};

/// A prompt and, if the row says so, how long its answer should be.
struct Row {
  std::string prompt;
  std::optional<int64_t> output_len;
};

/// Requests of the rows in their order: chat template unless skipped, lengths, oversampling.
/// `output_len` -1 takes each row's. Without a tokenizer nothing is counted.
Samples requests_of_rows(std::vector<Row> rows, int64_t output_len, const DatasetOptions& options,
                         const TextModel* model, GlobalRandom& random);

/// If there are fewer than asked, draws more of the same, with replacement and ids of their own.
Status oversample(std::vector<SampleRequest>& requests, const DatasetOptions& options,
                  size_t wanted, GlobalRandom& random);

}  // namespace octavo::bench
