#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tokenizer/json_components.h"

namespace octavo::tokenizer {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;

Result<TokenId> token_id(const JsonElement& element, const JsonPlace& place) {
  int64_t id = 0;
  if (element.get(id) != simdjson::SUCCESS) return place.invalid("is no integer");
  if (id < 0 || id >= kMaxVocabSize) {
    return place.invalid(fmt::format("token id {} is outside of 0 to {}", id, kMaxVocabSize - 1));
  }
  return TokenId(id);
}

Status parse_vocab(const JsonObject& model, const JsonPlace& model_place, TokenizerSpec& spec) {
  OCTAVO_TRY(const JsonObject vocab, container_at<JsonObject>(model, "vocab", model_place));
  const JsonPlace place = model_place / "vocab";
  if (vocab.size() == 0) return place.invalid("is empty");
  for (const auto& [text, value] : vocab) {
    Result<TokenId> id = token_id(value, place);
    if (!id.ok()) return place.invalid(fmt::format("\"{}\": {}", text, id.error().message));
    spec.vocab.emplace_back(text, *id);
  }
  return {};
}

/// "a b", or ["a", "b"] in newer files.
bool parse_merge(const JsonElement& element, std::pair<std::string_view, std::string_view>& merge) {
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return false;
    }
    merge = {text.substr(0, space), text.substr(space + 1)};
    return true;
  }
  JsonArray pair;
  return element.get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
         pair.at(0).get(merge.first) == simdjson::SUCCESS &&
         pair.at(1).get(merge.second) == simdjson::SUCCESS;
}

Status parse_merges(const JsonObject& model, const JsonPlace& model_place, TokenizerSpec& spec) {
  OCTAVO_TRY(const JsonArray merges, container_at<JsonArray>(model, "merges", model_place));
  const JsonPlace place = model_place / "merges";
  for (const JsonElement entry : merges) {
    std::pair<std::string_view, std::string_view> merge;
    if (!parse_merge(entry, merge)) {
      return place.invalid(fmt::format("entry {} is no pair of tokens", spec.merges.size()));
    }
    spec.merges.push_back(merge);
  }
  return {};
}

Status parse_model(const JsonObject& root, const JsonPlace& root_place, TokenizerSpec& spec) {
  const JsonPlace place = root_place / "model";
  OCTAVO_TRY(const JsonObject model, container_at<JsonObject>(root, "model", root_place));
  // Old files have no type; only BPE has merges.
  OCTAVO_TRY(const std::string_view type, get_or(model, "type", std::string_view("BPE"), place));
  if (type != "BPE") return (place / "type").unsupported(fmt::format("\"{}\"", type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    OCTAVO_TRY(const std::string_view affix, get_or(model, key, std::string_view(), place));
    if (!affix.empty()) return (place / key).unsupported(fmt::format("\"{}\"", affix));
  }
  OCTAVO_TRY(const bool byte_fallback, get_or(model, "byte_fallback", false, place));
  if (byte_fallback) return (place / "byte_fallback").unsupported("true");
  OCTAVO_TRY(const double dropout, get_or(model, "dropout", 0.0, place));
  if (dropout != 0.0) return (place / "dropout").unsupported("dropout");
  OCTAVO_TRY(spec.ignore_merges, get_or(model, "ignore_merges", false, place));
  OCTAVO_TRY(spec.fuse_unk, get_or(model, "fuse_unk", false, place));
  OCTAVO_TRY(const std::string_view unk, get_or(model, "unk_token", std::string_view(), place));
  spec.unk_token = unk;
  OCTAVO_TRY(parse_vocab(model, place, spec));
  return parse_merges(model, place, spec);
}

Status parse_added_tokens(const JsonObject& root, const JsonPlace& root_place,
                          TokenizerSpec& spec) {
  JsonElement given;
  if (!find_member(root, "added_tokens", given)) return {};
  OCTAVO_TRY(const JsonArray list, container_at<JsonArray>(root, "added_tokens", root_place));
  size_t index = 0;
  for (const JsonElement element : list) {
    const JsonPlace place = root_place / fmt::format("added_tokens[{}]", index++);
    JsonObject object;
    JsonElement id;
    if (element.get(object) != simdjson::SUCCESS) return place.invalid("is no object");
    if (!find_member(object, "id", id)) return place.invalid("has no id");
    AddedToken token;
    OCTAVO_TRY(token.id, token_id(id, place / "id"));
    OCTAVO_TRY(const std::string_view content,
               get_or(object, "content", std::string_view(), place));
    token.content = content;
    OCTAVO_TRY(token.special, get_or(object, "special", false, place));
    OCTAVO_TRY(token.normalized, get_or(object, "normalized", !token.special, place));
    OCTAVO_TRY(token.single_word, get_or(object, "single_word", false, place));
    OCTAVO_TRY(token.lstrip, get_or(object, "lstrip", false, place));
    OCTAVO_TRY(token.rstrip, get_or(object, "rstrip", false, place));
    if (!token.content.empty()) spec.added.push_back(std::move(token));
  }
  return {};
}

/// The ids that a template's special token stands for.
Status append_special_ids(const JsonObject& object, std::string_view name, const JsonPlace& place,
                          std::vector<TokenId>& out) {
  OCTAVO_TRY(const JsonObject all, container_at<JsonObject>(object, "special_tokens", place));
  JsonElement element;
  JsonObject token;
  if (!find_member(all, name, element) || element.get(token) != simdjson::SUCCESS) {
    return (place / "special_tokens").invalid(fmt::format("\"{}\" is missing", name));
  }
  OCTAVO_TRY(const JsonArray ids, container_at<JsonArray>(token, "ids", place / "special_tokens"));
  for (const JsonElement entry : ids) {
    OCTAVO_TRY(const TokenId id, token_id(entry, place / "special_tokens"));
    out.push_back(id);
  }
  return {};
}

Status parse_template(const JsonObject& object, const JsonPlace& place, TokenizerSpec& spec) {
  OCTAVO_TRY(const JsonArray pieces, container_at<JsonArray>(object, "single", place));
  bool seen_text = false;
  for (const JsonElement entry : pieces) {
    JsonObject piece, part;
    if (entry.get(piece) != simdjson::SUCCESS)
      return (place / "single").invalid("has a wrong part");
    if (piece.at_key("Sequence").get(part) == simdjson::SUCCESS) {
      if (seen_text) return (place / "single").unsupported("the text twice");
      seen_text = true;
    } else if (piece.at_key("SpecialToken").get(part) == simdjson::SUCCESS) {
      OCTAVO_TRY(const std::string_view name, get_or(part, "id", std::string_view(), place));
      auto& ids = seen_text ? spec.suffix_ids : spec.prefix_ids;
      OCTAVO_TRY(append_special_ids(object, name, place, ids));
    } else {
      return (place / "single").invalid("has a part that is neither Sequence nor SpecialToken");
    }
  }
  if (!seen_text) return (place / "single").invalid("has no Sequence");
  return {};
}

Status parse_post_processor(const JsonElement& element, const JsonPlace& place,
                            TokenizerSpec& spec) {
  return for_each_component(
      element, "processors", place,
      [&](std::string_view type, const JsonObject& object, const JsonPlace& at) -> Status {
        if (type == "ByteLevel") return {};  // only moves offsets
        if (type == "TemplateProcessing") {
          if (!spec.prefix_ids.empty() || !spec.suffix_ids.empty()) {
            return at.unsupported("a second template");
          }
          return parse_template(object, at, spec);
        }
        return at.unsupported(fmt::format("\"{}\"", type));
      });
}

/// A token of tokenizer_config.json: "text" or {"content": "text", ...}.
std::string config_token(const checkpoint::Metadata& config, std::string_view key) {
  const checkpoint::Metadata* token = config.find(key);
  if (token != nullptr && token->is_object()) token = token->find("content");
  const std::string* text = token == nullptr ? nullptr : token->as_string();
  return text == nullptr ? std::string() : *text;
}

/// The ids that the reference library gives tokens added later: the vocabulary's own, else the next
/// free one, whatever the file says.
class LaterIds {
 public:
  explicit LaterIds(const TokenizerSpec& spec) : vocab_(spec.vocab.begin(), spec.vocab.end()) {
    for (const auto& [text, id] : spec.vocab) next_ = std::max(next_, id + 1);
    for (const AddedToken& token : spec.added) next_ = std::max(next_, token.id + 1);
  }
  TokenId take(std::string_view content) {
    const auto found = vocab_.find(content);
    return found == vocab_.end() ? next_++ : found->second;
  }

 private:
  std::unordered_map<std::string_view, TokenId> vocab_;
  TokenId next_ = 0;
};

/// Tokens that are in tokenizer_config.json's added_tokens_decoder only: an object of ids and
/// descriptions. In order of their ids, as the reference library adds them.
Status add_tokens_of_config(const checkpoint::Metadata& config, const JsonPlace& place,
                            TokenizerSpec& spec) {
  const checkpoint::Metadata* listed = config.find("added_tokens_decoder");
  if (listed == nullptr) return {};
  if (!listed->is_object()) return place.invalid("is no object");
  std::map<int64_t, const checkpoint::Metadata*> by_id;
  for (const auto& [key, token] :
       *std::get<std::shared_ptr<checkpoint::MetadataObject>>(listed->value())) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxVocabSize) {
      return place.invalid(fmt::format("\"{}\" is no token id", key));
    }
    by_id[id] = &token;
  }
  std::unordered_set<std::string> known;
  for (const AddedToken& token : spec.added) known.insert(token.content);
  LaterIds ids(spec);
  for (const auto& [id, entry] : by_id) {
    const checkpoint::Metadata* content = entry->find("content");
    const std::string* text = content == nullptr ? nullptr : content->as_string();
    if (text == nullptr) return place.invalid(fmt::format("\"{}\" has no content", id));
    if (text->empty() || !known.insert(*text).second) continue;
    const auto flag = [&, token = entry](std::string_view name, bool otherwise) {
      const checkpoint::Metadata* value = token->find(name);
      return value == nullptr ? otherwise : value->as_bool().value_or(otherwise);
    };
    AddedToken token{.id = ids.take(*text), .content = *text};
    token.special = flag("special", false);
    token.normalized = flag("normalized", !token.special);
    token.single_word = flag("single_word", false);
    token.lstrip = flag("lstrip", false);
    token.rstrip = flag("rstrip", false);
    if (token.id >= kMaxVocabSize) return place.invalid("holds too many tokens");
    spec.added.push_back(std::move(token));
  }
  return {};
}

Status parse_config(std::string_view text, const JsonPlace& place, TokenizerSpec& spec) {
  if (text.empty()) return {};
  // Not simdjson's DOM: the files' usual model_max_length, 10^30, is no number to it.
  OCTAVO_TRY(
      const checkpoint::Metadata config,
      checkpoint::parse_json_metadata(text, fmt::format("{}: {}", place.path, place.component)));
  spec.bos_token = config_token(config, "bos_token");
  spec.eos_token = config_token(config, "eos_token");
  return add_tokens_of_config(config, place / "added_tokens_decoder", spec);
}

Status parse_root(const JsonObject& root, const JsonPlace& place, TokenizerSpec& spec) {
  OCTAVO_TRY(parse_model(root, place, spec));
  OCTAVO_TRY(parse_added_tokens(root, place, spec));
  JsonElement element;
  if (find_member(root, "normalizer", element)) {
    OCTAVO_TRY(spec.normalizer, parse_normalizer(element, place / "normalizer"));
  }
  if (!find_member(root, "pre_tokenizer", element)) {
    return (place / "pre_tokenizer").unsupported("a tokenizer without ByteLevel");
  }
  OCTAVO_TRY(spec.pre_tokenizer, parse_pre_tokenizer(element, place / "pre_tokenizer"));
  if (find_member(root, "post_processor", element)) {
    OCTAVO_TRY(parse_post_processor(element, place / "post_processor", spec));
  }
  if (!find_member(root, "decoder", element)) {
    return (place / "decoder").unsupported("a tokenizer without a ByteLevel decoder");
  }
  return check_decoder(element, place / "decoder");
}

}  // namespace

struct TokenizerJson::Storage {
  simdjson::dom::parser parser;
};

TokenizerJson::TokenizerJson() : storage_(std::make_unique<Storage>()) {}
TokenizerJson::~TokenizerJson() = default;
TokenizerJson::TokenizerJson(TokenizerJson&&) noexcept = default;
TokenizerJson& TokenizerJson::operator=(TokenizerJson&&) noexcept = default;

Result<TokenizerJson> TokenizerJson::parse(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config_json,
                                           std::string_view path) {
  const JsonPlace place{path, ""};
  if (tokenizer_json.size() > kMaxFileBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: tokenizer.json has more than {} bytes", path, kMaxFileBytes)};
  }
  TokenizerJson out;
  JsonObject root;
  const auto error =
      out.storage_->parser.parse(tokenizer_json.data(), tokenizer_json.size()).get(root);
  if (error) return (place / "tokenizer.json").invalid(simdjson::error_message(error));
  OCTAVO_TRY(parse_root(root, place, out.spec));
  OCTAVO_TRY(parse_config(tokenizer_config_json, place / "tokenizer_config.json", out.spec));
  return out;
}

}  // namespace octavo::tokenizer
