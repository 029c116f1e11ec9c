#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "chat_template/chat_template.h"

// The input is a template; it is rendered with fixed messages. It must not crash, leak or hang, and
// the ranges it reports must be sorted and inside the text.

namespace {

const nlohmann::ordered_json& variables() {
  static const auto kVariables = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "  Be brief. <|im_end|> "},
      {"role": "user", "content": [{"type": "text", "text": "hé 🙂\n"}, {"type": "image"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function":
        {"name": "f", "arguments": {"a": [1, 2.5, true, null], "items": {"k": "v"}}}}]},
      {"role": "tool", "content": "42"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true})");
  return kVariables;
}

void check_spans(const std::vector<octavo::chat_template::Span>& spans, size_t size) {
  size_t at = 0;
  for (const auto& s : spans) {
    if (s.begin < at || s.end <= s.begin || s.end > size) __builtin_trap();
    at = s.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  auto compiled = octavo::chat_template::ChatTemplate::compile(source);
  if (!compiled.ok()) return 0;
  (void)compiled->uses_content_parts();
  octavo::chat_template::RenderInput input;
  input.variables = &variables();
  input.limits = {.max_steps = 20'000, .max_output_bytes = 1u << 20, .max_depth = 50};
  auto out = compiled->render(input);
  if (out.ok()) check_spans(out->untrusted, out->text.size());
  input.continue_final_message = true;
  out = compiled->render(input);
  if (out.ok()) check_spans(out->untrusted, out->text.size());
  return 0;
}
