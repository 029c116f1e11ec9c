#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/dispatch.h"

namespace octavo::golden {

/// Whether the slow lane runs: everything in every variant.
inline bool all_variants() { return std::getenv("OCTAVO_ALL_VARIANTS") != nullptr; }

/// Runs `test` with the kernels of every ISA this CPU has, or only with the best.
template <class Test>
void for_each_isa(bool every, const Test& test) {
  for (const auto isa : kernels::kIsas) {
    if (!kernels::supports(isa) || (!every && isa != kernels::best_isa())) continue;
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::string(kernels::name_of(isa)));
    CHECK(kernels::set_isa(isa).ok());
    test();
  }
  CHECK(kernels::set_isa(kernels::best_isa()).ok());
}

/// One prompt of an expected.json: what the reference computed (tests/golden/README.md).
struct Prompt {
  std::string name;
  std::vector<int32_t> ids;
  // Logits after the prompt.
  std::vector<int32_t> logit_ids;  // the 20 best, then the kit's sample
  std::vector<double> logits;      // of logit_ids
  double logits_std = 0.0;
  std::vector<double> prompt_logprobs;  // [ids.size()], the first is NaN
  // Greedy continuation.
  std::vector<int32_t> continuation;
  std::vector<double> logprobs;
  std::vector<double> margins;
};

struct Kit {
  std::string name;
  std::vector<Prompt> prompts;
  double bfloat16_rms = 0.0;  // how far the reference itself strays in bfloat16
  int64_t bfloat16_flips = 0;
};

/// Reads tests/golden/<name>/expected.json; throws when it is not as the README says.
Kit read_kit(const std::string& name);

}  // namespace octavo::golden
