#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/tokenizer_spec.h"

namespace octavo::tokenizer {

/// A parsed tokenizer.json; `spec` has views into it. Move only.
class TokenizerJson {
 public:
  /// Errors name `path` and the component that is wrong or not supported.
  static Result<TokenizerJson> parse(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json, std::string_view path);
  ~TokenizerJson();
  TokenizerJson(TokenizerJson&&) noexcept;
  TokenizerJson& operator=(TokenizerJson&&) noexcept;

  TokenizerSpec spec;

 private:
  struct Storage;
  TokenizerJson();
  std::unique_ptr<Storage> storage_;
};

}  // namespace octavo::tokenizer
