#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/testing/harness.h"
#include "golden_kit.h"
#include "model/model.h"

// The golden kits through the whole engine: greedy tokens and logprobs against the reference, and
// bit for bit the same alone, together, in chunks, with cache hits and after preemption (P1).

namespace octavo::golden {
namespace {

using engine::AddRequest;
using engine::RequestId;
using engine::TokenLogprobs;
using engine::testing::Collected;
using engine::testing::CollectingSink;

constexpr int64_t kBlockSize = 16;

/// How the work is put to the engine; the answers must not depend on it.
struct Way {
  const char* name;
  bool one_by_one = false;
  bool caching = true;
  bool tiny_pool = false;
  int64_t max_num_batched_tokens = 512;
  int num_threads = 1;  // tests run side by side
};

class EngineUnderTest {
 public:
  EngineUnderTest(const std::string& path, const model::ModelOptions& options,
                  int64_t max_model_len, const Way& way) {
    device::ThreadPool pool(2);
    device::Workspace workspace;
    auto checkpoint = checkpoint::Checkpoint::open(path, checkpoint::LoadFormat::kAuto).value();
    auto model = model::Model::load(*checkpoint, options, {pool, workspace}).value();
    config::EngineConfig config;
    config.model.seed = 1;
    config.model.user_specified_seed = true;
    config.model.max_model_len = max_model_len;
    config.num_threads = way.num_threads;
    config.cache.kv_cache_memory_bytes = 256 << 20;
    config.cache.enable_prefix_caching = way.caching;
    config.scheduler.max_num_batched_tokens = way.max_num_batched_tokens;
    config.scheduler.max_num_seqs = 16;
    const int64_t blocks_of_one = (max_model_len + kBlockSize - 1) / kBlockSize;
    if (way.tiny_pool) config.cache.num_gpu_blocks_override = blocks_of_one + 1;
    engine_ = engine::Engine::create(config, std::move(model), clock_, sink_).value();
  }

  /// Puts the requests to the engine and returns what it said about each.
  std::vector<Collected> answer(const std::vector<AddRequest>& requests, bool one_by_one) {
    const int64_t first_id = next_id_;
    for (AddRequest request : requests) {
      request.id = RequestId(next_id_++);
      const Status status = engine_->submit(std::move(request));
      EXPECT_TRUE(status.ok());
      if (one_by_one) run();
    }
    run();
    std::vector<Collected> out;
    for (int64_t id = first_id; id < next_id_; ++id) out.push_back(sink_.requests[id]);
    return out;
  }

 private:
  void run() {
    while (engine_->step().value()) {
    }
  }
  ManualClock clock_;
  CollectingSink sink_;
  std::unique_ptr<engine::Engine> engine_;
  int64_t next_id_ = 0;
};

AddRequest request_for(const Prompt& prompt) {
  AddRequest request;
  request.prompt = prompt.ids;
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = static_cast<int32_t>(prompt.continuation.size());
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 3;
  return request;
}

/// Greedy with prompt logprobs, greedy with cache reads, and sampled: for every prompt.
std::vector<AddRequest> requests_of(const Kit& kit) {
  std::vector<AddRequest> requests;
  for (const Prompt& prompt : kit.prompts) {
    requests.push_back(request_for(prompt));
    requests.back().sampling.prompt_logprobs = 2;
  }
  for (const Prompt& prompt : kit.prompts) requests.push_back(request_for(prompt));
  for (const Prompt& prompt : kit.prompts) {
    requests.push_back(request_for(prompt));
    auto& sampling = requests.back().sampling;
    sampling.temperature = 0.9f;
    sampling.top_p = 0.95f;
    sampling.repetition_penalty = 1.1f;
    sampling.seed = 42;
  }
  return requests;
}

bool same_bits(const TokenLogprobs& a, const TokenLogprobs& b) {
  const auto same = [](const TokenLogprobs::Entry& x, const TokenLogprobs::Entry& y) {
    return x.token == y.token && x.logprob == y.logprob && x.rank == y.rank;
  };
  return same(a.chosen, b.chosen) && std::ranges::equal(a.top, b.top, same);
}

void expect_same(const std::vector<Collected>& expected, const std::vector<Collected>& got,
                 const char* way) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].token_ids, got[i].token_ids) << way << ", request " << i;
    EXPECT_TRUE(std::ranges::equal(expected[i].logprobs, got[i].logprobs, same_bits))
        << way << ", request " << i;
    ASSERT_EQ(expected[i].prompt_logprobs.size(), got[i].prompt_logprobs.size());
    for (size_t p = 1; p < expected[i].prompt_logprobs.size(); ++p) {
      ASSERT_TRUE(same_bits(*expected[i].prompt_logprobs[p], *got[i].prompt_logprobs[p]))
          << way << ", request " << i << ", position " << p;
    }
  }
}

/// One logit may be off by this much (README.md of the kits); a logprob by twice that.
double tolerance_of(const Kit& kit, model::DTypeChoice dtype) {
  return dtype == model::DTypeChoice::kFloat32 ? 2e-4 : std::max(0.16, 10 * kit.bfloat16_rms);
}

void expect_reference(const Kit& kit, const std::vector<Collected>& got, model::DTypeChoice dtype) {
  const bool is_exact = dtype == model::DTypeChoice::kFloat32;
  const double tolerance = tolerance_of(kit, dtype);
  int64_t num_flipped = 0, num_logprobs = 0, num_off = 0;
  const auto compare = [&](double ours, double theirs) {
    ++num_logprobs;
    if (!(std::abs(ours - theirs) <= 2 * tolerance)) ++num_off;
  };
  for (size_t i = 0; i < kit.prompts.size(); ++i) {
    const Prompt& prompt = kit.prompts[i];
    ASSERT_EQ(got[i].prompt_logprobs.size(), prompt.ids.size());
    EXPECT_FALSE(got[i].prompt_logprobs[0]);
    for (size_t p = 1; p < prompt.ids.size(); ++p) {
      ASSERT_TRUE(got[i].prompt_logprobs[p]);
      EXPECT_EQ(got[i].prompt_logprobs[p]->chosen.token, prompt.ids[p]);
      compare(got[i].prompt_logprobs[p]->chosen.logprob, prompt.prompt_logprobs[p]);
    }
    ASSERT_EQ(got[i].token_ids.size(), prompt.continuation.size());
    for (size_t step = 0; step < prompt.continuation.size(); ++step) {
      if (got[i].token_ids[step] != prompt.continuation[step]) {
        ++num_flipped;
        EXPECT_FALSE(is_exact) << prompt.name << " leaves the path at step " << step;
        EXPECT_LE(prompt.margins[step], 2 * tolerance) << prompt.name << ", step " << step;
        break;
      }
      EXPECT_EQ(got[i].logprobs[step].chosen.rank, 1);
      compare(got[i].logprobs[step].chosen.logprob, prompt.logprobs[step]);
    }
  }
  EXPECT_LE(num_flipped, is_exact ? 0 : 2 + kit.bfloat16_flips);
  EXPECT_LE(num_off, is_exact ? 0 : num_logprobs / 50);
}

int64_t context_of(const Kit& kit) {
  size_t longest = 0;
  for (const Prompt& prompt : kit.prompts) {
    longest = std::max(longest, prompt.ids.size() + prompt.continuation.size());
  }
  return static_cast<int64_t>(longest) + 1;
}

template <class Figure>
int64_t total(const std::vector<Collected>& answers, Figure figure) {
  int64_t sum = 0;
  for (const Collected& answer : answers) sum += figure(answer.last);
  return sum;
}

void check_kit(const Kit& kit, const std::string& path, const model::ModelOptions& options,
               const std::vector<Way>& ways) {
  log::set_level(log::Level::kError);
  const auto requests = requests_of(kit);
  const int64_t max_model_len = context_of(kit);
  const Way alone{.name = "alone", .one_by_one = true, .caching = false};
  const auto expected =
      EngineUnderTest(path, options, max_model_len, alone).answer(requests, alone.one_by_one);
  // What a cache or weights of few bits cost is a matter of perplexity, not of single tokens.
  if (!options.kv_dtype && options.quantization.empty())
    expect_reference(kit, expected, options.dtype);
  for (const Way& way : ways) {
    EngineUnderTest engine(path, options, max_model_len, way);
    const auto first = engine.answer(requests, way.one_by_one);
    expect_same(expected, first, way.name);
    if (way.tiny_pool) {
      EXPECT_GT(total(first, [](const auto& last) { return last.num_preemptions; }), 0) << way.name;
      continue;
    }
    if (!way.caching) continue;
    const auto again = engine.answer(requests, way.one_by_one);
    expect_same(expected, again, way.name);
    EXPECT_GT(total(again, [](const auto& last) { return last.num_cached_tokens; }), 0) << way.name;
  }
}

const std::vector<Way> kWays = {
    {.name = "together"},
    {.name = "two threads, no cache", .caching = false, .num_threads = 2},
    {.name = "chunks of 16", .max_num_batched_tokens = 16},
    {.name = "tiny pool", .tiny_pool = true},
    {.name = "tiny pool, chunks of 16, no cache",
     .caching = false,
     .tiny_pool = true,
     .max_num_batched_tokens = 16},
};

class EngineKit : public ::testing::TestWithParam<const char*> {
 protected:
  Kit kit_ = read_kit(GetParam());
  std::string path_ = std::string(OCTAVO_SOURCE_DIR "/tests/golden/") + GetParam();
};

TEST_P(EngineKit, Float32IsTheReferenceInEveryWay) {
  for_each_isa(all_variants(),
               [&] { check_kit(kit_, path_, {.dtype = model::DTypeChoice::kFloat32}, kWays); });
}

TEST_P(EngineKit, BFloat16StaysWithinToleranceInEveryWay) {
  for_each_isa(all_variants(),
               [&] { check_kit(kit_, path_, {.dtype = model::DTypeChoice::kBFloat16}, kWays); });
}

TEST_P(EngineKit, CachesOfOneByteSayTheSameInEveryWay) {
  for (const device::DType kv_dtype : {device::DType::kE4M3, device::DType::kE5M2}) {
    for_each_isa(all_variants(), [&] {
      check_kit(kit_, path_, {.dtype = model::DTypeChoice::kBFloat16, .kv_dtype = kv_dtype}, kWays);
    });
  }
}

TEST_P(EngineKit, WeightsPackedAtLoadSayTheSameInEveryWay) {
  for (const char* method : {"int8", "q4", "fp8"}) {
    SCOPED_TRACE(method);
    for_each_isa(all_variants(), [&] { check_kit(kit_, path_, {.quantization = method}, kWays); });
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, EngineKit,
                         ::testing::Values("llama", "llama-rope-scaled", "qwen2", "qwen3"));

class EngineSmolLM2 : public ::testing::TestWithParam<model::DTypeChoice> {};

TEST_P(EngineSmolLM2, SaysTheSameInEveryWay) {
  const char* path = std::getenv("OCTAVO_TEST_HF");
  if (!path) GTEST_SKIP() << "OCTAVO_TEST_HF names no checkpoint";
  // Tests of the model and of perplexity run it in float32 in the fast lane.
  if (!all_variants() && GetParam() == model::DTypeChoice::kFloat32) {
    GTEST_SKIP() << "with OCTAVO_ALL_VARIANTS only";
  }
  const Kit kit = read_kit("smollm2");
  // The fast lane, and the portable kernels, which take minutes for each way: two prompts and few
  // tokens of each, in the ways that differ most.
  Kit part = kit;
  part.prompts.resize(std::min<size_t>(part.prompts.size(), 2));
  for (Prompt& prompt : part.prompts) {
    prompt.continuation.resize(std::min<size_t>(prompt.continuation.size(), 12));
  }
  for_each_isa(all_variants(), [&] {
    if (all_variants() && kernels::current_isa() != kernels::Isa::kGeneric) {
      check_kit(kit, path, {.dtype = GetParam()}, kWays);
    } else {
      check_kit(part, path, {.dtype = GetParam()}, {kWays[0], kWays[2], kWays.back()});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Golden, EngineSmolLM2,
                         ::testing::Values(model::DTypeChoice::kFloat32,
                                           model::DTypeChoice::kBFloat16));

}  // namespace
}  // namespace octavo::golden
