#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chat_template/chat_template.h"
#include "chat_template/text.h"

namespace octavo::chat_template {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> load_cases() {
  std::ifstream in(OCTAVO_SOURCE_DIR "/tests/golden/chat_template/cases.json");
  Json file = Json::parse(in);
  return file["cases"].get<std::vector<Json>>();
}

double wall_seconds(const std::string& iso) {
  std::tm t{};
  EXPECT_NE(strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &t), nullptr);
  return static_cast<double>(timegm(&t));
}

Json spans_in_chars(const Rendered& out) {
  Json spans = Json::array();
  for (const Span& s : out.generation) {
    const std::string_view text = out.text;
    spans.push_back({count_chars(text.substr(0, s.begin)), count_chars(text.substr(0, s.end))});
  }
  return spans;
}

class GoldenTemplate : public testing::TestWithParam<Json> {};

TEST_P(GoldenTemplate, RendersAsTheReference) {
  const Json& c = GetParam();
  Json variables = c.value("kwargs", Json::object());
  RenderInput input;
  input.continue_final_message = variables.value("continue_final_message", false);
  for (const char* key : {"messages", "tools", "documents"}) {
    if (c.contains(key)) variables[key] = c[key];
  }
  input.variables = &variables;
  if (c.contains("now")) input.now_wall_s = wall_seconds(c["now"]);
  auto compiled = ChatTemplate::compile(c["template"].get<std::string>());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  auto out = compiled->render(input);
  const Json& expected = c["expected"];
  if (expected.contains("error")) {
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, Code::kInvalidArgument);
    if (expected["error_type"] == "TemplateError") {
      EXPECT_EQ(out.error().message, expected["error"].get<std::string>());
    }
    return;
  }
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->text, expected["rendered"].get<std::string>());
  if (expected.contains("spans")) {
    EXPECT_EQ(spans_in_chars(*out), expected["spans"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTemplate, testing::ValuesIn(load_cases()),
                         [](const auto& info) {
                           std::string name = info.param["name"];
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace octavo::chat_template
