#include "trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "model/test_checkpoint.h"

namespace octavo::engine::testing {

AddRequest draw_request(SplitMix64& random, int64_t id, int64_t max_model_len, int64_t room) {
  const int64_t longest = std::min(max_model_len - 1, room);
  const int64_t prefix_length = random.below(static_cast<uint64_t>(longest / 2 + 1));
  const int64_t tail_length = 1 + random.below(static_cast<uint64_t>(longest / 4 + 1));
  auto prompt = prompt_of(random.below(3), static_cast<int>(prefix_length));
  for (const TokenId token : prompt_of(random.next(), static_cast<int>(tail_length))) {
    prompt.push_back(token);
  }
  prompt.resize(std::min<size_t>(prompt.size(), static_cast<size_t>(longest)));
  const auto num_prompt_tokens = static_cast<int64_t>(prompt.size());
  const int64_t most = std::min<int64_t>(room - num_prompt_tokens + 1, 24);
  AddRequest request = greedy_request(
      id, std::move(prompt), static_cast<int>(1 + random.below(static_cast<uint64_t>(most))));
  SamplingParams& sampling = request.sampling;
  if (random.below(2) == 0) {
    sampling.temperature = 0.5f + random.uniform();
    sampling.seed = static_cast<int64_t>(random.below(1000));
    if (random.below(2) == 0) sampling.top_k = 1 + static_cast<int>(random.below(20));
    if (random.below(2) == 0) sampling.top_p = 0.3f + 0.7f * random.uniform();
    if (random.below(4) == 0) sampling.min_p = 0.2f * random.uniform();
  }
  if (random.below(4) == 0) sampling.repetition_penalty = 1.3f;
  if (random.below(4) == 0) sampling.presence_penalty = 0.5f;
  if (random.below(3) == 0) sampling.logprobs = static_cast<int>(random.below(4));
  if (random.below(5) == 0) sampling.prompt_logprobs = 1;
  if (random.below(5) == 0) sampling.ignore_eos = false;
  if (random.below(6) == 0) request.cache_salt = "salt";
  request.eos_token_id = 3;
  return request;
}

Trace draw_trace(uint64_t seed) {
  SplitMix64 random(seed);
  Trace trace;
  trace.seed = seed;
  HarnessOptions& o = trace.options;
  o.block_size = std::vector<int64_t>{1, 2, 4, 16}[random.below(4)];
  o.num_blocks = 2 + (24 + static_cast<int64_t>(random.below(100))) / o.block_size;
  o.max_num_seqs = 1 + static_cast<int64_t>(random.below(8));
  o.max_num_batched_tokens = o.max_num_seqs + static_cast<int64_t>(random.below(40));
  o.max_model_len = 16 + static_cast<int64_t>(random.below(80));
  o.enable_prefix_caching = random.below(4) != 0;
  if (random.below(5) == 0) {
    o.enable_chunked_prefill = false;
    o.max_num_batched_tokens = std::max(o.max_num_batched_tokens, o.max_model_len);
  }
  auto& scheduler = o.config.scheduler;
  if (random.below(3) == 0) scheduler.long_prefill_token_threshold = 5;
  if (random.below(3) == 0) scheduler.scheduler_reserve_full_isl = false;
  if (random.below(3) == 0) scheduler.watermark = 0.2;
  if (random.below(4) == 0) scheduler.scheduling_policy = "priority";
  const int64_t room = (o.num_blocks - 1) * o.block_size;
  int64_t next_id = 0;
  const int num_events = 20 + static_cast<int>(random.below(80));
  for (int i = 0; i < num_events; ++i) {
    Event event;
    const uint64_t kind = random.below(10);
    if (kind < 5) {
      event.kind = Event::Kind::kAdd;
      event.request = draw_request(random, next_id++, o.max_model_len, room);
      event.request.priority = static_cast<int64_t>(random.below(3));
    } else if (kind < 7 && next_id > 0) {
      event.kind = Event::Kind::kAbort;
      event.target = static_cast<int64_t>(random.below(static_cast<uint64_t>(next_id)));
    } else if (kind == 7 && random.below(4) == 0) {
      event.kind = Event::Kind::kPreemptAll;
    }
    trace.events.push_back(std::move(event));
  }
  return trace;
}

namespace {

/// Watches one run from outside.
class Watcher {
 public:
  Watcher(Harness& harness, const Trace& trace) : h_(harness), trace_(trace) {}

  void added(const AddRequest& request) { requests_[request.id.value()] = request; }
  void aborted(int64_t id) { aborted_.insert(id); }

  std::string after_step() {
    const StepOutput& step = h_.sink.last;
    if (step.num_scheduled_tokens > trace_.options.max_num_batched_tokens) return "budget broken";
    if (step.stats.num_running > trace_.options.max_num_seqs) return "too many running";
    return check_order();
  }

  std::string at_end() {
    const SchedulerStats stats = h_.engine->scheduler().take_stats();
    if (stats.num_running + stats.num_waiting + stats.num_skipped != 0) return "gauges not zero";
    if (stats.kv_cache_usage != 0.0) return "blocks leaked";
    if (h_.engine->scheduler().num_queued_prompt_tokens() != 0) return "queued tokens not zero";
    for (const auto& [id, request] : requests_) {
      const Collected& got = h_.sink.requests[id];
      if (!got.finish_reason && !aborted_.contains(id)) return fmt::format("{} has no end", id);
      if (!got.finish_reason || got.finish_reason == FinishReason::kAbort) continue;
      if (got.finish_reason == FinishReason::kError) return fmt::format("{} failed", id);
      if (request.sampling.logprobs && got.logprobs.size() != got.token_ids.size()) {
        return fmt::format("{} lacks logprobs", id);
      }
      if (request.sampling.prompt_logprobs && got.prompt_logprobs.size() != request.prompt.size()) {
        return fmt::format("{} lacks prompt logprobs", id);
      }
    }
    return {};
  }

  const std::map<int64_t, AddRequest>& requests() const { return requests_; }

 private:
  /// FCFS: of those still there, whoever came earlier was first scheduled no later.
  std::string check_order() {
    if (trace_.options.config.scheduler.scheduling_policy != "fcfs") return {};
    for (const Sequence* sequence : h_.engine->scheduler().running()) {
      ever_ran_.insert(sequence->id.value());
    }
    for (const auto& [id, got] : h_.sink.requests) {
      if (got.last.first_scheduled_s != 0.0) ever_ran_.insert(id);
    }
    if (ever_ran_.empty()) return {};
    const int64_t latest = *ever_ran_.rbegin();
    for (const auto& [id, request] : requests_) {
      if (id >= latest) break;
      if (!ever_ran_.contains(id) && !aborted_.contains(id)) {
        return fmt::format("{} was overtaken by {}", id, latest);
      }
    }
    return {};
  }

  Harness& h_;
  const Trace& trace_;
  std::map<int64_t, AddRequest> requests_;
  std::set<int64_t> aborted_;
  std::set<int64_t> ever_ran_;
};

/// P1: every request that came to its own end says the same as when it is alone on a roomy engine.
std::string compare_with_alone(Harness& crowded, const HarnessOptions& options,
                               const std::map<int64_t, AddRequest>& requests) {
  const auto equal = [](const TokenLogprobs& a, const TokenLogprobs& b) {
    const auto same = [](const TokenLogprobs::Entry& x, const TokenLogprobs::Entry& y) {
      return x.token == y.token && x.logprob == y.logprob && x.rank == y.rank;
    };
    return same(a.chosen, b.chosen) && std::ranges::equal(a.top, b.top, same);
  };
  for (const auto& [id, request] : requests) {
    const Collected& got = crowded.sink.requests[id];
    if (!got.finish_reason || got.finish_reason == FinishReason::kAbort) continue;
    Harness alone({.num_blocks = 200,
                   .block_size = options.make_model ? options.block_size : 3,
                   .max_num_batched_tokens = 512,
                   .max_model_len = options.max_model_len,
                   .enable_prefix_caching = false,
                   .make_model = options.make_model});
    if (!alone.add(request).ok() || !alone.run()) return "alone did not end";
    const Collected& expected = alone.of(id);
    if (got.token_ids != expected.token_ids) return fmt::format("{}: other tokens", id);
    if (got.finish_reason != expected.finish_reason) return fmt::format("{}: other end", id);
    if (!std::ranges::equal(got.logprobs, expected.logprobs, equal)) {
      return fmt::format("{}: other logprobs", id);
    }
    for (size_t i = 1; i < got.prompt_logprobs.size(); ++i) {
      if (!equal(*got.prompt_logprobs[i], *expected.prompt_logprobs[i])) {
        return fmt::format("{}: other prompt logprobs", id);
      }
    }
  }
  return {};
}

}  // namespace

std::string run_trace(const Trace& trace, int fail_allocation, int* num_allocations) {
  Harness h(trace.options);
  int count = 0;
  h.engine->kv_cache().set_allocation_fault([&] { return ++count == fail_allocation; });
  Watcher watcher(h, trace);
  for (const Event& event : trace.events) {
    if (event.kind == Event::Kind::kAdd) {
      const Status status = h.add(event.request);
      if (!status.ok()) return "refused: " + status.error().message;
      watcher.added(event.request);
    } else if (event.kind == Event::Kind::kAbort) {
      h.abort(event.target, true);
      watcher.aborted(event.target);
    } else if (event.kind == Event::Kind::kPreemptAll) {
      h.engine->scheduler().preempt_all();
    }
    h.step();
    if (auto failure = watcher.after_step(); !failure.empty()) return failure;
  }
  for (int i = 0; h.step(); ++i) {
    if (auto failure = watcher.after_step(); !failure.empty()) return failure;
    if (i > 20'000) return "does not come to an end";
  }
  if (num_allocations) *num_allocations = count;
  if (auto failure = watcher.at_end(); !failure.empty()) return failure;
  return compare_with_alone(h, trace.options, watcher.requests());
}

std::string shrink(Trace trace, const std::string& failure) {
  const auto try_without = [&](size_t begin, size_t count) {
    Trace shorter = trace;
    const auto first = shorter.events.begin() + static_cast<ptrdiff_t>(begin);
    shorter.events.erase(first, first + static_cast<ptrdiff_t>(count));
    if (run_trace(shorter).empty()) return false;
    trace = std::move(shorter);
    return true;
  };
  for (size_t piece = trace.events.size() / 2; piece >= 1; piece /= 2) {
    for (size_t begin = 0; begin + piece <= trace.events.size();) {
      if (!try_without(begin, piece)) begin += piece;
    }
  }
  const HarnessOptions& o = trace.options;
  std::string text = fmt::format(
      "seed {}: {}\nblocks {} of {}, tokens {}, seqs {}, len {}, caching {}, chunked {}\n",
      trace.seed, failure, o.num_blocks, o.block_size, o.max_num_batched_tokens, o.max_num_seqs,
      o.max_model_len, o.enable_prefix_caching, o.enable_chunked_prefill);
  for (const Event& event : trace.events) {
    switch (event.kind) {
      case Event::Kind::kAdd:
        text += fmt::format("  add {} with {} + {} tokens\n", event.request.id.value(),
                            event.request.prompt.size(), event.request.sampling.max_tokens);
        break;
      case Event::Kind::kAbort:
        text += fmt::format("  abort {}\n", event.target);
        break;
      case Event::Kind::kPreemptAll:
        text += "  preempt all\n";
        break;
      default:
        text += "  step\n";
    }
  }
  return text;
}

namespace {

TEST(EngineTraces, InvariantsHoldAndOutputEqualsThatOfEachRequestAlone) {
  log::set_level(log::Level::kError);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Trace trace = draw_trace(seed);
    const std::string failure = run_trace(trace);
    ASSERT_EQ(failure, "") << shrink(trace, failure);
  }
}

TEST(EngineTraces, TheSameHoldsWithSeveralStepsInFlight) {
  log::set_level(log::Level::kError);
  for (uint64_t seed = 2001; seed <= 2200; ++seed) {
    Trace trace = draw_trace(seed);
    trace.options.num_inflight_steps = 2 + static_cast<int>(seed % 3);
    const std::string failure = run_trace(trace);
    ASSERT_EQ(failure, "") << shrink(trace, failure);
  }
}

/// The trace on a tiny decoder with random weights, whose pages hold `dtype`.
Trace with_cache_of(device::DType dtype, Trace trace) {
  HarnessOptions& o = trace.options;
  const int64_t room = (o.num_blocks - 1) * o.block_size;
  o.block_size = trace.seed % 2 == 0 ? 16 : 32;  // pages have 16 tokens
  o.num_blocks = 1 + (room + o.block_size - 1) / o.block_size;
  o.num_threads = 1 + static_cast<int>(trace.seed % 3);
  o.make_model = [dtype](const kernels::KernelContext& ctx) {
    const model::TestCheckpoint checkpoint(fmt::format(
        R"({{"architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": 64,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 4096, "dtype": "bfloat16"}})",
        FakeModel::kVocabSize));
    return model::Model::load(checkpoint, {.kv_dtype = dtype}, ctx).value();
  };
  return trace;
}

TEST(EngineTraces, TheSameHoldsWithRealCachesOfEachType) {
  log::set_level(log::Level::kError);
  for (const device::DType dtype :
       {device::DType::kBF16, device::DType::kE4M3, device::DType::kE5M2, device::DType::kF32}) {
    for (uint64_t seed = 3001; seed <= 3025; ++seed) {
      const Trace trace = with_cache_of(dtype, draw_trace(seed));
      const std::string failure = run_trace(trace);
      ASSERT_EQ(failure, "") << device::name_of(dtype) << ", " << shrink(trace, failure);
    }
  }
}

TEST(EngineTraces, EveryFailedAllocationIsSurvived) {
  log::set_level(log::Level::kError);
  for (uint64_t seed = 1001; seed <= 1006; ++seed) {
    const Trace trace = draw_trace(seed);
    int num_allocations = 0;
    ASSERT_EQ(run_trace(trace, 0, &num_allocations), "");
    for (int n = 1; n <= num_allocations; n += 1 + num_allocations / 150) {
      ASSERT_EQ(run_trace(trace, n), "") << "seed " << seed << ", allocation " << n;
    }
  }
}

}  // namespace
}  // namespace octavo::engine::testing
