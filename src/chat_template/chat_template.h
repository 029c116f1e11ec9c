#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::chat_template {

/// A byte range of the rendered text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

/// Bounds of one rendering. Beyond them it fails with kInvalidArgument.
struct Limits {
  int64_t max_steps = 5'000'000;  // evaluated nodes
  size_t max_output_bytes = 64u << 20;
  int max_depth = 100;  // nesting of expressions, macros, includes
};

struct RenderInput {
  /// Variables of the template: messages, tools, documents, add_generation_prompt, bos_token,
  /// eos_token, and the request's chat_template_kwargs. An object; key order is kept. Strings
  /// inside `untrusted_keys` (default: messages, documents, tools) come from the request.
  const nlohmann::ordered_json* variables = nullptr;
  std::vector<std::string> untrusted_keys = {"messages", "documents", "tools"};
  double now_wall_s = 0.0;              // clock of strftime_now, UTC
  bool continue_final_message = false;  // cut after the last message's text
  Limits limits = {};
};

struct Rendered {
  std::string text;
  /// Ranges whose characters came from request strings (also through trim, replace, slices,
  /// tojson).
  std::vector<Span> untrusted;
  /// Ranges of {% generation %} blocks.
  std::vector<Span> generation;
};

/// A compiled template in the Jinja dialect of Hugging Face: trim_blocks, lstrip_blocks, loop
/// controls, a sandbox without attributes of Python objects. Immutable; any thread.
class ChatTemplate {
 public:
  /// Syntax errors give line and what was expected.
  static Result<ChatTemplate> compile(std::string_view source);

  /// kInvalidArgument with the template's own text when it calls raise_exception.
  Result<Rendered> render(const RenderInput& input) const;

  /// True when the template loops over or indexes content items, so that messages should be passed
  /// as lists of typed parts ("openai" content format).
  bool uses_content_parts() const;
  /// Whether a name occurs in the template (for example "developer", "tools").
  bool mentions(std::string_view text) const;

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace octavo::chat_template
