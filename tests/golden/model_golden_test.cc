#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "device/memory.h"
#include "device/thread_pool.h"
#include "golden_kit.h"
#include "model/model.h"

// The model alone, without engine: logits, logprobs and greedy paths against the reference, and bit
// for bit the same whatever the batch (promise P1).

namespace octavo::golden {
namespace {

/// A sequence and its blocks, as a scheduler would keep them.
struct Sequence {
  std::vector<int32_t> tokens;
  int64_t num_computed = 0;
  std::vector<int32_t> blocks;
};

/// Some tokens of one sequence in a step.
struct Chunk {
  Sequence* sequence;
  int64_t num_tokens;
};

/// Drives a Model without an engine: hands out blocks in shuffled order, builds batches.
class ModelRunner {
 public:
  static constexpr int64_t kBlockSize = 16;

  ModelRunner(const std::string& path, model::DTypeChoice dtype, int num_threads = 1);

  const model::ModelInfo& info() const { return model_->info(); }

  /// Runs the next tokens of each sequence in one step. `all_rows`: logits of every token, else of
  /// the last of each chunk. Returns [num_rows, vocab_size].
  std::vector<float> step(const std::vector<Chunk>& chunks, bool all_rows);
  /// Returns a sequence's blocks, in an order that shuffles later ones.
  void release(Sequence& sequence);

 private:
  device::ThreadPool pool_;
  device::Workspace workspace_;
  kernels::KernelContext ctx_{pool_, workspace_};
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<model::Model> model_;
  std::vector<int32_t> free_blocks_;
};

ModelRunner::ModelRunner(const std::string& path, model::DTypeChoice dtype, int num_threads)
    : pool_(num_threads) {
  constexpr int64_t kMaxTokens = 2048, kMaxSeqs = 16, kMaxModelLen = 2048;
  constexpr int32_t kNumBlocks = 512;
  checkpoint_ = checkpoint::Checkpoint::open(path, checkpoint::LoadFormat::kAuto).value();
  model_ = model::Model::load(*checkpoint_, {.dtype = dtype}, ctx_).value();
  model_->allocate_kv(kNumBlocks, kBlockSize).value();
  model_->reserve(ctx_, kMaxTokens, kMaxSeqs, kMaxTokens, kMaxModelLen).value();
  for (int32_t block = 0; block < kNumBlocks; ++block) free_blocks_.push_back(block);
  SplitMix64 random(20261130);
  for (size_t i = free_blocks_.size() - 1; i > 0; --i) {
    std::swap(free_blocks_[i], free_blocks_[random.below(i + 1)]);
  }
}

std::vector<float> ModelRunner::step(const std::vector<Chunk>& chunks, bool all_rows) {
  model::ForwardBatch batch;
  batch.query_start_loc.push_back(0);
  for (const auto& [sequence, num_tokens] : chunks) {
    const int64_t seq_len = sequence->num_computed + num_tokens;
    while (int64_t(sequence->blocks.size()) * kBlockSize < seq_len) {
      sequence->blocks.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
    for (int64_t position = sequence->num_computed; position < seq_len; ++position) {
      batch.token_ids.push_back(sequence->tokens.at(size_t(position)));
      batch.positions.push_back(int32_t(position));
      batch.slot_mapping.push_back(int64_t(sequence->blocks[size_t(position / kBlockSize)]) *
                                       kBlockSize +
                                   position % kBlockSize);
      if (all_rows || position + 1 == seq_len) {
        batch.logits_rows.push_back(int32_t(batch.token_ids.size()) - 1);
      }
    }
    batch.query_start_loc.push_back(int32_t(batch.token_ids.size()));
    batch.seq_lens.push_back(int32_t(seq_len));
    batch.max_blocks_per_seq = std::max(batch.max_blocks_per_seq, int64_t(sequence->blocks.size()));
    sequence->num_computed = seq_len;
  }
  for (const Chunk& chunk : chunks) {
    std::vector<int32_t> table = chunk.sequence->blocks;
    table.resize(size_t(batch.max_blocks_per_seq), -1);
    batch.block_tables.insert(batch.block_tables.end(), table.begin(), table.end());
  }
  std::vector<float> logits(batch.logits_rows.size() * size_t(info().vocab_size));
  model_->forward(ctx_, batch, logits, {}).value();
  return logits;
}

void ModelRunner::release(Sequence& sequence) {
  free_blocks_.insert(free_blocks_.end(), sequence.blocks.begin(), sequence.blocks.end());
  sequence.blocks.clear();
  sequence.num_computed = 0;
}

/// README.md, table of tolerances.
struct Tolerance {
  double rms;
  double logit;
  bool is_exact;  // every logprob, and the path itself
  int64_t max_flipped_prompts;
};

Tolerance float32_tolerance(bool is_real) { return {is_real ? 1e-4 : 2e-5, 2e-4, true, 0}; }

Tolerance bfloat16_tolerance(const Kit& kit) {
  return {std::max(0.03, 2 * kit.bfloat16_rms), std::max(0.16, 10 * kit.bfloat16_rms), false,
          2 + kit.bfloat16_flips};
}

/// All logits of prompt and continuation of one prompt, the reference's tokens fed in.
using Logits = std::vector<float>;  // [num_tokens, vocab_size]

Sequence forced(const Prompt& prompt) {
  Sequence sequence;
  sequence.tokens = prompt.ids;
  // The last token of the continuation is not fed: nothing is expected behind it.
  sequence.tokens.insert(sequence.tokens.end(), prompt.continuation.begin(),
                         prompt.continuation.end() - 1);
  return sequence;
}

/// One prompt by itself, `chunk` tokens a step.
Logits run_alone(ModelRunner& runner, const Prompt& prompt, int64_t chunk) {
  Sequence sequence = forced(prompt);
  const int64_t total = int64_t(sequence.tokens.size());
  Logits all;
  while (sequence.num_computed < total) {
    const int64_t num_tokens = std::min(chunk, total - sequence.num_computed);
    const Logits part = runner.step({{&sequence, num_tokens}}, true);
    all.insert(all.end(), part.begin(), part.end());
  }
  runner.release(sequence);
  return all;
}

/// All prompts together, at most `chunk` tokens of each a step.
std::vector<Logits> run_together(ModelRunner& runner, const Kit& kit, int64_t chunk) {
  const size_t vocab_size = size_t(runner.info().vocab_size);
  std::vector<Sequence> sequences;
  for (const Prompt& prompt : kit.prompts) sequences.push_back(forced(prompt));
  std::vector<Logits> all(kit.prompts.size());
  for (;;) {
    std::vector<Chunk> chunks;
    std::vector<size_t> owners;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int64_t left = int64_t(sequences[i].tokens.size()) - sequences[i].num_computed;
      if (left == 0) continue;
      chunks.push_back({&sequences[i], std::min(chunk, left)});
      owners.push_back(i);
    }
    if (chunks.empty()) break;
    const Logits part = runner.step(chunks, true);
    auto from = part.begin();
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto to = from + std::ptrdiff_t(size_t(chunks[i].num_tokens) * vocab_size);
      all[owners[i]].insert(all[owners[i]].end(), from, to);
      from = to;
    }
  }
  for (Sequence& sequence : sequences) runner.release(sequence);
  return all;
}

/// Greedy decoding of all prompts together, logits of last rows only.
std::vector<std::vector<int32_t>> run_greedy(ModelRunner& runner, const Kit& kit) {
  const int64_t vocab_size = runner.info().vocab_size;
  std::vector<Sequence> sequences;
  std::vector<Chunk> chunks;
  for (const Prompt& prompt : kit.prompts) sequences.push_back({prompt.ids, 0, {}});
  for (Sequence& sequence : sequences) chunks.push_back({&sequence, 0});
  std::vector<std::vector<int32_t>> paths(sequences.size());
  for (size_t step = 0; step < kit.prompts.front().continuation.size(); ++step) {
    for (Chunk& chunk : chunks) {
      chunk.num_tokens = int64_t(chunk.sequence->tokens.size()) - chunk.sequence->num_computed;
    }
    const Logits logits = runner.step(chunks, false);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const float* row = logits.data() + int64_t(i) * vocab_size;
      const int32_t best = int32_t(std::max_element(row, row + vocab_size) - row);
      paths[i].push_back(best);
      sequences[i].tokens.push_back(best);
    }
  }
  for (Sequence& sequence : sequences) runner.release(sequence);
  return paths;
}

double logprob(const float* row, int64_t vocab_size, int32_t id) {
  const double most = *std::max_element(row, row + vocab_size);
  double sum = 0.0;
  for (int64_t i = 0; i < vocab_size; ++i) sum += std::exp(row[i] - most);
  return row[id] - most - std::log(sum);
}

struct Differences {
  double sum_squares = 0.0;
  double logit_max = 0.0;
  int64_t num_logits = 0;
  double logprob_max = 0.0;
  int64_t num_logprobs = 0;
  int64_t num_logprobs_off = 0;

  void add_logit(double difference) {
    sum_squares += difference * difference;
    logit_max = std::max(logit_max, std::abs(difference));
    ++num_logits;
  }
  void add_logprob(double difference, double limit) {
    logprob_max = std::max(logprob_max, std::abs(difference));
    ++num_logprobs;
    // Not "> limit": a NaN must count.
    if (!(std::abs(difference) <= limit)) ++num_logprobs_off;
  }
  double rms() const { return std::sqrt(sum_squares / double(num_logits)); }
};

void compare(const Prompt& prompt, const Logits& logits, int64_t vocab_size, double logprob_limit,
             Differences& differences) {
  const int64_t length = int64_t(prompt.ids.size());
  const auto row = [&](int64_t i) { return logits.data() + i * vocab_size; };
  for (size_t i = 0; i < prompt.logit_ids.size(); ++i) {
    differences.add_logit(row(length - 1)[prompt.logit_ids[i]] - prompt.logits[i]);
  }
  for (int64_t i = 1; i < length; ++i) {
    const double got = logprob(row(i - 1), vocab_size, prompt.ids[size_t(i)]);
    differences.add_logprob(got - prompt.prompt_logprobs[size_t(i)], logprob_limit);
  }
  for (size_t i = 0; i < prompt.continuation.size(); ++i) {
    const double got = logprob(row(length - 1 + int64_t(i)), vocab_size, prompt.continuation[i]);
    differences.add_logprob(got - prompt.logprobs[i], logprob_limit);
  }
}

void expect_within(const Kit& kit, const std::vector<Logits>& logits, int64_t vocab_size,
                   const Tolerance& tolerance) {
  Differences differences;
  for (size_t i = 0; i < kit.prompts.size(); ++i) {
    compare(kit.prompts[i], logits[i], vocab_size, 2 * tolerance.logit, differences);
  }
  fmt::print(
      "  {}: logits rms {:.3g} (limit {:.3g}), max {:.3g}; logprobs max {:.3g}, {} of {} off\n",
      kit.name, differences.rms(), tolerance.rms, differences.logit_max, differences.logprob_max,
      differences.num_logprobs_off, differences.num_logprobs);
  EXPECT_LE(differences.rms(), tolerance.rms);
  EXPECT_LE(differences.logit_max, tolerance.logit);
  const int64_t allowed = tolerance.is_exact ? 0 : differences.num_logprobs / 50;
  EXPECT_LE(differences.num_logprobs_off, allowed);
}

void expect_path(const Kit& kit, const std::vector<std::vector<int32_t>>& paths,
                 const Tolerance& tolerance) {
  int64_t num_flipped = 0;
  std::string lengths;
  for (size_t p = 0; p < kit.prompts.size(); ++p) {
    const Prompt& prompt = kit.prompts[p];
    const auto [ours, theirs] =
        std::mismatch(paths[p].begin(), paths[p].end(), prompt.continuation.begin());
    const size_t step = size_t(ours - paths[p].begin());
    lengths += fmt::format(" {}", step);
    if (ours == paths[p].end()) continue;
    ++num_flipped;
    EXPECT_FALSE(tolerance.is_exact) << prompt.name << " leaves the path at step " << step;
    EXPECT_LE(prompt.margins[step], 2 * tolerance.logit)
        << prompt.name << " leaves the path at step " << step;
  }
  fmt::print("  {}: tokens of each path that agree:{}\n", kit.name, lengths);
  EXPECT_LE(num_flipped, tolerance.max_flipped_prompts);
}

void expect_same_bits(const Logits& a, const Logits& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

/// The kits hold no float16 noise of the reference. Rounding errors scale with the unit u of the
/// README, which is 8 times finer than bfloat16's, so an eighth of that noise stands in.
Tolerance float16_tolerance(const Kit& kit) {
  const double rms = kit.bfloat16_rms / 8;
  return {std::max(0.004, 2 * rms), std::max(0.02, 10 * rms), false, 2 + kit.bfloat16_flips};
}

/// Activations quantised to int8. The table gives no bound for an engine's own quantisation; held
/// here is that logits stay as near as those of bfloat16, and that a path leaves only where two
/// tokens are that near. How many leave is left open.
Tolerance int8_tolerance(const Kit& kit) {
  Tolerance tolerance = bfloat16_tolerance(kit);
  tolerance.max_flipped_prompts = int64_t(kit.prompts.size());
  return tolerance;
}

/// Tokens of each sequence a step, with all prompts together and with each alone.
struct Cuts {
  std::vector<int64_t> together;
  std::vector<int64_t> alone;
};
constexpr int64_t kWhole = 1 << 20;
const Cuts kEveryCut = {{kWhole, 16, 1}, {16, 7, 1}};
const Cuts kOneCut = {{16}, {}};

/// Every way of cutting the same work gives the same bits; one of them is held to the reference.
void check_kit(const Kit& kit, const std::string& path, model::DTypeChoice dtype,
               const Tolerance& tolerance, const Cuts& cuts) {
  ModelRunner runner(path, dtype);
  std::vector<Logits> whole;
  for (const Prompt& prompt : kit.prompts) whole.push_back(run_alone(runner, prompt, kWhole));
  expect_within(kit, whole, runner.info().vocab_size, tolerance);
  for (const int64_t chunk : cuts.together) {
    const std::vector<Logits> together = run_together(runner, kit, chunk);
    for (size_t i = 0; i < whole.size(); ++i) {
      expect_same_bits(whole[i], together[i],
                       kit.prompts[i].name + " together, chunk " + std::to_string(chunk));
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int64_t chunk : cuts.alone) {
      expect_same_bits(whole[i], run_alone(runner, kit.prompts[i], chunk),
                       kit.prompts[i].name + " alone, chunk " + std::to_string(chunk));
    }
  }
  expect_path(kit, run_greedy(runner, kit), tolerance);
}

class TinyKit : public testing::TestWithParam<const char*> {
 protected:
  Kit kit_ = read_kit(GetParam());
  std::string path_ = std::string(OCTAVO_SOURCE_DIR "/tests/golden/") + GetParam();
};

TEST_P(TinyKit, Float32IsTheReference) {
  for_each_isa(true, [&] {
    check_kit(kit_, path_, model::DTypeChoice::kFloat32, float32_tolerance(false), kEveryCut);
  });
}

TEST_P(TinyKit, BFloat16StaysWithinItsNoise) {
  for_each_isa(true, [&] {
    check_kit(kit_, path_, model::DTypeChoice::kBFloat16, bfloat16_tolerance(kit_), kEveryCut);
  });
}

TEST_P(TinyKit, Float16StaysWithinItsNoise) {
  for_each_isa(true, [&] {
    check_kit(kit_, path_, model::DTypeChoice::kFloat16, float16_tolerance(kit_), kEveryCut);
  });
}

TEST_P(TinyKit, AutoIsTheDTypeOfTheCheckpoint) {
  ModelRunner chosen(path_, model::DTypeChoice::kAuto);
  ModelRunner named(path_, model::DTypeChoice::kBFloat16);
  EXPECT_EQ(chosen.info().dtype, "bfloat16");
  const Prompt& prompt = kit_.prompts.back();
  expect_same_bits(run_alone(chosen, prompt, 64), run_alone(named, prompt, 64), "auto");
}

TEST_P(TinyKit, TheNumberOfThreadsChangesNoBit) {
  ModelRunner one(path_, model::DTypeChoice::kBFloat16, 1);
  ModelRunner three(path_, model::DTypeChoice::kBFloat16, 3);
  const Prompt& prompt = kit_.prompts.back();
  expect_same_bits(run_alone(one, prompt, 64), run_alone(three, prompt, 64), "threads");
}

INSTANTIATE_TEST_SUITE_P(Golden, TinyKit,
                         testing::Values("llama", "llama-rope-scaled", "qwen2", "qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class SmolLm2 : public testing::Test {
 protected:
  /// Path in `variable`, or empty.
  static std::string path_from(const char* variable) {
    const char* path = std::getenv(variable);
    return path == nullptr ? "" : path;
  }
  Kit kit_ = read_kit("smollm2");
};

TEST_F(SmolLm2, Float32IsTheReference) {
  const std::string path = path_from("OCTAVO_TEST_HF");
  if (path.empty()) GTEST_SKIP() << "OCTAVO_TEST_HF names no checkpoint";
  for_each_isa(all_variants(), [&] {
    check_kit(kit_, path, model::DTypeChoice::kFloat32, float32_tolerance(true), kOneCut);
  });
}

TEST_F(SmolLm2, BFloat16StaysWithinItsNoise) {
  const std::string path = path_from("OCTAVO_TEST_HF");
  if (path.empty()) GTEST_SKIP() << "OCTAVO_TEST_HF names no checkpoint";
  for_each_isa(all_variants(), [&] {
    check_kit(kit_, path, model::DTypeChoice::kBFloat16, bfloat16_tolerance(kit_), kOneCut);
  });
}

TEST_F(SmolLm2, GgufInFloat32DiffersByTheRoundingOfItsWeightsOnly) {
  const std::string path = path_from("OCTAVO_TEST_GGUF");
  if (path.empty()) GTEST_SKIP() << "OCTAVO_TEST_GGUF names no checkpoint";
  // The reference's weights are the GGUF's rounded to bfloat16.
  for_each_isa(all_variants(), [&] {
    check_kit(kit_, path, model::DTypeChoice::kFloat32, bfloat16_tolerance(kit_), kOneCut);
  });
}

TEST_F(SmolLm2, GgufInInt8StaysWithinTheNoiseOfBFloat16) {
  const std::string path = path_from("OCTAVO_TEST_GGUF");
  if (path.empty()) GTEST_SKIP() << "OCTAVO_TEST_GGUF names no checkpoint";
  for_each_isa(all_variants(), [&] {
    check_kit(kit_, path, model::DTypeChoice::kAuto, int8_tolerance(kit_), kOneCut);
  });
}

}  // namespace
}  // namespace octavo::golden
