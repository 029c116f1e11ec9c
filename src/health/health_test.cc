#include "health/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "health/probe.h"

namespace octavo::health {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

ProbeResult result_of(const std::vector<Verdict>& verdicts, bool timed_out = false) {
  ProbeResult out;
  for (const Verdict verdict : verdicts) {
    Finding& finding = out.findings.emplace_back();
    finding.check = "health";
    finding.verdict = verdict;
    finding.request = "GET /health";
  }
  out.timed_out = timed_out;
  return out;
}

TEST(ExitStatus, OneForAnyFinding) {
  EXPECT_EQ(result_of({}).exit_status(), 0);
  EXPECT_EQ(result_of({Verdict::kPassed, Verdict::kNotOffered}).exit_status(), 0);
  EXPECT_EQ(result_of({Verdict::kPassed, Verdict::kFailed}).exit_status(), 1);
  EXPECT_EQ(result_of({Verdict::kFailed, Verdict::kPassed}).exit_status(), 1);
  EXPECT_EQ(result_of({Verdict::kNotRun}).exit_status(), 1);
}

TEST(ExitStatus, TheTimeoutBeatsOtherFindings) {
  EXPECT_EQ(result_of({Verdict::kFailed, Verdict::kTimedOut}, true).exit_status(), 124);
  EXPECT_EQ(result_of({Verdict::kPassed, Verdict::kNotRun}, true).exit_status(), 124);
}

TEST(Report, SaysTheSameInBothForms) {
  ProbeOptions options;
  options.url = client::parse_url("http://127.0.0.1:8000/base").value();
  options.api_key = "sk-secret";
  options.timeout_s = 2;
  ProbeResult result =
      result_of({Verdict::kPassed, Verdict::kNotOffered, Verdict::kTimedOut}, true);
  result.findings[0].status = 200;
  result.findings[0].latency_ms = 1.23456;
  result.findings[0].data_json = R"({"version":"1"})";
  result.findings[2].detail = "no answer in time";
  const Json json = Json::parse(as_json(options, result));
  EXPECT_EQ(json["format"], "octavo-health/1");
  EXPECT_EQ(json["url"], "http://127.0.0.1:8000/base");
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["exit_status"], 124);
  EXPECT_EQ(json["timed_out"], true);
  EXPECT_EQ(json["checks"][0]["latency_ms"], 1.235);
  EXPECT_EQ(json["checks"][0]["data"]["version"], "1");
  EXPECT_EQ(json["checks"][1]["verdict"], "not_offered");
  EXPECT_TRUE(json["checks"][1]["status"].is_null());  // no answer is no status 0
  EXPECT_FALSE(json["checks"][1].contains("data"));
  const std::string text = as_text(options, result);
  EXPECT_THAT(text, HasSubstr("passed      health   GET /health 200 in 1.2 ms\n"));
  EXPECT_THAT(text, HasSubstr("timed out   health   GET /health: no answer in time\n"));
  EXPECT_THAT(text, HasSubstr("NOT OK: 1 of 3 checks passed"));
  EXPECT_THAT(text, HasSubstr("the 2 s of --timeout are over"));
  EXPECT_THAT(text + json.dump(), Not(HasSubstr("sk-secret")));
}

/// A run of the command; its streams are read back from files.
struct Ended {
  int status = -1;
  std::string out;
  std::string err;
};
Ended run(const std::vector<std::string>& args, const std::string& key = "") {
  const auto rewound = [](std::FILE* file) {
    std::string text(size_t(std::ftell(file)), '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  Host host;
  host.out = std::tmpfile();
  host.err = std::tmpfile();
  host.environment = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "OPENAI_API_KEY" && !key.empty()) return key;
    return std::nullopt;
  };
  Ended out;
  out.status = run_health(args, host);
  out.out = rewound(host.out);
  out.err = rewound(host.err);
  return out;
}

TEST(Health, ACommandLineThatCannotBeReadIsTwo) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--url", "localhost:8000"},
                                               {"--url", "http://127.0.0.1/?a=b"},
                                               {"--check", "nonsense"},
                                               {"--check", ""},
                                               {"--check", "health version"},
                                               {"--timeout", "0"},
                                               {"--timeout", "-1"},
                                               {"--timeout", "inf"},
                                               {"--timeout", "1e6"},
                                               {"--api-key-file", "/no/such/file"},
                                               {"positional"},
                                               {"--nonsense"}}) {
    const Ended done = run(args);
    EXPECT_EQ(done.status, 2) << args.back();
    EXPECT_THAT(done.err, HasSubstr("octavo health: error: ")) << args.back();
    EXPECT_EQ(done.out, "");
  }
}

TEST(Health, AKeyIsBoundedAndNeverQuoted) {
  const std::string path = testing::TempDir() + "octavo_key_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(5000, 'k');
  Ended done = run({"--api-key-file", path});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.err, HasSubstr("more than a key"));
  EXPECT_THAT(done.err, Not(HasSubstr("kkk")));
  std::filesystem::remove(path);
  done = run({}, "sk-secret\nX-Evil: 1");
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.err, HasSubstr("characters that no key has"));
  EXPECT_THAT(done.err, Not(HasSubstr("secret")));
}

TEST(Health, HelpAsksNobody) {
  const Ended done = run({"--help"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.out, HasSubstr("124 --timeout struck"));
}

}  // namespace
}  // namespace octavo::health
