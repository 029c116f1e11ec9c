#include "checkpoint/hf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "checkpoint/file.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/quote.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_index.h"

namespace octavo::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

std::string join(const std::string& directory, std::string_view name) {
  return (fs::path(directory) / name).string();
}

/// A name that stays inside the directory it is looked up in.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<std::optional<std::string>> read_if_there(const std::string& directory,
                                                 std::string_view name) {
  if (!is_plain_name(name)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: {} is no plain file name", directory, quote(name))};
  }
  auto text = read_text_file(join(directory, name), kMaxFileBytes);
  if (text.ok()) return std::optional<std::string>(std::move(text).value());
  if (text.error().code == Code::kNotFound) return std::optional<std::string>();
  return std::move(text).error();
}

/// The file as an object; an empty one when there is no such file.
Result<Metadata> read_object(const std::string& directory, std::string_view name) {
  OCTAVO_TRY(const std::optional<std::string> text, read_if_there(directory, name));
  if (!text) return Metadata(std::make_shared<MetadataObject>());
  const std::string path = join(directory, name);
  OCTAVO_TRY(Metadata value, parse_json_metadata(*text, path));
  if (!value.is_object()) {
    return Error{Code::kInvalidArgument, path + ": is no JSON object (byte 0)"};
  }
  return value;
}

std::vector<std::string> names_ending(const std::string& directory, std::string_view end) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator it(directory, failure), last; !failure && it != last;
       it.increment(failure)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(end)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// weight_map of the index: tensor -> file name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

Result<WeightMap> parse_weight_map(std::string_view text, const std::string& path) {
  OCTAVO_TRY(const Metadata index, parse_json_metadata(text, path));
  const Metadata* map = index.find("weight_map");
  if (map == nullptr || !map->is_object()) {
    return Error{Code::kInvalidArgument, path + ": has no object weight_map (byte 0)"};
  }
  WeightMap weight_map;
  for (const auto& [tensor, value] : *std::get<std::shared_ptr<MetadataObject>>(map->value())) {
    const std::string* file = value.as_string();
    if (file == nullptr || !is_plain_name(*file)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: tensor {} lies in {}, which is no plain file name", path,
                               quote(tensor), file == nullptr ? "no string" : quote(*file))};
    }
    weight_map.emplace(tensor, *file);
  }
  return weight_map;
}

/// The mapped files of a checkpoint and the tensors in them.
struct Weights {
  std::vector<MappedFile> files;
  std::vector<Tensor> tensors;
  std::vector<std::string> left_out;
};

/// Maps `path` and adds the tensors that `wanted` lists for it (all, when it is null).
Status add_file(const std::string& path, std::string_view name, const WeightMap* wanted,
                Weights& weights) {
  OCTAVO_TRY(MappedFile file, MappedFile::open(path));
  OCTAVO_TRY(SafetensorsContents contents, parse_safetensors(file.bytes(), path));
  weights.files.push_back(std::move(file));
  for (std::string& left_out : contents.left_out) weights.left_out.push_back(std::move(left_out));
  for (Tensor& tensor : contents.tensors) {
    if (wanted != nullptr) {
      const auto it = wanted->find(tensor.name);
      if (it == wanted->end() || it->second != name) continue;
    }
    weights.tensors.push_back(std::move(tensor));
  }
  return {};
}

/// Every tensor of the index must have been in its shard.
Status check_shards(const WeightMap& weight_map, const Weights& weights, const std::string& path) {
  std::unordered_set<std::string_view> found(weights.left_out.begin(), weights.left_out.end());
  for (const Tensor& tensor : weights.tensors) found.insert(tensor.name);
  for (const auto& [tensor, file] : weight_map) {
    if (!found.contains(tensor)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: tensor {} is not in the header of {} (offset 8)", path,
                               quote(tensor), quote(file))};
    }
  }
  return {};
}

Result<Weights> read_sharded(const std::string& directory, const std::string& index_text) {
  const std::string path = join(directory, kIndexName);
  OCTAVO_TRY(const WeightMap weight_map, parse_weight_map(index_text, path));
  std::vector<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  Weights weights;
  for (const std::string& name : names) {
    OCTAVO_TRY(add_file(join(directory, name), name, &weight_map, weights));
  }
  OCTAVO_TRY(check_shards(weight_map, weights, path));
  return weights;
}

Error no_weights(const std::string& directory) {
  std::string hint;
  if (!names_ending(directory, ".bin").empty() || !names_ending(directory, ".pt").empty()) {
    hint = "; its PyTorch files must be converted to safetensors";
  } else if (!names_ending(directory, ".gguf").empty()) {
    hint = "; name its .gguf file, or use --load-format gguf";
  }
  return {Code::kNotFound,
          fmt::format("{}: the directory holds no *.safetensors file{}", directory, hint)};
}

Result<Weights> read_unsharded(const std::string& directory) {
  std::vector<std::string> names = names_ending(directory, ".safetensors");
  if (names.empty()) return no_weights(directory);
  if (std::find(names.begin(), names.end(), kSingleName) != names.end()) {
    names = {std::string(kSingleName)};
  }
  Weights weights;
  for (const std::string& name : names) {
    OCTAVO_TRY(add_file(join(directory, name), name, nullptr, weights));
  }
  std::unordered_map<std::string_view, const Tensor*> seen;
  for (const Tensor& tensor : weights.tensors) {
    const auto [it, is_new] = seen.emplace(tensor.name, &tensor);
    if (!is_new) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: tensor {} at offset {} is also in {}", tensor.file,
                               quote(tensor.name), tensor.offset, it->second->file)};
    }
  }
  return weights;
}

class HfCheckpoint : public Checkpoint {
 public:
  HfCheckpoint(std::string path, Metadata config, Metadata generation_config, Weights weights,
               bool has_weights)
      : path_(std::move(path)),
        config_(std::move(config)),
        generation_config_(std::move(generation_config)),
        files_(std::move(weights.files)),
        tensors_(std::move(weights.tensors)),
        has_weights_(has_weights) {}

  std::string_view path() const override { return path_; }
  bool is_gguf() const override { return false; }
  bool has_weights() const override { return has_weights_; }
  const Metadata& config() const override { return config_; }
  const Metadata& generation_config() const override { return generation_config_; }
  const Tensor* find(std::string_view name) const override { return tensors_.find(name); }
  const std::vector<Tensor>& tensors() const override { return tensors_.tensors(); }
  Result<std::optional<std::string>> read_file(std::string_view name) const override {
    return read_if_there(path_, name);
  }
  void drop_pages() const override {
    for (const MappedFile& file : files_) file.drop_pages();
  }

 private:
  std::string path_;
  Metadata config_;
  Metadata generation_config_;
  std::vector<MappedFile> files_;
  TensorIndex tensors_;
  bool has_weights_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_hf(const std::string& path, bool with_weights) {
  OCTAVO_TRY(Metadata config, read_object(path, "config.json"));
  OCTAVO_TRY(Metadata generation_config, read_object(path, "generation_config.json"));
  Weights weights;
  if (with_weights) {
    OCTAVO_TRY(const std::optional<std::string> index, read_if_there(path, kIndexName));
    OCTAVO_TRY(weights, index ? read_sharded(path, *index) : read_unsharded(path));
  }
  return std::unique_ptr<Checkpoint>(std::make_unique<HfCheckpoint>(
      path, std::move(config), std::move(generation_config), std::move(weights), with_weights));
}

}  // namespace octavo::checkpoint
