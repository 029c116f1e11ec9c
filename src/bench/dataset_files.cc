// Data sets read from files: sharegpt, custom, spec_bench, burstgpt, timed_trace.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/datasets.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

constexpr uintmax_t kMaxFileBytes = uintmax_t{4} << 30;
constexpr int64_t kMaxTokens = 10'000'000;  // of one prompt or answer

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    return Error{Code::kNotFound, fmt::format("--dataset-path {}: {}", path, error.message())};
  }
  if (size > kMaxFileBytes) return invalid(fmt::format("--dataset-path {}: above 4 GiB", path));
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), std::streamsize(size))) {
    return Error{Code::kNotFound, fmt::format("--dataset-path {}: cannot be read", path)};
  }
  return text;
}

/// Lines that are not blank, with their numbers from 1.
std::vector<std::pair<size_t, std::string_view>> lines_of(std::string_view text) {
  std::vector<std::pair<size_t, std::string_view>> out;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) out.emplace_back(number, line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Result<std::vector<Json>> read_json_lines(const std::string& path) {
  OCTAVO_TRY(const std::string text, read_file(path));
  std::vector<Json> out;
  for (const auto& [number, line] : lines_of(text)) {
    Json value = Json::parse(line, nullptr, false);
    if (!value.is_object()) {
      return invalid(fmt::format("{}, line {}: no JSON object", path, number));
    }
    out.push_back(std::move(value));
  }
  return out;
}

const std::string* text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get_ptr<const std::string*>()
                                                     : nullptr;
}

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

/// If there are fewer than asked, draws more of the same, with replacement and ids of their own.
Status oversample(std::vector<SampleRequest>& requests, const DatasetOptions& options,
                  size_t wanted, GlobalRandom& random) {
  if (requests.empty()) return invalid(options.path + ": no usable rows");
  if (options.no_oversample || requests.size() >= wanted) return {};
  random.python = PythonRandom(options.seed);
  const size_t num_drawn_from = requests.size();
  while (requests.size() < wanted) {
    SampleRequest copy = requests[random.python.below(num_drawn_from)];
    copy.request_id = options.request_id_prefix + std::to_string(requests.size());
    requests.push_back(std::move(copy));
  }
  return {};
}

/// A prompt and, if the row says so, how long its answer should be.
struct Row {
  std::string prompt;
  std::optional<int64_t> output_len;
};

/// What custom and spec_bench share: order, chat template, lengths.
Samples sample_rows(std::vector<Row> rows, int64_t output_len, const DatasetOptions& options,
                    const TextModel* model, GlobalRandom& random) {
  random.python = PythonRandom(options.seed);
  if (!options.disable_shuffle) random.python.shuffle(rows);
  const size_t wanted = options.num_prompts > 0 ? size_t(options.num_prompts) : rows.size();
  std::vector<SampleRequest> requests;
  for (Row& row : rows) {
    if (requests.size() >= wanted) break;
    SampleRequest request;
    request.prompt_len = request.output_len = 1;  // without a tokenizer nothing can be counted
    if (model != nullptr) {
      if (output_len == -1 && !row.output_len) {
        return invalid(options.path + ": without an output length every row needs output_tokens");
      }
      request.output_len = output_len == -1 ? *row.output_len : output_len;
      if (!options.skip_chat_template) {
        if (!model->render_chat) {
          return invalid("the model has no chat template; use --skip-chat-template");
        }
        OCTAVO_TRY(row.prompt, model->render_chat(row.prompt, options.chat_template_kwargs));
      }
      request.prompt_len = int64_t(model->encode(row.prompt, true).size());
    }
    request.request_id = options.request_id_prefix + std::to_string(requests.size());
    request.prompts = {std::move(row.prompt)};
    requests.push_back(std::move(request));
  }
  OCTAVO_TRY(oversample(requests, options, wanted, random));
  return requests;
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
  OCTAVO_TRY(const std::string text, read_file(options.path));
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
    // The bounds that make runs with this file comparable with published ones.
    if (prompt_len < 4 || (!is_overridden && output_len < 4) || prompt_len > 1024 ||
        prompt_len + output_len > 2048) {
      continue;
    }
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
    const auto turns = line.find("turns");
    if (turns == line.end() || !turns->is_array() || turns->empty() || !(*turns)[0].is_string()) {
      return invalid(options.path + ": JSONL file must contain a 'turns' column of lists of texts");
    }
    const std::string* category = text_of(line, "category");
    if (!options.spec_bench_category.empty() &&
        (category == nullptr || *category != options.spec_bench_category)) {
      continue;
    }
    rows.push_back({(*turns)[0].get<std::string>(), std::nullopt});
  }
  return sample_rows(std::move(rows), options.spec_bench_output_len, options, model, random);
}

Samples sample_burstgpt(const DatasetOptions& options, const TextModel& model) {
  OCTAVO_TRY(const std::string text, read_file(options.path));
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
