#include "bench/roofline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace octavo::bench {
namespace {

/// Two steps of one token: 2 ms, of which 1.2 ms reading weights at half the roof.
PhaseTimes decode() {
  PhaseTimes phase{2, 2, 2e-3, {}};
  phase.ops.push_back({"qkv_proj", "int8", 1.2e-3, 0.6e-3, 0.6e-3, 6e6, 12e6});
  phase.ops.push_back({"attention", "bf16", 0.4e-3, 0.1e-3, 0.05e-3, 5e5, 4e6});
  phase.ops.push_back({"norm", "f32", 0.2e-3, 0, 0, 0, 0});
  return phase;
}

TEST(Roofline, LimitsAndSharesOfAPhase) {
  const Machine machine{
      "avx512", 2, {{"L1", 24576, 300, 600}, {"memory", 1 << 30, 10, 20}}, {}, {}};
  StepTimes times;
  times.decode = decode();
  times.gap_seconds = 5e-5;
  const auto json = roofline_json("m", machine, times);
  EXPECT_TRUE(json["phases"]["prefill"].is_null());
  const auto& phase = json["phases"]["decode"];
  EXPECT_DOUBLE_EQ(phase["step_ms"], 1.0);
  EXPECT_DOUBLE_EQ(phase["tokens_per_s"], 1000.0);
  EXPECT_DOUBLE_EQ(phase["limit_step_ms"], 0.35);
  EXPECT_DOUBLE_EQ(phase["share_of_limit"], 0.35);
  EXPECT_EQ(phase["ops"]["qkv_proj"]["bound_by"], "memory");
  EXPECT_DOUBLE_EQ(phase["ops"]["qkv_proj"]["gb_s"], 5.0);
  EXPECT_DOUBLE_EQ(phase["ops"]["qkv_proj"]["share_of_limit"], 0.5);
  EXPECT_EQ(phase["ops"]["attention"]["bound_by"], "bf16");
  EXPECT_TRUE(phase["ops"]["norm"]["limit_step_us"].is_null());
  EXPECT_DOUBLE_EQ(json["between_steps_us"], 50.0);
  EXPECT_EQ(json["machine"]["levels"].size(), 2u);
}

TEST(Roofline, TheTableNamesWhatBindsAndWhatIsLeft) {
  const std::string table = format_phase("decode", decode());
  EXPECT_NE(table.find("decode: 2 steps of 1.0 tokens; 1.000 ms a step, 1000 tokens/s; limit 0.350 "
                       "ms, 2857 tokens/s: 35 % reached"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("50 %  memory"), std::string::npos);
  EXPECT_NE(table.find("25 %  bf16"), std::string::npos);
  EXPECT_NE(table.find("rest                100.0  10.0 %"), std::string::npos) << table;
}

TEST(Roofline, NothingIsDividedByNothing) {
  EXPECT_EQ(format_phase("prefill", {}), "");
  const std::string table = format_phase("decode", PhaseTimes{1, 1, 0, {{"norm", "f32"}}});
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  EXPECT_EQ(table.find("inf"), std::string::npos) << table;
  // A machine without these instructions has no such row.
  EXPECT_EQ(format_machine({"generic", 1, {}, {1, 1, 0, 0}, {1, 1, 0, 0}}).find("int8"),
            std::string::npos);
}

}  // namespace
}  // namespace octavo::bench
