#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "openai/chat_request.h"

namespace octavo::openai {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kMediaParts = std::to_array<std::string_view>(
    {"image_url", "audio_url", "input_audio", "video_url", "image_embeds", "audio_embeds",
     "input_image", "image_pil", "file", "thinking", "tool_reference"});
constexpr int64_t kMaxArgumentDepth = 100;

/// Text of one content part; what is wrong is noted.
std::optional<std::string> parse_part(JsonElement element, const std::string& path,
                                      RequestErrors& errors) {
  if (element.is_string()) return std::string(string_of(element));
  if (!element.is_object()) {
    errors.schema(path, "Input should be a content part", element);
    return std::nullopt;
  }
  const Fields part(object_of(element), path, errors);
  const std::string type = part.string("type").value_or("text");
  if (type == "text" || type == "input_text" || type == "refusal") {
    const std::string_view name = type == "refusal" ? "refusal" : "text";
    auto text = part.string(name);
    if (!text && !part.find(name)) errors.schema(part.path_of(name), "Field required");
    return text;
  }
  for (const std::string_view media : kMediaParts) {
    if (type == media) {
      errors.semantic("messages", fmt::format("Content parts of type {} are not supported: this "
                                              "server takes text only (parameter=messages)",
                                              type));
      return std::nullopt;
    }
  }
  errors.schema_value(part.path_of("type"), "Input should be 'text', 'input_text' or 'refusal'",
                      *part.find("type"));
  return std::nullopt;
}

void parse_content(const Fields& message, frontend::ChatMessage& out) {
  const auto content = message.find("content");
  if (!content) return;
  if (content->is_string()) {
    out.text = std::string(string_of(*content));
    return;
  }
  const auto parts = message.array("content");
  if (!parts) return;
  out.parts.emplace();
  size_t index = 0;
  for (const JsonElement element : *parts) {
    const std::string path = fmt::format("{}.{}", message.path_of("content"), index++);
    if (auto text = parse_part(element, path, message.errors())) {
      out.parts->push_back(std::move(*text));
    }
  }
}

/// The arguments of an earlier call as an object, which is how templates want them; `num_bad`
/// counts those that are none, and which the template sees as {}.
Json parse_arguments(const Fields& function, int64_t& num_bad) {
  const auto given = function.find("arguments");
  if (!given) return Json::object();
  if (given->is_object()) {
    auto value = to_ordered_json(*given, "messages");
    if (value.ok()) return std::move(value).value();
    function.errors().semantic("messages", value.error().message);
    return Json::object();
  }
  const auto text = function.string("arguments");
  if (!text || text->empty()) return Json::object();
  auto parsed = JsonBody::parse(*text, kMaxArgumentDepth);
  if (parsed.ok()) {
    auto value = to_ordered_json(parsed->root(), "messages");
    if (value.ok()) return std::move(value).value();
  }
  ++num_bad;
  return Json::object();
}

frontend::SharedJson parse_tool_calls(const Fields& message, int64_t& num_bad) {
  const auto calls = message.array("tool_calls");
  if (!calls) return nullptr;
  auto out = std::make_shared<Json>(Json::array());
  RequestErrors& errors = message.errors();
  for (const JsonElement element : *calls) {
    const std::string path = fmt::format("{}.{}", message.path_of("tool_calls"), out->size());
    if (!element.is_object()) {
      errors.schema(path, "Input should be an object", element);
      return nullptr;
    }
    const Fields call(object_of(element), path, errors);
    const auto function = call.object("function");
    if (!function) {
      if (!call.find("function")) errors.schema(call.path_of("function"), "Field required");
      return nullptr;
    }
    const Fields inner(*function, call.path_of("function"), errors);
    const auto name = inner.string("name");
    if (!name && !inner.find("name")) errors.schema(inner.path_of("name"), "Field required");
    Json value = Json::object();
    if (const auto id = call.string("id")) value["id"] = *id;
    value["type"] = call.string("type").value_or("function");
    value["function"] =
        Json{{"name", name.value_or("")}, {"arguments", parse_arguments(inner, num_bad)}};
    out->push_back(std::move(value));
  }
  if (out->empty()) return nullptr;
  return out;
}

}  // namespace

std::vector<frontend::ChatMessage> parse_messages(const Fields& fields) {
  std::vector<frontend::ChatMessage> out;
  RequestErrors& errors = fields.errors();
  const auto list = fields.array("messages");
  if (!list) {
    if (!fields.find("messages")) errors.schema(fields.path_of("messages"), "Field required");
    return out;
  }
  size_t index = 0;
  int64_t num_bad = 0;
  for (const JsonElement element : *list) {
    const std::string path = fmt::format("{}.{}", fields.path_of("messages"), index++);
    if (!element.is_object()) {
      errors.schema(path, "Input should be an object", element);
      continue;
    }
    const Fields message(object_of(element), path, errors);
    frontend::ChatMessage parsed;
    const auto role = message.string("role");
    if (!role && !message.find("role")) errors.schema(message.path_of("role"), "Field required");
    parsed.role = role.value_or("");
    parse_content(message, parsed);
    parsed.name = message.string("name");
    parsed.tool_call_id = message.string("tool_call_id");
    parsed.reasoning = message.string("reasoning");
    if (!parsed.reasoning) parsed.reasoning = message.string("reasoning_content");
    parsed.tool_calls = parse_tool_calls(message, num_bad);
    out.push_back(std::move(parsed));
  }
  if (num_bad > 0) {
    log::debug(log::Source::kApiServer,
               "Arguments of {} tool calls in the messages of a request are no JSON objects; the "
               "template sees {{}}",
               num_bad);
  }
  if (index == 0) errors.semantic("messages", "messages must not be empty (parameter=messages)");
  return out;
}

}  // namespace octavo::openai
