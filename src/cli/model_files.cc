#include "cli/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace octavo::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kDefaultModelName = "SmolLM2-135M-Instruct";
constexpr size_t kMaxFileBytes = 4u << 20;

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("OCTAVO_CACHE"); cache != nullptr && *cache != '\0') {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".cache" / "octavo";
}

/// `what` names the kind of file in errors.
Result<std::string> read_small_file(const std::string& path, const char* what) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{Code::kNotFound, fmt::format("cannot read the {} {}", what, path)};
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) {
    return Error{Code::kInvalidArgument, fmt::format("the {} {} is over 4 MiB", what, path)};
  }
  return text;
}

/// "chat_template" of tokenizer_config.json: text, or a list of {name, template}.
std::optional<std::string> template_of_config(const checkpoint::Metadata& config) {
  const checkpoint::Metadata* entry = config.find("chat_template");
  if (entry == nullptr) return std::nullopt;
  if (const std::string* text = entry->as_string()) return *text;
  const auto* list = std::get_if<std::shared_ptr<checkpoint::MetadataArray>>(&entry->value());
  if (list == nullptr) return std::nullopt;
  std::optional<std::string> chosen;
  for (const checkpoint::Metadata& item : **list) {
    const checkpoint::Metadata* name = item.find("name");
    const checkpoint::Metadata* text = item.find("template");
    if (text == nullptr || text->as_string() == nullptr) continue;
    const bool is_default =
        name != nullptr && name->as_string() != nullptr && *name->as_string() == "default";
    if (is_default || !chosen) chosen = *text->as_string();
    if (is_default) break;
  }
  return chosen;
}

/// A default that the files may set, and the numbers it may have: as in a request.
struct SamplingKey {
  enum class Kind { kBool, kInt, kNumber };
  std::string_view name;
  Kind kind;
  double low = 0.0;
  double high = 0.0;
  bool open_low = false;  // low itself is outside
};
constexpr double kMaxCount = 2147483647.0;
constexpr auto kSamplingKeys = std::to_array<SamplingKey>({
    {"repetition_penalty", SamplingKey::Kind::kNumber, 1e-6, 1e6, false},
    {"presence_penalty", SamplingKey::Kind::kNumber, -2.0, 2.0},
    {"frequency_penalty", SamplingKey::Kind::kNumber, -2.0, 2.0},
    {"temperature", SamplingKey::Kind::kNumber, 0.0, 2.0},
    {"top_k", SamplingKey::Kind::kInt, -1.0, kMaxCount},
    {"top_p", SamplingKey::Kind::kNumber, 0.0, 1.0, true},
    {"min_p", SamplingKey::Kind::kNumber, 0.0, 1.0},
    {"skip_special_tokens", SamplingKey::Kind::kBool},
    {"max_new_tokens", SamplingKey::Kind::kInt, 1.0, kMaxCount},
});

Error bad_default(const std::string& origin, const SamplingKey& key) {
  if (key.kind == SamplingKey::Kind::kBool) {
    return {Code::kInvalidArgument, fmt::format("{}: {} must be true or false", origin, key.name)};
  }
  return {Code::kInvalidArgument,
          fmt::format("{}: {} must be {} {} {} and at most {}", origin, key.name,
                      key.kind == SamplingKey::Kind::kInt ? "an integer" : "a number",
                      key.open_low ? "above" : "from", key.low, key.high)};
}

/// Copies what `from` sets, checked; null counts as not set.
Status copy_sampling_keys(const checkpoint::Metadata& from, const std::string& origin, Json& to) {
  for (const SamplingKey& key : kSamplingKeys) {
    const checkpoint::Metadata* value = from.find(key.name);
    if (value == nullptr) continue;
    const std::string name(key.name);
    if (key.kind == SamplingKey::Kind::kBool) {
      const auto flag = value->as_bool();
      if (!flag) return bad_default(origin, key);
      to[name] = *flag;
      continue;
    }
    const auto* integer = std::get_if<int64_t>(&value->value());
    const auto number = integer ? static_cast<double>(*integer) : value->as_double();
    const bool fits = number && !value->as_bool() && *number <= key.high &&
                      (key.open_low ? *number > key.low : *number >= key.low);
    if (!fits || (key.kind == SamplingKey::Kind::kInt && !integer)) {
      return bad_default(origin, key);
    }
    if (integer) {
      to[name] = *integer;
    } else {
      to[name] = *number;
    }
  }
  return {};
}

/// End-of-sequence ids that the files name beside the tokenizer's own. GGUF: end of turn.
Json extra_stop_ids(const checkpoint::Checkpoint& checkpoint,
                    const checkpoint::Metadata* generation, const tokenizer::Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  const auto add = [&](const checkpoint::Metadata* value) {
    if (value == nullptr) return;
    if (const auto list = value->as_ints()) ids.insert(ids.end(), list->begin(), list->end());
  };
  if (checkpoint.is_gguf()) {
    add(checkpoint.config().find("tokenizer.ggml.eot_token_id"));
  } else if (generation != nullptr && generation->find("eos_token_id") != nullptr) {
    add(generation->find("eos_token_id"));
  } else {
    add(checkpoint.config().find("eos_token_id"));
  }
  std::erase_if(ids, [&](int64_t id) {
    return id < 0 || id >= tokenizer.vocab_size() || id == tokenizer.eos_token_id();
  });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Status resolve_model(config::ModelConfig& config) {
  if (!config.model.empty()) return {};
  const std::filesystem::path path = cache_folder() / kDefaultModelFile;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    config.model = path.string();
    if (config.served_model_name.empty()) config.served_model_name = {kDefaultModelName};
    return {};
  }
  return Error{Code::kNotFound,
               "no model was given and the default model is not at " + path.string() +
                   "; get it with tools/fetch_model.sh (or ./quickstart), or name a model: "
                   "octavo serve <folder or .gguf file>"};
}

Result<std::vector<std::string>> list_model_files(config::Config config) {
  namespace fs = std::filesystem;
  constexpr size_t kMaxFiles = 10000;
  OCTAVO_TRY(resolve_model(config.engine.model));
  const fs::path path = config.engine.model.model;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector{path.string()};
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error) && files.size() < kMaxFiles) {
      files.push_back(entry->path().string());
    }
  }
  if (files.empty()) {
    return Error{Code::kNotFound, fmt::format("no model at {}", path.string())};
  }
  std::ranges::sort(files);
  return files;
}

Result<std::optional<std::string>> find_chat_template(const checkpoint::Checkpoint& checkpoint,
                                                      const std::string& option) {
  std::error_code error;
  if (!option.empty()) {
    if (std::filesystem::exists(option, error)) {
      OCTAVO_TRY(std::string text, read_small_file(option, "chat template file"));
      return std::optional<std::string>(std::move(text));
    }
    if (option.find_first_of("{}\n") == std::string::npos) {
      return Error{Code::kNotFound, "--chat-template " + option +
                                        ": no such file, and it does not look like a template"};
    }
    return std::optional<std::string>(option);
  }
  if (checkpoint.is_gguf()) {
    const checkpoint::Metadata* text = checkpoint.config().find("tokenizer.chat_template");
    if (text == nullptr || text->as_string() == nullptr) return std::optional<std::string>();
    return std::optional<std::string>(*text->as_string());
  }
  OCTAVO_TRY(std::optional<std::string> file, checkpoint.read_file("chat_template.jinja"));
  if (file) return file;
  OCTAVO_TRY(file, checkpoint.read_file("tokenizer_config.json"));
  if (!file) return std::optional<std::string>();
  OCTAVO_TRY(checkpoint::Metadata config,
             checkpoint::parse_json_metadata(*file, "tokenizer_config.json"));
  return template_of_config(config);
}

Result<std::string> default_sampling_json(const checkpoint::Checkpoint& checkpoint,
                                          const config::ModelConfig& config,
                                          const tokenizer::Tokenizer& tokenizer) {
  Json defaults = Json::object();
  checkpoint::Metadata other_folder;
  std::string origin = "generation_config.json";
  const checkpoint::Metadata* generation = &checkpoint.generation_config();
  if (config.generation_config != "auto" && config.generation_config != "vllm") {
    const std::string path = config.generation_config + "/generation_config.json";
    OCTAVO_TRY(const std::string text,
               read_small_file(path, "file that --generation-config names,"));
    OCTAVO_TRY(other_folder, checkpoint::parse_json_metadata(text, path));
    generation = &other_folder;
    origin = path;
  }
  if (config.generation_config != "vllm") {
    OCTAVO_TRY(copy_sampling_keys(*generation, origin, defaults));
  }

  const std::string& text = config.override_generation_config;
  OCTAVO_TRY(
      checkpoint::Metadata over,
      checkpoint::parse_json_metadata(text.empty() ? "{}" : text, "--override-generation-config"));
  if (!over.is_object()) {
    return Error{Code::kInvalidArgument, "--override-generation-config must be a JSON object"};
  }
  for (const auto& [name, value] :
       *std::get<std::shared_ptr<checkpoint::MetadataObject>>(over.value())) {
    if (std::ranges::find(kSamplingKeys, name, &SamplingKey::name) != kSamplingKeys.end()) continue;
    log::warning(log::Source::kApiServer, "--override-generation-config: {} has no effect", name);
  }
  OCTAVO_TRY(copy_sampling_keys(over, "--override-generation-config", defaults));
  defaults["stop_token_ids"] = extra_stop_ids(checkpoint, generation, tokenizer);
  return defaults.dump();
}

std::string revision_of(const std::string& model_path) {
  namespace fs = std::filesystem;
  const auto revision_in = [](const fs::path& path) -> std::string {
    std::string before;
    std::string last;
    for (const fs::path& part : path) {
      if (last == "snapshots" && before.starts_with("models--")) return part.string();
      before = std::exchange(last, part.string());
    }
    return {};
  };
  std::error_code error;
  std::string found = revision_in(fs::absolute(model_path, error).lexically_normal());
  if (found.empty()) found = revision_in(fs::canonical(model_path, error));
  return found;
}

std::string image_digest() {
  constexpr size_t kMaxLength = 256;
  std::string text;
  const char* variable = std::getenv("OCTAVO_IMAGE_DIGEST");
  if (variable != nullptr) text = variable;
  if (text.empty()) {
    std::ifstream file("/etc/octavo/image-digest");
    std::getline(file, text);
  }
  return text.substr(0, kMaxLength);
}

}  // namespace octavo::cli
