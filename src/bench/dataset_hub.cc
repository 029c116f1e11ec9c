// Data sets of a model hub, read from files that the user fetched: --dataset-name hf.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>

#include "bench/dataset_rows.h"
#include "bench/datasets.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// What a row gives; nullopt where it lacks something.
struct HubRow {
  std::string prompt;
  std::string system;
  std::string answer;  // of sets whose answers set the output lengths
};
using ReadRow = std::optional<HubRow> (*)(const Json& row);

std::optional<HubRow> read_text(const Json& row, std::string_view key) {
  const std::string* prompt = text_of(row, key);
  if (prompt == nullptr) return std::nullopt;
  return HubRow{*prompt, {}, {}};
}

std::optional<HubRow> read_pair(const std::string* prompt, const std::string* answer) {
  if (prompt == nullptr || answer == nullptr) return std::nullopt;
  return HubRow{*prompt, {}, *answer};
}

std::optional<HubRow> read_mt_bench(const Json& row) {
  const std::string* prompt = text_of_turn(row, "turns", 0, {});
  if (prompt == nullptr) return std::nullopt;
  return HubRow{*prompt, {}, {}};
}

std::optional<HubRow> read_human_eval(const Json& row) { return read_text(row, "prompt"); }
std::optional<HubRow> read_gsm8k(const Json& row) { return read_text(row, "question"); }

std::optional<HubRow> read_instruct_coder(const Json& row) {
  const std::string* input = text_of(row, "input");
  const std::string* instruction = text_of(row, "instruction");
  if (input == nullptr || instruction == nullptr) return std::nullopt;
  // vLLM's wording: another one would make other prompts.
  return HubRow{fmt::format("{}\n\n{} Just output the code, do not include any explanation.",
                            *input, *instruction),
                {},
                {}};
}

std::optional<HubRow> read_conversation(const Json& row) {
  return read_pair(text_of_turn(row, "conversations", 0, "value"),
                   text_of_turn(row, "conversations", 1, "value"));
}

std::optional<HubRow> read_aimo(const Json& row) {
  return read_pair(text_of(row, "problem"), text_of(row, "solution"));
}

std::optional<HubRow> read_mlperf(const Json& row) {
  auto out = read_pair(text_of(row, "question"), text_of(row, "output"));
  const std::string* system = text_of(row, "system_prompt");
  if (!out || system == nullptr) return std::nullopt;
  out->system = *system;
  return out;
}

/// How vLLM makes requests of one set (its benchmarks/datasets): which fields, which lengths.
struct HubSet {
  std::string_view id;
  ReadRow read;
  std::string_view columns;      // for messages
  std::string_view split;        // unless --hf-split
  int64_t output_len = 0;        // unless --hf-output-len; 0: the answer's tokens
  std::string_view subset = {};  // unless --hf-subset
  bool has_system = false;       // always templated, always within the bounds
  LengthBounds bounds = {};      // of sets with answers
};
constexpr LengthBounds kLongAnswers = {4, 4, 2048, 32000};
constexpr auto kSets = std::to_array<HubSet>({
    {"philschmid/mt-bench", read_mt_bench, "turns", "train", 256},
    {"openai/openai_humaneval", read_human_eval, "prompt", "test", 256},
    {"openai/gsm8k", read_gsm8k, "question", "test", 256, "main"},
    {"likaixin/InstructCoder", read_instruct_coder, "input, instruction", "train", 200},
    {"Aeala/ShareGPT_Vicuna_unfiltered", read_conversation, "conversations", "train"},
    {"AI-MO/aimo-validation-aime", read_aimo, "problem, solution", "train", 0, "", false,
     kLongAnswers},
    {"AI-MO/NuminaMath-1.5", read_aimo, "problem, solution", "train", 0, "", false, kLongAnswers},
    {"AI-MO/NuminaMath-CoT", read_aimo, "problem, solution", "train", 0, "", false, kLongAnswers},
    {"mgoin/mlperf-inference-llama2-data", read_mlperf, "system_prompt, question, output", "train",
     0, "", true},
    {"mgoin/mlperf-inference-llama3.1-data", read_mlperf, "system_prompt, question, output",
     "train", 0, "", true},
});

/// Sets that vLLM knows and that are not read here.
struct RefusedSet {
  std::string_view id;
  std::string_view reason;
};
constexpr std::string_view kMedia = "its requests carry media; octavo bench sends text only";
constexpr std::string_view kTemplate =
    "its prompts are a long fixed text around the rows that octavo does not carry; write them to a "
    "JSONL file and use --dataset-name custom";
constexpr std::string_view kTools =
    "its requests carry tool definitions; octavo bench sends text only";
constexpr auto kRefused = std::to_array<RefusedSet>({
    {"vdaita/edit_5k_char", kTemplate},
    {"vdaita/edit_10k_char", kTemplate},
    {"zed-industries/zeta", kTemplate},
    {"gorilla-llm/Berkeley-Function-Calling-Leaderboard", kTools},
    {"lmarena-ai/VisionArena-Chat", kMedia},
    {"lmarena-ai/vision-arena-bench-v0.1", kMedia},
    {"lmms-lab/LLaVA-OneVision-Data", kMedia},
    {"yale-nlp/MMVU", kMedia},
    {"Lin-Chen/MMStar", kMedia},
    {"openslr/librispeech_asr", kMedia},
    {"facebook/voxpopuli", kMedia},
    {"LIUM/tedlium", kMedia},
    {"edinburghcstr/ami", kMedia},
    {"speechcolab/gigaspeech", kMedia},
    {"kensho/spgispeech", kMedia},
    {"ArtificialAnalysis/Earnings22-Cleaned-AA", kMedia},
    {"D4nt3/esb-datasets-earnings22-validation-tiny-filtered", kMedia},
});

bool names(std::string_view name, std::string_view path, std::string_view id) {
  if (!name.empty()) return name == id;
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.ends_with(id) &&
         (path.size() == id.size() || path[path.size() - id.size() - 1] == '/');
}

Result<const HubSet*> find_set(const DatasetOptions& options) {
  for (const HubSet& set : kSets) {
    if (names(options.hf_name, options.path, set.id)) return &set;
  }
  const std::string& name = options.hf_name.empty() ? options.path : options.hf_name;
  for (const RefusedSet& set : kRefused) {
    if (names(options.hf_name, options.path, set.id)) {
      return invalid(fmt::format("--dataset-name hf: not {}: {}", set.id, set.reason));
    }
  }
  std::string list;
  for (const HubSet& set : kSets) list += (list.empty() ? "" : ", ") + std::string(set.id);
  return invalid(fmt::format("--dataset-name hf: no set '{}'; give --hf-name, which is one of: {}",
                             name, list));
}

/// The words by which a file or folder name says its split, as the hub's library reads them.
std::span<const std::string_view> words_of_split(std::string_view split) {
  static constexpr std::array<std::string_view, 2> kTrain = {"train", "training"};
  static constexpr std::array<std::string_view, 4> kValidation = {"validation", "valid", "dev",
                                                                  "val"};
  static constexpr std::array<std::string_view, 4> kTest = {"test", "testing", "eval",
                                                            "evaluation"};
  if (split == "train") return kTrain;
  if (split == "validation") return kValidation;
  if (split == "test") return kTest;
  return {};
}

/// Whether `path`, below the set's folder, names the split in one of its words.
bool says_split(const std::string& path, std::string_view split) {
  const auto words = words_of_split(split);
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find_first_of("/-_. 0123456789", begin), path.size());
    const std::string_view word = std::string_view(path).substr(begin, end - begin);
    if (word == split || std::ranges::find(words, word) != words.end()) return true;
    begin = end + 1;
  }
  return false;
}

/// Files with rows in a folder, sorted; `others` counts those in another format.
std::vector<std::string> list_files(const fs::path& folder, size_t& others) {
  constexpr int kMaxDepth = 4;
  constexpr size_t kMaxEntries = 10000;
  std::vector<std::string> out;
  std::error_code error;
  size_t num_seen = 0;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (++num_seen > kMaxEntries) break;
    const std::string name = at->path().filename().string();
    if (at.depth() >= kMaxDepth || name.starts_with('.')) at.disable_recursion_pending();
    if (name.starts_with('.') || !at->is_regular_file(error)) continue;
    const std::string extension = at->path().extension().string();
    if (extension == ".jsonl" || (extension == ".json" && !name.starts_with("dataset_info"))) {
      out.push_back(at->path().string());
    } else if (extension == ".parquet" || extension == ".arrow" || extension == ".csv" ||
               extension == ".gz" || extension == ".zst") {
      ++others;
    }
  }
  std::ranges::sort(out);
  return out;
}

/// The files of a split: those that name it, else all files for train.
Result<std::vector<std::string>> files_of_split(const DatasetOptions& options, const HubSet& set) {
  const std::string& path = options.path;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<std::string>{path};
  if (!fs::is_directory(path, error)) {
    return Error{Code::kNotFound,
                 fmt::format("--dataset-path {}: no such file or folder; nothing is downloaded: "
                             "fetch {} and name its folder",
                             path, set.id)};
  }
  fs::path folder = path;
  const std::string subset =
      options.hf_subset.empty() ? std::string(set.subset) : options.hf_subset;
  if (!subset.empty() && fs::is_directory(folder / subset, error)) {
    folder /= subset;
  } else if (!options.hf_subset.empty()) {
    return invalid(fmt::format("--hf-subset {}: no such folder in {}", subset, path));
  }
  size_t num_others = 0;
  const std::vector<std::string> all = list_files(folder, num_others);
  if (all.empty()) {
    return invalid(fmt::format("{}: no .jsonl or .json file{}", folder.string(),
                               num_others == 0 ? ""
                                               : "; other formats (parquet, csv, compressed) are "
                                                 "not read: convert them to JSON lines"));
  }
  const std::string split = options.hf_split.empty() ? std::string(set.split) : options.hf_split;
  std::vector<std::string> chosen;
  bool any_split = false;
  for (const std::string& file : all) {
    const std::string below = file.substr(folder.string().size());
    if (says_split(below, split)) chosen.push_back(file);
    for (const char* other : {"train", "validation", "test"}) {
      any_split = any_split || says_split(below, other);
    }
  }
  if (!chosen.empty()) return chosen;
  if (split == "train" && !any_split) return all;
  return invalid(fmt::format("--hf-split {}: no file of {} names it", split, folder.string()));
}

/// The order in which vLLM sees `count` rows: the hub library's shuffle, of all rows, or while it
/// streams through a buffer of 1,000 of which half leave when it is full (library version 5.2; up
/// to 1,000 rows every version does the same).
std::vector<int64_t> shuffled_order(const DatasetOptions& options, size_t count) {
  constexpr size_t kBuffer = 1000;
  NumpyGenerator random(options.seed);
  if (!options.hf_streams) return random.permutation(count);
  std::vector<int64_t> out;
  std::vector<int64_t> buffer;
  const auto leave = [&](size_t how_many) {
    const std::vector<int64_t> order = random.permutation(buffer.size());
    std::vector<int64_t> kept;
    for (size_t i = 0; i < order.size(); ++i) {
      (i < how_many ? out : kept).push_back(buffer[size_t(order[i])]);
    }
    buffer = std::move(kept);
  };
  for (size_t i = 0; i < count; ++i) {
    buffer.push_back(int64_t(i));
    if (buffer.size() >= kBuffer) leave(kBuffer / 2);
  }
  leave(buffer.size());
  return out;
}

/// A request of a set whose answers bound it; nullopt: the row is passed over.
Result<std::optional<SampleRequest>> request_of(HubRow row, const HubSet& set,
                                                const DatasetOptions& options,
                                                const TextModel& model) {
  const bool is_overridden = options.hf_output_len > 0;
  if (set.has_system) {
    if (!model.render_chat)
      return invalid("the model has no chat template, and this set needs one");
    OCTAVO_TRY(row.prompt, model.render_chat({{"system", row.system}, {"user", row.prompt}}, {}));
  }
  SampleRequest request;
  request.prompt_len = int64_t(model.encode(row.prompt, true).size());
  request.output_len = is_overridden ? options.hf_output_len
                                     : int64_t(model.encode(row.answer, !set.has_system).size());
  const bool is_checked = set.has_system || !is_overridden;
  if (is_checked && !set.bounds.admits(request.prompt_len, request.output_len)) {
    return std::optional<SampleRequest>();
  }
  request.prompts = {std::move(row.prompt)};
  return std::optional<SampleRequest>(std::move(request));
}

}  // namespace

Samples sample_hub(const DatasetOptions& options, const TextModel& model, GlobalRandom& random) {
  OCTAVO_TRY(const HubSet* set, find_set(options));
  if (options.hf_output_len < 0 || options.hf_output_len > kMaxTokens) {
    return invalid(fmt::format("--hf-output-len must be 1 to {}", kMaxTokens));
  }
  OCTAVO_TRY(const std::vector<std::string> files, files_of_split(options, *set));
  std::vector<Json> rows;
  for (const std::string& file : files) {
    OCTAVO_TRY(std::vector<Json> more, read_json_rows(file));
    std::ranges::move(more, std::back_inserter(rows));
  }
  std::vector<int64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  if (!options.disable_shuffle) order = shuffled_order(options, rows.size());
  const auto wanted = size_t(options.num_prompts);
  std::vector<SampleRequest> requests;
  std::vector<Row> templated;
  for (const int64_t index : order) {
    if (requests.size() >= wanted || templated.size() >= wanted) break;
    auto row = set->read(rows[size_t(index)]);
    if (!row) {
      // A conversation of one turn is no answer; vLLM passes over it too.
      if (set->read == read_conversation) continue;
      return invalid(fmt::format("{}: row {} lacks one of the texts {}", options.path, index + 1,
                                 set->columns));
    }
    if (set->output_len > 0) {
      templated.push_back({std::move(row->prompt), std::nullopt});
      continue;
    }
    OCTAVO_TRY(auto request, request_of(std::move(*row), *set, options, model));
    if (!request) continue;
    request->request_id = options.request_id_prefix + std::to_string(requests.size());
    requests.push_back(std::move(*request));
  }
  if (set->output_len > 0) {
    DatasetOptions own = options;
    own.chat_template_kwargs.clear();  // of custom and speed_bench alone, as in vLLM
    const int64_t output_len = options.hf_output_len > 0 ? options.hf_output_len : set->output_len;
    return requests_of_rows(std::move(templated), output_len, own, &model, random);
  }
  OCTAVO_TRY(oversample(requests, options, wanted, random));
  return requests;
}

}  // namespace octavo::bench
