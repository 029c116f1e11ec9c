#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tokenizer/tokenizer.h"

// The bytes up to the last NUL (or the first half) are a tokenizer.json, the rest is text. Whatever
// they hold: an error, or a tokenizer that encodes any text and whose two ways of decoding agree.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using octavo::tokenizer::IncrementalDecoder;
  using octavo::tokenizer::TextSpan;
  using octavo::tokenizer::Tokenizer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.rfind('\0');
  const size_t cut = nul == std::string_view::npos ? size / 2 : nul;
  const std::string_view text = bytes.substr(cut);
  const auto tokenizer = Tokenizer::from_json(bytes.substr(0, cut), "", "fuzz");
  if (!tokenizer.ok()) return 0;
  const TextSpan untrusted[] = {{text.size() / 4, text.size() / 2}};
  const auto ids = (*tokenizer)->encode(text, {.untrusted = untrusted, .max_tokens = 10000});
  for (const bool skip : {false, true}) {
    IncrementalDecoder decoder(**tokenizer, skip);
    std::string joined;
    for (const auto id : ids) joined += decoder.push(id);
    joined += decoder.finish();
    if (joined != (*tokenizer)->decode(ids, skip)) std::abort();
  }
  return 0;
}
