#include "bench/dataset_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

constexpr uintmax_t kMaxFileBytes = uintmax_t{4} << 30;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Result<std::vector<Json>> parse_lines(const std::string& path, std::string_view text) {
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

}  // namespace

Result<std::string> read_dataset_file(const std::string& path) {
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
  OCTAVO_TRY(const std::string text, read_dataset_file(path));
  return parse_lines(path, text);
}

Result<std::vector<Json>> read_json_rows(const std::string& path) {
  OCTAVO_TRY(const std::string text, read_dataset_file(path));
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '[') return parse_lines(path, text);
  Json list = Json::parse(text, nullptr, false);
  const bool is_rows = list.is_array() && std::ranges::all_of(list, &Json::is_object);
  if (!is_rows) return invalid(path + ": no JSON list of objects");
  return list.get<std::vector<Json>>();
}

const std::string* text_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get_ptr<const std::string*>()
                                                     : nullptr;
}

const std::string* text_of_turn(const Json& row, std::string_view turns, size_t index,
                                std::string_view key) {
  const auto found = row.find(turns);
  if (found == row.end() || !found->is_array() || found->size() <= index) return nullptr;
  const Json& turn = (*found)[index];
  if (turn.is_string()) return turn.get_ptr<const std::string*>();
  return turn.is_object() && !key.empty() ? text_of(turn, key) : nullptr;
}

Samples requests_of_rows(std::vector<Row> rows, int64_t output_len, const DatasetOptions& options,
                         const TextModel* model, GlobalRandom& random) {
  if (output_len < -1 || output_len > kMaxTokens) {
    return invalid(
        fmt::format("the output length must be 1 to {}, or -1 for the file's", kMaxTokens));
  }
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
        OCTAVO_TRY(row.prompt,
                   model->render_chat({{"user", row.prompt}}, options.chat_template_kwargs));
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

}  // namespace octavo::bench
