#include "chat_template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace octavo::chat_template {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Result<Rendered> try_render(std::string_view source, const Json& variables = Json::object(),
                            const Limits& limits = {}) {
  auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) return compiled.error();
  RenderInput input;
  input.variables = &variables;
  input.limits = limits;
  return compiled->render(input);
}

std::string render(std::string_view source, const Json& variables = Json::object()) {
  auto out = try_render(source, variables);
  if (!out.ok()) return "ERROR: " + out.error().message;
  return out->text;
}

/// The rendered text with untrusted ranges in brackets.
std::string marked(std::string_view source, const Json& variables) {
  auto out = try_render(source, variables);
  if (!out.ok()) return "ERROR: " + out.error().message;
  std::string text;
  size_t at = 0;
  for (const Span& s : out->untrusted) {
    EXPECT_LT(s.begin, s.end);
    EXPECT_TRUE(at == 0 || s.begin > at) << "sorted and merged";
    text +=
        out->text.substr(at, s.begin - at) + "[" + out->text.substr(s.begin, s.end - s.begin) + "]";
    at = s.end;
  }
  return text + out->text.substr(at);
}

Json user(const std::string& content) {
  return {{"messages", {{{"role", "user"}, {"content", content}}}}};
}

TEST(UntrustedRanges, CoverContentSpelledLikeSpecialTokens) {
  EXPECT_EQ(marked("{% for m in messages %}<|im_start|>{{ m.role + '\\n' + m.content }}<|im_end|>"
                   "{% endfor %}",
                   user("<|im_end|>")),
            "<|im_start|>[user]\n[<|im_end|>]<|im_end|>");
}

TEST(UntrustedRanges, FollowTextThroughOperations) {
  const Json v = user("  a<s>b  ");
  const auto content = [&](const std::string& rest) { return marked("<{{ " + rest + " }}>", v); };
  const std::string c = "messages[0].content";
  EXPECT_EQ(content(c + " | trim"), "<[a<s>b]>");
  EXPECT_EQ(content(c + ".strip()"), "<[a<s>b]>");
  EXPECT_EQ(content(c + ".replace('<s>', '-')"), "<[  a]-[b  ]>");
  EXPECT_EQ(content(c + " | replace('b', '')"), "<[  a<s>  ]>");
  EXPECT_EQ(content(c + "[2:5]"), "<[a<s]>");
  EXPECT_EQ(content(c + ".strip()[::-1]"), "<[b>s<a]>");
  EXPECT_EQ(content(c + "[3]"), "<[<]>");
  EXPECT_EQ(content(c + " | trim | tojson"), "<\"[a<s>b]\">");
  EXPECT_EQ(content("messages | tojson"),
            "<[{\"[role]\": \"[user]\", \"[content]\": \"[  a<s>b  ]\"}]>");
  EXPECT_EQ(content(c + ".strip().split('<') | join('|')"), "<[a]|[s>b]>");
  EXPECT_EQ(content("'+'.join(" + c + ".split('<'))"), "<[  a]+[s>b  ]>");
  EXPECT_EQ(content(c + " | trim | upper"), "<[A<S>B]>");
  EXPECT_EQ(content(c + ".strip().title()"), "<[A<S>B]>");
  EXPECT_EQ(content("'x' ~ (" + c + " | trim) ~ 'y'"), "<x[a<s>b]y>");
  EXPECT_EQ(content("'%s!' % " + c + ".strip()"), "<[a<s>b]!>");
  EXPECT_EQ(content("'{}!'.format(" + c + ".strip())"), "<[a<s>b]!>");
  EXPECT_EQ(content("[" + c + ".strip()]"), "<['[a<s>b]']>");
  EXPECT_EQ(content(c + ".strip() * 2"), "<[a<s>ba<s>b]>");
  EXPECT_EQ(content(c + " | trim | indent(2, true)"), "<  [a<s>b]>");
  EXPECT_EQ(content(c + " | trim | e"), "<[a&lt;s&gt;b]>");
  EXPECT_EQ(content(c + " | trim | list | last"), "<[b]>");
  EXPECT_EQ(content(c + ".strip().splitlines()[0]"), "<[a<s>b]>");
}

TEST(UntrustedRanges, SurviveMacrosSetBlocksAndNamespaces) {
  EXPECT_EQ(marked("{% macro m(x) %}({{ x }}){% endmacro %}{% set ns = namespace(t='') %}"
                   "{% set ns.t = ns.t + m(messages[0].content) %}"
                   "{% set b %}<{{ ns.t }}>{% endset %}{{ b | replace('(', '[[') }}",
                   user("q")),
            "<[[[q])>");
}

TEST(UntrustedRanges, LeaveTrustedVariablesAlone) {
  Json v = user("c");
  v["bos_token"] = "<s>";
  EXPECT_EQ(marked("{{ bos_token }}{{ messages[0].content }}", v), "<s>[c]");
}

TEST(UntrustedRanges, AreCutWithTheContinuedMessage) {
  const Json v = user("Hello ");
  auto compiled =
      ChatTemplate::compile("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}");
  RenderInput input;
  input.variables = &v;
  input.continue_final_message = true;
  auto out = compiled->render(input);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->text, "<Hello");
  ASSERT_EQ(out->untrusted.size(), 1u);
  EXPECT_EQ(out->untrusted[0].begin, 1u);
  EXPECT_EQ(out->untrusted[0].end, out->text.size());
}

TEST(Undefined, PrintsNothingButHasNoAttributes) {
  EXPECT_EQ(render("<{{ missing }}{{ {}.a }}>"), "<>");
  EXPECT_THAT(render("{{ missing.a }}"), HasSubstr("'missing' is undefined"));
  EXPECT_THAT(render("{{ missing() }}"), HasSubstr("'missing' is undefined"));
  EXPECT_THAT(render("{{ {'a': 1}.b.c }}"), HasSubstr("'dict object' has no attribute 'b'"));
  EXPECT_THAT(render("{{ missing + 'a' }}"), HasSubstr("'missing' is undefined"));
  EXPECT_EQ(render("{% for x in missing %}{% else %}none{% endfor %}"), "none");
}

TEST(Language, RunsWhatTemplatesUse) {
  EXPECT_EQ(render("{% for x in [1, [2, [3]]] recursive %}{{ loop.depth }}:"
                   "{{ x if x is number else loop(x) }} {% endfor %}"),
            "1:1 1:2:2 2:3:3   ");
  EXPECT_EQ(render("{% set j = joiner(', ') %}{% for i in range(3) %}{{ j() }}{{ i }}{% endfor %}"),
            "0, 1, 2");
  EXPECT_EQ(render("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"),
            "aba");
  EXPECT_EQ(render("{{ {'items': 1}['items'] }}{{ {'a': 1}.items() }}"), "1[('a', 1)]");
  EXPECT_EQ(render("{{ 1 if false }}|{{ 3 if 0 else 4 if 0 else 5 }}"), "|5");
  EXPECT_EQ(render("{{ (1,) }}{{ () }}{{ 1, 2 }}"), "(1,)()(1, 2)");
  EXPECT_EQ(render("{{ {'a': {'b': 2}}.a.b }}{{ [[1, 2]][0][1] }}"), "22");
  EXPECT_EQ(render("{{ 'a' in {'a': 1} and 2 not in [1] }}"), "True");
  EXPECT_EQ(render("{{ -2 ** 2 }} {{ 2 ** -1 }} {{ 10 % -3 }} {{ -7.5 // 2 }}"), "4 0.5 -2 -4.0");
  EXPECT_EQ(render("{{ [1,2,3,4][-3:-1] }}{{ [1,2,3][5:] }}{{ 'häß'[1:] }}{{ [1,2,3][::-2] }}"),
            "[2, 3][]äß[3, 1]");
  EXPECT_EQ(render("{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, a=2) }}"),
            "(1,){'a': 2}");
}

TEST(Language, PrintsAndFormatsAsPython) {
  // Expected values from Jinja2 3.1.6 and Python 3.11.
  EXPECT_EQ(render("{{ ' a b  c '.split(none, 1) }}{{ ' a b  c '.rsplit(none, 1) }}"),
            "['a', 'b  c '][' a b', 'c']");
  EXPECT_EQ(render("{{ '%5.2f|%-6s|%06d|%x|%r|%%|%+d|%e|%g' % (3.14159, 'ab', -42, 255, 'q', 5, "
                   "12345.678, 0.0001) }}"),
            " 3.14|ab    |-00042|ff|'q'|%|+5|1.234568e+04|0.0001");
  EXPECT_EQ(render("{{ '{:>4}|{:^6}|{:08.3f}|{:,}|{!r}|{:.2%}|{:+}'.format('a', 'c', 3.14159, "
                   "1234567, 'q', 0.5, 3) }}"),
            "   a|  c   |0003.142|1,234,567|'q'|50.00%|+3");
  EXPECT_EQ(render("{{ 2.5 | round }} {{ 2.675 | round(2) }} {{ 1234 | round(-2) }} "
                   "{{ 12.34 | round(1, 'ceil') }} {{ '0x1f' | int(0, 16) }}"),
            "2.0 2.67 1200 12.4 31");
  EXPECT_EQ(render("{{ [1, [], {}] | tojson(indent=1) }}{{ {1: 2, none: 3} | tojson }}"),
            "[\n 1,\n [],\n {}\n]{\"1\": 2, \"null\": 3}");
}

TEST(Language, CompileErrorsNameTheLine) {
  for (const std::string_view bad : {"{{",
                                     "{% if x %}",
                                     "a\n{{ 1 + }}",
                                     "{% foo %}",
                                     "{% endfor %}",
                                     "{{ 'a }}",
                                     "{{ (1 }}",
                                     "{% include 'x' %}",
                                     "{% import 'x' as y %}",
                                     "{% extends 'x' %}",
                                     "{% for in x %}{% endfor %}",
                                     "{% break %}",
                                     "{% set true = 1 %}",
                                     "{# open",
                                     "{% raw %}",
                                     "{{ 1 }",
                                     "{{ a b }}",
                                     "{{ 99999999999999999999 }}",
                                     "{% set x = %}",
                                     "{{ f(a=1, 2) }}"}) {
    auto compiled = ChatTemplate::compile(bad);
    ASSERT_FALSE(compiled.ok()) << bad;
    EXPECT_THAT(compiled.error().message, HasSubstr("line ")) << bad;
  }
  EXPECT_THAT(ChatTemplate::compile("a\n\n{{ 1 + }}").error().message, HasSubstr("line 3"));
}

TEST(Language, RefusesToChangeData) {
  EXPECT_THAT(render("{{ messages.append(1) }}", user("x")), HasSubstr("must not change"));
  EXPECT_THAT(render("{% set messages.x = 1 %}", user("x")), HasSubstr("non-namespace"));
  EXPECT_EQ(render("{{ ''.__class__ }}{{ {}.__init__ }}"), "");
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string nested(const std::string& open, const std::string& close, int times,
                   const std::string& middle = "1") {
  std::string text;
  for (int i = 0; i < times; ++i) text += open;
  text += middle;
  for (int i = 0; i < times; ++i) text += close;
  return text;
}

TEST(Hostile, DeepSourceIsRefused) {
  constexpr int kDeep = 100'000;
  for (const std::string& source :
       {"{{ " + nested("(", ")", kDeep) + " }}", "{{ " + nested("[", "]", kDeep) + " }}",
        "{{ " + nested("not ", "", kDeep) + " }}", "{{ " + nested("- ", "", kDeep) + " }}",
        "{{ " + nested("{1:", "}", kDeep) + " }}", "{{ " + nested("f(", ")", kDeep) + " }}",
        "{{ " + nested("a[", "]", kDeep) + " }}", nested("{% if 1 %}", "{% endif %}", kDeep),
        nested("{% for x in y %}", "{% endfor %}", kDeep),
        "{{ " + nested("1 if 1 else ", "", kDeep) + " }}",
        "{% set " + nested("(", ")", kDeep, "a") + " = 1 %}",
        nested("{% set a %}", "{% endset %}", kDeep)}) {
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_FALSE(compiled.ok()) << source.substr(0, 40);
    EXPECT_THAT(compiled.error().message, HasSubstr("nested deeper"));
  }
}

TEST(Hostile, LongChainsAreNotNesting) {
  constexpr int kLong = 100'000;
  EXPECT_EQ(render("{{ " + nested("1 + ", "", kLong, "0") + " }}"), "100000");
  EXPECT_EQ(render("{{ 'a'" + nested("", "|trim", kLong, "") + " }}"), "a");
  EXPECT_EQ(render("{{ 1" + nested("", " and 1", kLong, "") + " }}"), "1");
  EXPECT_EQ(render("{% if 0 %}" + nested("{% elif 0 %}", "", kLong, "") + "{% endif %}"), "");
  EXPECT_EQ(render("{{ x" + nested("", ".a", kLong, "") + " }}").substr(0, 6), "ERROR:");
}

TEST(Hostile, EndsQuicklyWithAnError) {
  const std::string doubling = "{% set ns = namespace(x='ab', l=[1]) %}";
  for (const std::string& source : std::vector<std::string>{
           "{{ 'a' * 10**9 }}",
           "{{ 10**9 * 'ab' }}",
           "{{ [1] * 10**9 }}",
           "{% for i in range(10**9) %}{% endfor %}",
           "{{ range(10**18, 0) | list + range(10**9) }}",
           doubling + "{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           doubling + "{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           doubling + "{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           doubling +
               "{% for i in range(100) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}",
           doubling +
               "{% for i in range(100) %}{% set ns.x = ns.x | tojson | tojson %}{% endfor %}",
           doubling +
               "{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
           doubling + "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
                      "{{ ns.l == ns.l | list }}{{ ns.l | tojson }}",
           doubling + "{% set ns.l = [ns] %}{{ ns }}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m(x) %}{{ m(m(x)) }}{% endmacro %}{{ m(1) }}",
           "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}"
           "{% endfor %}{% endfor %}{% endfor %}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '{:1000000000}'.format(1) }}",
           "{{ 'a'.center(10**9) }}",
           "{{ 'a'.zfill(10**9) }}",
           "{{ 'a' | indent(10**9, true) }}",
           "{{ 1 | tojson(indent=10**9) }}",
           "{{ [1] | batch(10**9, 0) | list }}",
           "{{ [1] | slice(10**9) | list }}",
           "{{ 2 ** 10**18 }}",
           "{{ 9223372036854775807 + 1 }}",
           "{{ (-9223372036854775807 - 1) // -1 }}",
           "{{ 1 // 0 }}",
           "{{ 1 % 0 }}",
           "{{ 1.0 / 0 }}",
           "{{ 3 is divisibleby 0 }}"}) {
    bool ok = true;
    const double took = seconds([&] { ok = try_render(source).ok(); });
    EXPECT_FALSE(ok) << source;
    EXPECT_LT(took, 5.0) << source;
  }
}

TEST(Hostile, ChainsOfValuesAreDestroyedWithoutRecursion) {
  for (const std::string body :
       {"{% set ns.x = [ns.x] %}", "{% set ns.x = {'a': ns.x} %}",
        "{% for y in [ns.x] %}{% set ns.x = loop %}{% endfor %}",
        "{% for y in [ns.x] %}{% set ns.x = loop.cycle %}{% endfor %}",
        "{% set ns.x = cycler(ns.x) %}", "{% set ns.x = [ns.x].index %}",
        "{% set ns.x = namespace(p=ns.x) %}",
        "{% set q = ns.x %}{% macro m() %}{% endmacro %}{% set ns.x = m %}",
        "{% set q = ns.x %}{% for y in [1] recursive %}{% set ns.x = loop %}{% endfor %}"}) {
    // The point is to return at all.
    (void)try_render("{% set ns = namespace(x=1) %}{% for i in range(100000) %}" + body +
                     "{% endfor %}");
  }
}

TEST(Hostile, DeepDataIsRefused) {
  Json deep = 1;
  for (int i = 0; i < 500; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(render("{{ messages }}", {{"messages", std::move(deep)}}),
              HasSubstr("nested deeper"));
}

TEST(Hostile, OutputIsLimited) {
  Limits limits;
  limits.max_output_bytes = 1000;
  const auto out =
      try_render("{% for i in range(200) %}123456{% endfor %}", Json::object(), limits);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code, Code::kInvalidArgument);
  EXPECT_THAT(out.error().message, HasSubstr("1000 bytes"));
}

TEST(Hostile, InvalidUtf8DoesNotCrash) {
  for (const std::string bad : {"\xff", "a\xc3", "\xe2\x82", "\xf0\x9f\x99", "\x80\x80\x80"}) {
    Json v = {{"messages", {bad}}};
    render(
        "{{ messages[0] | upper }}{{ messages[0][-1] }}{{ messages[0].strip() }}{{ messages }}"
        "{{ messages | tojson }}{{ messages[0] | list }}{{ messages[0][::-1] }}",
        v);
    (void)ChatTemplate::compile("{{ '" + bad + "' }}" + bad);
  }
}

TEST(Speed, AMegabyteOfContentIsLinear) {
  std::string big;
  while (big.size() < 1'000'000) big += "some <b>text</b> \xc3\xa9 \n";
  Json v = user(big);
  const double took = seconds([&] {
    const auto out = try_render(
        "{% for m in messages %}{% set c = m.content | trim %}{{ '<|im_start|>' + m.role + '\\n' + "
        "c.replace('<b>', '') + '<|im_end|>' }}{{ m | tojson }}{{ c.split('\\n')[-1] }}"
        "{{ c[10:-10] }}{% endfor %}",
        v);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_GT(out->text.size(), 2'000'000u);
  });
  EXPECT_LT(took, 2.0);
}

TEST(ContentParts, AreFoundWhereTheTemplateLoopsOverThem) {
  const auto uses = [](std::string_view source) {
    auto compiled = ChatTemplate::compile(source);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    return compiled->uses_content_parts();
  };
  EXPECT_TRUE(
      uses("{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      uses("{% for m in messages[1:] %}{% set x = m['content'] %}{% for c in x %}{% endfor %}{% "
           "endfor %}"));
  EXPECT_TRUE(
      uses("{% set all = messages %}{% for m in all %}{{ m.content[0].text }}{% endfor %}"));
  EXPECT_TRUE(
      uses("{% macro r(content) %}{% for c in content %}{% endfor %}{% endmacro %}"
           "{% for m in messages %}{{ r(m.content) }}{% endfor %}"));
  EXPECT_TRUE(
      uses("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
           "{% for c in m.content %}{% endfor %}{% endif %}{% endfor %}"));
  EXPECT_FALSE(uses("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(
      uses("{% for m in messages %}{{ m.content[0] }}{{ m.content.split('a')[-1] }}{% endfor %}"));
  EXPECT_FALSE(
      uses("{% for m in messages %}{% for t in m.tool_calls %}{{ t.function.name }}{% endfor %}{% "
           "endfor %}"));
  EXPECT_FALSE(uses("{% for t in tools %}{% for c in t.content %}{% endfor %}{% endfor %}"));
}

TEST(Mentions, FindsNamesAndStrings) {
  auto compiled = ChatTemplate::compile("{% if m.role == 'developer' %}{{ tools }}{% endif %}");
  EXPECT_TRUE(compiled->mentions("developer"));
  EXPECT_TRUE(compiled->mentions("tools"));
  EXPECT_FALSE(compiled->mentions("documents"));
}

}  // namespace
}  // namespace octavo::chat_template
