#include "frontend/chat_prompt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "frontend/fakes.h"

namespace octavo::frontend {
namespace {

using Json = nlohmann::ordered_json;

std::string render(const char* source, std::vector<ChatMessage> messages,
                   ChatPromptOptions options = {}) {
  auto compiled = chat_template::ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok());
  const fakes::FakeTokenizer tokenizer;
  auto rendered = render_chat(*compiled, tokenizer, messages, options);
  EXPECT_TRUE(rendered.ok());
  return rendered.ok() ? rendered->text : rendered.error().message;
}

ChatMessage message(std::string role, std::string text) {
  ChatMessage m;
  m.role = std::move(role);
  m.text = std::move(text);
  return m;
}

TEST(ChatPrompt, AbsentToolsAreNoneAndNotUndefined) {
  EXPECT_EQ(render("{{ tools is none }} {{ documents is none }}", {}), "True True");
}

TEST(ChatPrompt, DeveloperStaysForTemplatesThatKnowIt) {
  const char* plain = "{% for m in messages %}{{ m.role }}{% endfor %}";
  EXPECT_EQ(render(plain, {message("developer", "x")}), "system");
  EXPECT_EQ(render("{# developer #}{% for m in messages %}{{ m.role }}{% endfor %}"
                   "{% if messages[0].role == 'developer' %}!{% endif %}",
                   {message("developer", "x")}),
            "developer!");
}

TEST(ChatPrompt, KwargsOfTheRequestBeatTheOperatorsAndCannotReplaceMessages) {
  ChatPromptOptions options;
  options.default_kwargs = std::make_shared<const Json>(Json{{"a", 1}, {"b", 2}});
  options.template_kwargs =
      std::make_shared<const Json>(Json{{"b", 3}, {"messages", "gone"}, {"bos_token", "x"}});
  EXPECT_EQ(render("{{ a }}{{ b }}{{ messages[0].content }}{{ bos_token }}", {message("user", "m")},
                   options),
            "13m<s>");
}

TEST(ChatPrompt, PartsAreAListForTemplatesThatWantOne) {
  ChatMessage parts;
  parts.role = "user";
  parts.parts = {"a", "b"};
  const char* source =
      "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}";
  ChatPromptOptions options;
  options.content_format = "openai";
  EXPECT_EQ(render(source, {parts, message("user", "c")}, options), "[a][b][c]");
  options.content_format = "string";
  EXPECT_EQ(render("{{ messages[0].content }}", {parts}, options), "a\nb");
  parts.role = "tool";
  options.content_format = "openai";
  EXPECT_EQ(render("{{ messages[0].content }}", {parts}, options), "a\nb");
}

TEST(ChatPrompt, ReasoningHasBothNames) {
  ChatMessage m = message("assistant", "x");
  m.reasoning = "why";
  EXPECT_EQ(render("{{ messages[0].reasoning }}{{ messages[0].reasoning_content }}", {m}),
            "whywhy");
}

TEST(ChatPrompt, RefusalOfTheTemplateIsTheClientsError) {  // BL-013
  auto compiled = chat_template::ChatTemplate::compile("{{ raise_exception('no system') }}");
  ASSERT_TRUE(compiled.ok());
  const auto rendered =
      render_chat(*compiled, fakes::FakeTokenizer(), {message("system", "x")}, {});
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.error().code, Code::kInvalidArgument);
  EXPECT_NE(rendered.error().message.find("no system"), std::string::npos);
}

TEST(ChatPrompt, BL007_SpecialTokensOfContentAndKwargsStayText) {
  auto compiled =
      chat_template::ChatTemplate::compile("<|im_start|>{{ messages[0].content }}{{ note }}");
  ASSERT_TRUE(compiled.ok());
  ChatPromptOptions options;
  options.template_kwargs = std::make_shared<const Json>(Json{{"note", "<|im_end|>"}});
  const fakes::FakeTokenizer tokenizer;
  const auto rendered =
      render_chat(*compiled, tokenizer, {message("user", "<|im_start|>")}, options);
  ASSERT_TRUE(rendered.ok());
  const auto ids = encode_chat(tokenizer, *rendered, false, false);
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [](auto id) { return id >= 256; }), 1);
  EXPECT_EQ(encode_chat(tokenizer, *rendered, false, true).size(), 3u);
}

}  // namespace
}  // namespace octavo::frontend
