// Data sets read from files: sharegpt, custom, spec_bench, speed_bench, burstgpt, timed_trace.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/dataset_rows.h"
#include "bench/datasets.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// A whole number from 0 to kMaxTokens, also as a float or a text.
std::optional<int64_t> count_of(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  double value = -1;
  if (found->is_number()) {
    value = found->get<double>();
  } else if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  }
  if (!(value >= 0 && value <= double(kMaxTokens))) return std::nullopt;
  return int64_t(value);
}

/// What custom, spec_bench and speed_bench share: the order of the rows.
Samples sample_rows(std::vector<Row> rows, int64_t output_len, const DatasetOptions& options,
                    const TextModel* model, GlobalRandom& random) {
  random.python = PythonRandom(options.seed);
  if (!options.disable_shuffle) random.python.shuffle(rows);
  return requests_of_rows(std::move(rows), output_len, options, model, random);
}

/// Fields of a CSV line; quotes may hold commas, a doubled quote is one.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> out(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      out.back() += line[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::optional<int64_t> csv_count(const std::string& field) {
  double value = -1;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  if (!(value >= 0 && value <= double(kMaxTokens))) return std::nullopt;
  return int64_t(value);
}

}  // namespace

Samples sample_sharegpt(const DatasetOptions& options, const TextModel& model,
                        GlobalRandom& random) {
  OCTAVO_TRY(const std::string text, read_dataset_file(options.path));
  Json file = Json::parse(text, nullptr, false);
  if (!file.is_array()) return invalid(options.path + ": no JSON list");
  std::vector<const Json*> entries;
  for (const Json& entry : file) {
    if (!entry.is_object() || !entry.contains("conversations")) continue;
    const Json& turns = entry["conversations"];
    if (turns.is_array() && turns.size() >= 2) entries.push_back(&turns);
  }
  random.python = PythonRandom(options.seed);
  if (!options.disable_shuffle) random.python.shuffle(entries);
  std::vector<SampleRequest> requests;
  const auto wanted = size_t(options.num_prompts);
  for (const Json* turns : entries) {
    if (requests.size() >= wanted) break;
    const std::string* prompt = text_of((*turns)[0], "value");
    const std::string* answer = text_of((*turns)[1], "value");
    if (prompt == nullptr || answer == nullptr) {
      return invalid(options.path + ": a conversation's turn has no text \"value\"");
    }
    const bool is_overridden = options.sharegpt_output_len > 0;
    const auto prompt_len = int64_t(model.encode(*prompt, true).size());
    const int64_t output_len =
        is_overridden ? options.sharegpt_output_len : int64_t(model.encode(*answer, true).size());
    LengthBounds bounds;
    if (is_overridden) bounds.min_output_len = 0;
    if (!bounds.admits(prompt_len, output_len)) continue;
    SampleRequest request;
    request.prompts = {*prompt};
    request.prompt_len = prompt_len;
    request.output_len = output_len;
    request.request_id = options.request_id_prefix + std::to_string(requests.size());
    requests.push_back(std::move(request));
  }
  OCTAVO_TRY(oversample(requests, options, wanted, random));
  return requests;
}

Samples sample_custom(const DatasetOptions& options, const TextModel* model, GlobalRandom& random) {
  if (!options.path.ends_with(".jsonl")) {
    return invalid("Only JSONL format is supported for CustomDataset: " + options.path);
  }
  OCTAVO_TRY(const std::vector<Json> lines, read_json_lines(options.path));
  std::vector<Row> rows;
  for (const Json& line : lines) {
    const std::string* prompt = text_of(line, "prompt");
    if (prompt == nullptr) {
      return invalid(options.path + ": JSONL file must contain a 'prompt' column of texts");
    }
    rows.push_back({*prompt, count_of(line, "output_tokens")});
  }
  return sample_rows(std::move(rows), options.custom_output_len, options, model, random);
}

Samples sample_spec_bench(const DatasetOptions& options, const TextModel* model,
                          GlobalRandom& random) {
  OCTAVO_TRY(const std::vector<Json> lines, read_json_lines(options.path));
  std::vector<Row> rows;
  for (const Json& line : lines) {
    const std::string* prompt = text_of_turn(line, "turns", 0, {});
    if (prompt == nullptr) {
      return invalid(options.path + ": JSONL file must contain a 'turns' column of lists of texts");
    }
    const std::string* category = text_of(line, "category");
    if (!options.spec_bench_category.empty() &&
        (category == nullptr || *category != options.spec_bench_category)) {
      continue;
    }
    rows.push_back({*prompt, std::nullopt});
  }
  return sample_rows(std::move(rows), options.spec_bench_output_len, options, model, random);
}

Samples sample_speed_bench(const DatasetOptions& options, const TextModel& model,
                           GlobalRandom& random) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.path, error)) {
    return invalid(
        fmt::format("--dataset-path {}: speed_bench needs the folder that holds {}.jsonl",
                    options.path, options.speed_bench_subset));
  }
  const std::string path = fmt::format("{}/{}.jsonl", options.path, options.speed_bench_subset);
  OCTAVO_TRY(const std::vector<Json> lines, read_json_lines(path));
  std::vector<Row> rows;
  for (const Json& line : lines) {
    const std::string* prompt = text_of_turn(line, "messages", 0, "content");
    if (prompt == nullptr) {
      return invalid(path + ": JSONL file must contain a 'messages' column with texts");
    }
    const std::string* category = text_of(line, "category");
    const std::string& wanted = options.speed_bench_category;
    if (!wanted.empty() && (category == nullptr || *category != wanted)) continue;
    rows.push_back({*prompt, std::nullopt});
  }
  return sample_rows(std::move(rows), options.speed_bench_output_len, options, &model, random);
}

Samples sample_burstgpt(const DatasetOptions& options, const TextModel& model) {
  OCTAVO_TRY(const std::string text, read_dataset_file(options.path));
  const auto lines = lines_of(text);
  if (lines.empty()) return invalid(options.path + ": empty");
  const std::vector<std::string> names = csv_fields(lines[0].second);
  const auto model_at = size_t(std::ranges::find(names, "Model") - names.begin());
  const auto response_at = size_t(std::ranges::find(names, "Response tokens") - names.begin());
  if (std::max(model_at, response_at) >= names.size() || names.size() < 4) {
    return invalid(options.path + ": columns 'Model' and 'Response tokens' are needed");
  }
  std::vector<std::pair<int64_t, int64_t>> rows;  // input and output lengths
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = csv_fields(lines[i].second);
    if (fields.size() < names.size() || fields[model_at] != "GPT-4") continue;
    const auto response = csv_count(fields[response_at]);
    const auto input = csv_count(fields[2]);
    const auto output = csv_count(fields[3]);
    if (!response || !input || !output) {
      return invalid(
          fmt::format("{}, line {}: a length is no number", options.path, lines[i].first));
    }
    if (*response > 0) rows.emplace_back(*input, *output);
  }
  if (rows.empty()) return invalid(options.path + ": no row of GPT-4 with an answer");
  NumpyLegacy random(options.seed);
  const auto count = size_t(options.num_prompts);
  const std::vector<int64_t> chosen =
      count <= rows.size() ? random.sample_without_replacement(int64_t(rows.size()), count)
                           : random.randint(0, int64_t(rows.size()), count);
  std::vector<SampleRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    const auto& [input_len, output_len] = rows[size_t(chosen[i])];
    std::vector<int64_t> ids(size_t(input_len), 0);
    for (size_t j = 0; j < ids.size(); ++j) ids[j] = int64_t(i + j) % model.vocab_size;
    SampleRequest request;
    request.prompts = {model.decode(ids)};
    request.prompt_len = input_len;
    request.output_len = output_len;
    request.request_id = options.request_id_prefix + std::to_string(i);
    requests.push_back(std::move(request));
  }
  return requests;
}

Samples sample_timed_trace(const DatasetOptions& options, const TextModel& model,
                           GlobalRandom& random) {
  if (options.trace_chunk_size < 1 || options.trace_chunk_size > kMaxTokens) {
    return invalid("--timed-trace-chunk-hash-size is out of range");
  }
  OCTAVO_TRY(const std::vector<Json> lines, read_json_lines(options.path));
  random = GlobalRandom(options.seed);
  std::map<std::pair<std::string, int64_t>, std::vector<int64_t>> blocks;
  const auto block = [&](const std::string& hash, int64_t size) -> const std::vector<int64_t>& {
    std::vector<int64_t>& ids = blocks[{hash, size}];
    if (ids.empty()) {
      uint32_t seed = 2166136261u;  // FNV-1a: any fixed function of the key will do
      for (const char c : fmt::format("{}:{}", hash, size)) {
        seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
      }
      for (const uint64_t place : PythonRandom(seed).choices(model.allowed.size(), size_t(size))) {
        ids.push_back(model.allowed[place]);
      }
    }
    return ids;
  };
  std::vector<SampleRequest> requests;
  for (const Json& line : lines) {
    if (requests.size() >= size_t(options.num_prompts)) break;
    const auto input_len = count_of(line, options.trace_label_input_length);
    const auto output_len = count_of(line, options.trace_label_output_length);
    const auto time = line.find(options.trace_label_timestamp);
    if (!input_len || !output_len || time == line.end() || !time->is_number()) {
      return invalid(
          fmt::format("{}: entry {} lacks one of '{}', '{}', '{}' (see the "
                      "--timed-trace-label options)",
                      options.path, requests.size() + 1, options.trace_label_timestamp,
                      options.trace_label_input_length, options.trace_label_output_length));
    }
    SampleRequest request;
    int64_t remaining = *input_len;
    const auto hashes = line.find(options.trace_label_hash_ids);
    if (hashes != line.end() && hashes->is_array()) {
      for (const Json& hash : *hashes) {
        if (remaining <= 0) break;
        const int64_t size = std::min(remaining, options.trace_chunk_size);
        const std::vector<int64_t>& ids = block(hash.dump(), size);
        request.token_ids.insert(request.token_ids.end(), ids.begin(), ids.end());
        remaining -= size;
      }
    }
    if (request.token_ids.empty()) {
      return invalid(
          fmt::format("{}: entry {} has no hash ids", options.path, requests.size() + 1));
    }
    request.timestamp_s = time->get<double>() * options.trace_sec_multiplier;
    request.prompt_len = int64_t(request.token_ids.size());
    request.output_len = *output_len;
    request.request_id = options.request_id_prefix + std::to_string(requests.size());
    requests.push_back(std::move(request));
  }
  if (requests.empty()) return invalid(options.path + ": no entries");
  return requests;
}

}  // namespace octavo::bench
