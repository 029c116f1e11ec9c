#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace octavo::bench {

/// One message of a conversation.
struct ChatTurn {
  std::string role;
  std::string text;
};

/// What data sets need of a model: its tokenizer, counted as Hugging Face's library counts it.
struct TextModel {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  int64_t vocab_size = 0;        // without added tokens
  std::vector<int64_t> allowed;  // ids below vocab_size that are not special, ascending
  int64_t num_special_tokens_to_add = 0;
  /// Turns and the generation prompt through the model's chat template; `kwargs` is a JSON object
  /// or empty. Unset: the model has no template.
  std::function<Result<std::string>(const std::vector<ChatTurn>& turns, const std::string& kwargs)>
      render_chat;

  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens) const;
  std::string decode(const std::vector<int64_t>& ids) const;
};

/// Opens the tokenizer (and template) of a model folder or GGUF file.
using TextModelLoader = std::function<Result<TextModel>(const std::string& path)>;

/// `tokenizer_json` and `tokenizer_config_json` are the texts of those files, empty for GGUF: then
/// every id counts and the special ones are those that the tokenizer says.
Result<TextModel> make_text_model(std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                                  std::string_view tokenizer_json,
                                  std::string_view tokenizer_config_json);

}  // namespace octavo::bench
