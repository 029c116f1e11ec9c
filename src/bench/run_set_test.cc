#include "bench/run_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/json_file.h"
#include "bench/test_records.h"

namespace octavo::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::string& path) {
  const auto runs = load_runs(path);
  return runs.ok() ? "" : runs.error().message;
}

/// The error for a result whose record has been changed.
std::string error_with(const std::function<void(Json&)>& change) {
  const RunFolder folder;
  Json record = make_record(10, 100);
  const std::string path = folder.write_run("r", record);
  change(record);
  folder.write("r.record.json", record.dump());
  const std::string error = error_of(path);
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(RunSet, LoadsAResultARecordAndAFolder) {
  const RunFolder folder;
  const std::string path = folder.write_run("b", make_record(10, 100));
  folder.write_run("a", make_record(20, 50));
  folder.write("a.pytorch.json", "[]");
  folder.write("a.record.md", "#");
  const auto one = load_runs(path);
  ASSERT_TRUE(one.ok()) << one.error().message;
  ASSERT_EQ(one->runs.size(), 1u);
  EXPECT_EQ(one->runs[0].number("results.output_throughput"), 10);
  EXPECT_EQ(one->runs[0].fields.at("load.request_rate"), "\"inf\"");
  EXPECT_FALSE(one->runs[0].number("results.nothing").has_value());
  const auto record = load_runs(folder.path() + "/b.record.json");
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->runs[0].fields, one->runs[0].fields);
  const auto both = load_runs(folder.path());
  ASSERT_TRUE(both.ok()) << both.error().message;
  ASSERT_EQ(both->runs.size(), 2u);
  EXPECT_EQ(both->runs[0].number("results.output_throughput"), 20);  // by name
}

TEST(RunSet, LoadsAppendedResults) {
  const RunFolder folder;
  const Json a = make_record(10, 100);
  const Json b = make_record(20, 100);
  folder.write("r.record.json", a.dump() + "\n" + b.dump());
  const std::string path =
      folder.write("r.json", a["results"].dump() + "\n" + b["results"].dump() + "\n");
  const auto runs = load_runs(path);
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  ASSERT_EQ(runs->runs.size(), 2u);
  EXPECT_THAT(runs->runs[1].name, HasSubstr("line 2"));
  EXPECT_EQ(runs->runs[1].number("results.output_throughput"), 20);
  folder.write("r.json", a["results"].dump());
  EXPECT_THAT(error_of(path), HasSubstr("1 results, but 2 records"));
}

TEST(RunSet, ARunWithoutItsRecordIsRefused) {
  const RunFolder folder;
  const std::string path = folder.write("x.json", make_record(1, 1)["results"].dump());
  EXPECT_THAT(error_of(path), AllOf(HasSubstr("x.json"), HasSubstr("no record of the run"),
                                    HasSubstr("x.record.json")));
  Json other = make_record(1, 1);
  other["results"]["date"] = "20260102-000000";
  folder.write("x.record.json", other.dump());
  EXPECT_THAT(error_of(path), HasSubstr("is of another run: field 'date'"));
  EXPECT_THAT(error_of(folder.path() + "/none.json"), HasSubstr("no such file"));
  const RunFolder empty;
  EXPECT_THAT(error_of(empty.path()), HasSubstr("no result files"));
}

TEST(RunSet, FieldsThatAreMissingOrOfAnotherTypeAreNamed) {
  EXPECT_EQ(error_with([](Json&) {}), "");
  EXPECT_THAT(error_with([](Json& r) { r["format"] = "x/2"; }), HasSubstr("'format'"));
  EXPECT_THAT(error_with([](Json& r) { r.erase("load"); }), HasSubstr("'load' is missing"));
  EXPECT_THAT(error_with([](Json& r) { r["dataset"] = 3; }), HasSubstr("'dataset' is no object"));
  EXPECT_THAT(error_with([](Json& r) { r["server"] = nullptr; }), HasSubstr("did not answer"));
  EXPECT_THAT(error_with([](Json& r) { r["results"] = Json::array(); }), HasSubstr("'results'"));
  EXPECT_THAT(error_with([](Json& r) { r["results"]["duration"] = "5"; }),
              HasSubstr("'results.duration'"));
  EXPECT_THAT(error_with([](Json& r) { r["results"]["mean_ttft_ms"] = "fast"; }),
              HasSubstr("'results.mean_ttft_ms'"));
  EXPECT_THAT(error_with([](Json& r) {
                r["results"]["output_throughput"] = {1, 2};
              }),
              HasSubstr("results.output_throughput"));
  EXPECT_THAT(error_with([](Json& r) { r["results"]["failed"] = -1; }),
              HasSubstr("'results.failed'"));
  EXPECT_THAT(error_with([](Json& r) { r["results"]["failed"] = 1e300; }),
              HasSubstr("'results.failed'"));
  EXPECT_THAT(error_with([](Json& r) { r["session"] = {{"id", 3}}; }), HasSubstr("'session'"));
}

TEST(JsonFile, WhatIsNoJsonIsNamedByFileAndField) {
  const RunFolder folder;
  const auto error = [&](const std::string& text, const JsonFileBounds& bounds = {}) {
    const auto read = read_json_objects(folder.write("f.json", text), bounds);
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(error("{\"a\": [1, {}], \"b\": null}"), "");
  EXPECT_THAT(error("{\"a\": 1, \"mean_ttft_ms\": NaN}"),
              AllOf(HasSubstr("f.json"), HasSubstr("after field 'mean_ttft_ms'")));
  EXPECT_THAT(error("{\"x\": 1e999}"), HasSubstr("field 'x' is out of range"));
  EXPECT_THAT(error("{\"x\": \"\xff\"}"), HasSubstr("after field 'x'"));
  EXPECT_THAT(error("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(""), HasSubstr("no JSON at byte"));
  EXPECT_THAT(error("{\"a\": {\"b\": "), HasSubstr("after field 'b'"));
  EXPECT_THAT(error("{\"a\": 1}\n{\"b\": NaN}"), HasSubstr("line 2"));
  EXPECT_THAT(error("{\"a\": 1}", {.max_bytes = 4}), HasSubstr("at most 4"));
  EXPECT_THAT(error("{}\n{}\n{}", {.max_objects = 2}), HasSubstr("at most 2 objects"));
  std::string deep = "{\"d\": ";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  EXPECT_THAT(error(deep), HasSubstr("byte"));
  for (int i = 0; i < 100'000; ++i) deep += ']';
  EXPECT_THAT(error(deep + "}"), HasSubstr("'d' lies deeper than 64 levels"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"o\":";
  objects += '1';
  for (int i = 0; i < 100'000; ++i) objects += '}';
  EXPECT_THAT(error(objects), HasSubstr("'o' lies deeper than 64 levels"));
}

TEST(JsonFile, ListsCanBeDiscarded) {
  const RunFolder folder;
  const auto read = read_json_objects(folder.write("f.json", "{\"a\": [1, [2]], \"b\": 3}"),
                                      {.keeps_lists = false});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->at(0)["b"], 3);
  EXPECT_TRUE(read->at(0)["a"].is_discarded());
}

}  // namespace
}  // namespace octavo::bench
