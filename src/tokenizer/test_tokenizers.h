#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

// Tokenizers for this room's tests.
namespace octavo::tokenizer {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The tokenizer of a tiny kit, tests/golden/<kit>.
inline std::unique_ptr<Tokenizer> kit_tokenizer(const std::string& kit) {
  const std::string folder = OCTAVO_SOURCE_DIR "/tests/golden/" + kit;
  auto tokenizer = Tokenizer::from_json(read_text(folder + "/tokenizer.json"),
                                        read_text(folder + "/tokenizer_config.json"), folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

inline std::string decode_incrementally(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                                        bool skip_special_tokens) {
  IncrementalDecoder decoder(tokenizer, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace octavo::tokenizer
