#pragma once

// Checkpoints in memory with all weights of a tiny decoder, for the tests of this room.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/models.h"
#include "model/test_checkpoint.h"

namespace octavo::model {

inline constexpr int64_t kTestVocab = 40, kTestHidden = 32, kTestIntermediate = 64, kTestLayers = 3,
                         kTestHeads = 4, kTestKvHeads = 2, kTestHeadDim = 8;

inline std::string test_hf_config(const std::string& architecture, const std::string& extra = "") {
  return fmt::format(R"({{"architectures": ["{}"], "vocab_size": 40, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256{}{}}})",
                     architecture, extra.empty() ? "" : ", ", extra);
}

inline std::string test_gguf_config(const std::string& arch) {
  return fmt::format(R"({{"general.architecture": "{0}", "{0}.block_count": 3,
    "{0}.context_length": 256, "{0}.embedding_length": 32, "{0}.feed_forward_length": 64,
    "{0}.attention.head_count": 4, "{0}.attention.head_count_kv": 2,
    "{0}.attention.layer_norm_rms_epsilon": 1e-6}})",
                     arch);
}

/// Values that depend on the place in the model, not on the file's spelling.
inline std::vector<float> test_values(uint64_t seed, int64_t count, float width, float around) {
  SplitMix64 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = around + (random.uniform() - 0.5f) * width;
  return values;
}

/// Rows of each head in GGUF's order: pairs side by side.
inline std::vector<float> interleave_rope(const std::vector<float>& rows, int64_t num_cols) {
  std::vector<float> result(rows.size());
  const int64_t num_rows = int64_t(rows.size()) / num_cols;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t head = row / kTestHeadDim, in_head = row % kTestHeadDim;
    const int64_t half = in_head / (kTestHeadDim / 2), pair = in_head % (kTestHeadDim / 2);
    const int64_t to = head * kTestHeadDim + 2 * pair + half;
    std::copy_n(rows.begin() + row * num_cols, num_cols, result.begin() + to * num_cols);
  }
  return result;
}

/// Adds every weight that `architecture` names, with biases of the targets in `biased`.
inline void add_test_weights(TestCheckpoint& checkpoint, const Architecture& architecture,
                             const std::vector<Target>& biased, bool tied) {
  const auto num_rows = [](const WeightName& row) -> int64_t {
    switch (row.target) {
      case Target::kEmbedding:
      case Target::kLmHead:
        return kTestVocab;
      case Target::kQkvProj:
        return (row.part == 0 ? kTestHeads : kTestKvHeads) * kTestHeadDim;
      case Target::kGateUpProj:
        return kTestIntermediate;
      case Target::kQNorm:
      case Target::kKNorm:
        return kTestHeadDim;
      default:
        return kTestHidden;
    }
  };
  const auto is_norm = [](Target target) {
    return target == Target::kFinalNorm || target == Target::kAttentionNorm ||
           target == Target::kMlpNorm || target == Target::kQNorm || target == Target::kKNorm;
  };
  for (int64_t layer = 0; layer < kTestLayers; ++layer) {
    for (const WeightName& row : architecture.weight_names) {
      std::string name(checkpoint.is_gguf() ? row.gguf : row.hf);
      const size_t at = name.find("{}");
      if (at == std::string::npos && layer > 0) continue;
      if (at != std::string::npos) {
        name = fmt::format("{}{}{}", name.substr(0, at), layer, name.substr(at + 2));
      }
      if (row.target == Target::kLmHead && tied) continue;
      const uint64_t seed = uint64_t(layer) * 1000 + uint64_t(row.target) * 10 + uint64_t(row.part);
      const int64_t rows = num_rows(row);
      if (is_norm(row.target)) {
        checkpoint.add(name + ".weight", {rows}, test_values(seed, rows, 0.5f, 1.0f));
        continue;
      }
      const int64_t cols = row.target == Target::kDownProj ? kTestIntermediate : kTestHidden;
      std::vector<float> weight = test_values(seed, rows * cols, 0.4f, 0.0f);
      std::vector<float> bias = test_values(seed + 7, rows, 0.4f, 0.0f);
      if (checkpoint.is_gguf() && architecture.gguf_interleaves_rope &&
          row.target == Target::kQkvProj && row.part < 2) {
        weight = interleave_rope(weight, cols);
        bias = interleave_rope(bias, 1);
      }
      checkpoint.add(name + ".weight", {rows, cols}, std::move(weight));
      if (std::find(biased.begin(), biased.end(), row.target) != biased.end()) {
        checkpoint.add(name + ".bias", {rows}, std::move(bias));
      }
    }
  }
}

}  // namespace octavo::model
