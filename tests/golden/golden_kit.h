#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::golden {

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
