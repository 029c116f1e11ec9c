#include "chat_template/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat_template/evaluator.h"
#include "chat_template/inspect.h"
#include "chat_template/parser.h"
#include "chat_template/text.h"

namespace octavo::chat_template {

struct ChatTemplate::Program {
  ParsedTemplate parsed;
  std::string source;
  bool uses_parts = false;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

namespace {

using Json = nlohmann::ordered_json;

Error to_error(const Failure& f) {
  if (f.from_template) return Error{Code::kInvalidArgument, f.message};
  std::string where =
      f.line > 0 ? fmt::format("chat template, line {}: ", f.line) : std::string("chat template: ");
  return Error{Code::kInvalidArgument, where + f.message};
}

Value text_value(const std::string& text, bool untrusted) {
  auto s = std::make_shared<StrObj>();
  s->text = text;
  if (untrusted && !text.empty()) s->untrusted.push_back({0, text.size()});
  return Value::object(Type::kString, std::move(s));
}

Value from_json(Meter& meter, const Json& json, bool untrusted, int depth) {
  if (depth > kMaxDataDepth) {
    fail(fmt::format("lists and objects are nested deeper than {} levels", kMaxDataDepth));
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto u = json.get<uint64_t>();
      return u <= INT64_MAX ? Value::integer(static_cast<int64_t>(u))
                            : Value::floating(static_cast<double>(u));
    }
    case Json::value_t::number_float:
      return Value::floating(json.get<double>());
    case Json::value_t::string:
      return text_value(json.get_ref<const std::string&>(), untrusted);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(meter, item, untrusted, depth + 1));
      return make_list(meter, std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(text_value(key, untrusted),
                             from_json(meter, value, untrusted, depth + 1));
      }
      return make_dict(meter, std::move(entries));
    }
    default:
      return Value::none();
  }
}

// Appended to the last message and looked for in what was rendered, as transformers does it: the
// blank at the end shows whether the template trims the message.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The text of the last message, or of its last text part; null when there is none.
std::string* final_text(Json& variables) {
  const auto messages = variables.find("messages");
  if (messages == variables.end() || !messages->is_array() || messages->empty()) return nullptr;
  Json& last = messages->back();
  if (!last.is_object() || !last.contains("content")) return nullptr;
  Json& content = last["content"];
  if (content.is_string()) return content.get_ptr<std::string*>();
  if (!content.is_array()) return nullptr;
  for (auto part = content.rbegin(); part != content.rend(); ++part) {
    if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
      return (*part)["text"].get_ptr<std::string*>();
    }
  }
  return nullptr;
}

void clip(std::vector<Span>& spans, size_t size) {
  for (Span& s : spans) s = {std::min(s.begin, size), std::min(s.end, size)};
  std::erase_if(spans, [](const Span& s) { return s.begin >= s.end; });
}

void cut_behind_final_message(Rendered& out) {
  const std::string_view text = out.text;
  const std::string_view bare = kContinueTag.substr(0, kContinueTag.size() - 1);
  const size_t at = text.rfind(bare);
  if (at == std::string_view::npos) {
    fail(
        "continue_final_message is set but the final message does not appear in the rendered "
        "prompt");
  }
  size_t size = at;
  if (text.substr(at, kContinueTag.size()) != kContinueTag) {
    size = strip_range(text.substr(0, at), nullptr, false, true).end;
  }
  out.text.resize(size);
  clip(out.untrusted, size);
  clip(out.generation, size);
}

Rendered render_program(const ParsedTemplate& parsed, const RenderInput& input,
                        const Json& variables) {
  Evaluator evaluator(parsed, input.limits, input.now_wall_s);
  // What transformers always defines.
  evaluator.define("tools", Value::none());
  evaluator.define("documents", Value::none());
  evaluator.define("add_generation_prompt", Value::boolean(false));
  // Converting the input is bounded by its size, so it has an allowance of its own.
  Limits unbounded;
  unbounded.max_steps = INT64_MAX / 2;
  Meter conversion(unbounded);
  for (const auto& [name, value] : variables.items()) {
    if (parsed.find_name(name) < 0) continue;
    const bool untrusted = std::find(input.untrusted_keys.begin(), input.untrusted_keys.end(),
                                     name) != input.untrusted_keys.end();
    evaluator.define(name, from_json(conversion, value, untrusted, 0));
  }
  Rendered out;
  StrObj text = evaluator.run(out.generation);
  out.text = std::move(text.text);
  out.untrusted = std::move(text.untrusted);
  return out;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  try {
    auto program = std::make_unique<Program>();
    program->source = std::string(source);
    program->parsed = parse(source);
    program->uses_parts = reads_content_parts(program->parsed);
    return ChatTemplate(std::move(program));
  } catch (const Failure& f) {
    return to_error(f);
  }
}

Result<Rendered> ChatTemplate::render(const RenderInput& input) const {
  CHECK(input.variables != nullptr);
  try {
    if (!input.variables->is_object()) fail("the variables are not an object");
    if (!input.continue_final_message) {
      return render_program(program_->parsed, input, *input.variables);
    }
    Json variables = *input.variables;
    std::string* text = final_text(variables);
    if (text == nullptr) {
      fail("continue_final_message is set but the last message has no text to continue");
    }
    text->append(kContinueTag);
    Rendered out = render_program(program_->parsed, input, variables);
    cut_behind_final_message(out);
    return out;
  } catch (const Failure& f) {
    return to_error(f);
  } catch (const nlohmann::json::exception& e) {
    return Error{Code::kInternal, fmt::format("chat template variables: {}", e.what())};
  }
}

bool ChatTemplate::uses_content_parts() const { return program_->uses_parts; }

bool ChatTemplate::mentions(std::string_view text) const {
  return program_->source.find(text) != std::string::npos;
}

}  // namespace octavo::chat_template
