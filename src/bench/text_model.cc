#include "bench/text_model.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace octavo::bench {
namespace {

using Json = nlohmann::json;

/// The text of a token that the configuration gives as text or as an object with "content".
std::string token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return {};
}

/// The special tokens that a configuration names, as the library's all_special_ids.
std::set<int64_t> named_special_ids(const Json& config, const tokenizer::Tokenizer& tokenizer) {
  constexpr auto kNames = std::to_array<const char*>(
      {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"});
  std::set<int64_t> ids;
  const auto add = [&](const Json& value) {
    const tokenizer::TokenId id = tokenizer.find(token_text(value));
    if (id >= 0) ids.insert(id);
  };
  for (const char* name : kNames) {
    if (config.contains(name)) add(config[name]);
  }
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config.contains(name)) continue;
    for (const auto& value : config[name]) add(value);
  }
  return ids;
}

}  // namespace

std::vector<int64_t> TextModel::encode(std::string_view text, bool add_special_tokens) const {
  tokenizer::EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  const auto ids = tokenizer->encode(text, options);
  return {ids.begin(), ids.end()};
}

std::string TextModel::decode(const std::vector<int64_t>& ids) const {
  std::vector<tokenizer::TokenId> narrow(ids.begin(), ids.end());
  return tokenizer->decode(narrow, false);
}

Result<TextModel> make_text_model(std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                                  std::string_view tokenizer_json,
                                  std::string_view tokenizer_config_json) {
  TextModel model;
  model.tokenizer = std::move(tokenizer);
  model.vocab_size = model.tokenizer->vocab_size();
  model.num_special_tokens_to_add = int64_t(model.encode("", true).size());
  std::set<int64_t> special;
  if (!tokenizer_json.empty()) {
    const Json file = Json::parse(tokenizer_json, nullptr, false);
    const Json* vocab = nullptr;
    if (file.is_object() && file.contains("model") && file["model"].is_object() &&
        file["model"].contains("vocab")) {
      vocab = &file["model"]["vocab"];
    }
    if (vocab == nullptr || vocab->empty()) {
      return Error{Code::kInvalidArgument, "tokenizer.json has no model.vocab"};
    }
    model.vocab_size = int64_t(vocab->size());
    const Json config = Json::parse(tokenizer_config_json, nullptr, false);
    if (config.is_object()) special = named_special_ids(config, *model.tokenizer);
  } else {
    for (int64_t id = 0; id < model.vocab_size; ++id) {
      if (model.tokenizer->is_special(tokenizer::TokenId(id))) special.insert(id);
    }
  }
  for (int64_t id = 0; id < model.vocab_size; ++id) {
    if (!special.contains(id)) model.allowed.push_back(id);
  }
  if (model.allowed.empty()) {
    return Error{Code::kInvalidArgument, "the tokenizer has no ordinary tokens"};
  }
  return model;
}

}  // namespace octavo::bench
