#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/scheduler/finish.h"

namespace octavo::engine {

Scheduler::Scheduler(const SchedulerOptions& options, std::unique_ptr<SchedulingPolicy> policy,
                     KvCache& kv_cache, const BlockHasher& hasher)
    : options_(options),
      policy_(std::move(policy)),
      kv_cache_(kv_cache),
      hasher_(hasher),
      waiting_(policy_->make_queue()),
      skipped_(policy_->make_queue()) {}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  Sequence& added = *sequence;
  const bool is_new = sequences_.try_emplace(added.id, std::move(sequence)).second;
  CHECK(is_new);
  if (added.deadline_s) deadlines_.emplace(*added.deadline_s, added.id);
  num_queued_prompt_tokens_ += added.num_prompt_tokens;
  waiting_->push_back(added);
}

std::unique_ptr<Sequence> Scheduler::abort(RequestId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return nullptr;
  Sequence& sequence = *it->second;
  if (sequence.state == SequenceState::kRunning) {
    running_.erase(std::ranges::find(running_, &sequence));
  } else {
    leave_queue(sequence);
  }
  return remove(sequence);
}

bool Scheduler::contains(RequestId id) const { return sequences_.contains(id); }

RequestId Scheduler::next_expired(double now_s) const {
  if (deadlines_.empty() || deadlines_.begin()->first > now_s) return RequestId();
  return deadlines_.begin()->second;
}

std::vector<RequestId> Scheduler::unfinished_ids() const {
  std::vector<RequestId> ids;
  for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  return ids;
}

void Scheduler::schedule(double now_s, StepBatch& batch) {
  batch.clear();
  std::swap(batch.ended, ended_);
  if (pause_ == PauseMode::kAll) return;
  Budget budget{options_.max_num_scheduled_tokens, kMaxPromptLogprobRows};
  const int64_t num_preemptions_before = num_preemptions_;
  schedule_running(budget, batch);
  // Blocks were short a moment ago: admitting somebody now would only preempt again.
  if (num_preemptions_ == num_preemptions_before) schedule_waiting(now_s, budget, batch);
}

int32_t Scheduler::num_tokens_to_run(const Sequence& sequence, int32_t num_computed,
                                     const Budget& budget) const {
  int32_t num = sequence.num_tokens() - num_computed;
  const int32_t threshold = options_.long_prefill_token_threshold;
  if (threshold > 0) num = std::min(num, threshold);
  if (sequence.wants_prompt_logprobs()) {
    // The last prompt position gives the first token, so it needs a sampled row instead.
    const bool reaches_end = num_computed + num == sequence.num_tokens();
    if (num - (reaches_end ? 1 : 0) > budget.num_prompt_logprob_rows) {
      num = budget.num_prompt_logprob_rows;
    }
  }
  return num;
}

void Scheduler::schedule_running(Budget& budget, StepBatch& batch) {
  for (size_t index = 0; index < running_.size() && budget.num_tokens > 0; ++index) {
    Sequence& sequence = *running_[index];
    int32_t num_new = num_tokens_to_run(sequence, sequence.num_computed_tokens, budget);
    num_new = std::min(num_new, budget.num_tokens);
    num_new = std::min(num_new, options_.max_model_len - sequence.num_computed_tokens - 1);
    if (num_new <= 0) continue;
    const auto num_old_blocks = static_cast<int32_t>(sequence.block_table.blocks.size());
    if (!allocate_or_preempt(sequence, num_new, index, budget, batch)) break;
    grant(sequence, num_new, num_old_blocks, budget, batch);
  }
}

bool Scheduler::allocate_or_preempt(Sequence& sequence, int32_t num_new, size_t& index,
                                    Budget& budget, StepBatch& batch) {
  const SlotRequest request{.num_tokens = sequence.num_computed_tokens + num_new,
                            .hashes = sequence.block_hashes};
  while (!kv_cache_.allocate(sequence.block_table, request)) {
    const size_t victim_index = policy_->victim(running_);
    Sequence& victim = *running_[victim_index];
    if (victim_index < index) {
      // A less important sequence was served earlier in this very step.
      take_back(victim, budget, batch);
      --index;
    }
    preempt(victim_index);
    if (&victim == &sequence) return false;
  }
  return true;
}

void Scheduler::take_back(const Sequence& sequence, Budget& budget, StepBatch& batch) {
  const auto it = std::ranges::find(batch.sequences, sequence.id, &ScheduledSequence::id);
  if (it == batch.sequences.end()) return;
  Sequence& taken = *sequences_.at(sequence.id);
  taken.num_computed_tokens = it->num_computed_tokens;
  --taken.num_inflight_steps;
  budget.num_tokens += it->num_tokens;
  batch.num_tokens -= it->num_tokens;
  batch.sequences.erase(it);
  std::erase_if(batch.block_updates,
                [&](const BlockUpdate& update) { return update.id == sequence.id; });
}

void Scheduler::preempt(size_t index) {
  Sequence& sequence = *running_[index];
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
  kv_cache_.release(sequence.block_table, sequence.num_computed_tokens);
  sequence.num_computed_tokens = 0;
  sequence.state = SequenceState::kPreempted;
  ++sequence.num_preemptions;
  ++num_preemptions_;
  waiting_->push_front(sequence);
}

void Scheduler::preempt_all() {
  while (!running_.empty()) preempt(running_.size() - 1);
}

void Scheduler::grant(Sequence& sequence, int32_t num_new, int32_t num_old_blocks, Budget& budget,
                      StepBatch& batch) {
  const std::vector<BlockId>& blocks = sequence.block_table.blocks;
  ScheduledSequence& scheduled = batch.sequences.emplace_back();
  scheduled.id = sequence.id;
  scheduled.num_computed_tokens = sequence.num_computed_tokens;
  scheduled.num_tokens = num_new;
  scheduled.samples = sequence.num_computed_tokens + num_new == sequence.num_tokens();
  batch.block_updates.push_back({.id = sequence.id,
                                 .group = sequence.block_table.group,
                                 .first_block = static_cast<int32_t>(batch.block_ids.size()),
                                 .num_blocks = static_cast<int32_t>(blocks.size()) - num_old_blocks,
                                 .replaces = num_old_blocks == 0});
  batch.block_ids.insert(batch.block_ids.end(), blocks.begin() + num_old_blocks, blocks.end());
  batch.num_tokens += num_new;
  budget.num_tokens -= num_new;
  if (sequence.wants_prompt_logprobs()) {
    budget.num_prompt_logprob_rows -= num_new - (scheduled.samples ? 1 : 0);
  }
  sequence.num_computed_tokens += num_new;
  ++sequence.num_inflight_steps;
}

Sequence* Scheduler::next_candidate() const {
  Sequence* skipped = skipped_->front();
  Sequence* waiting = waiting_->front();
  if (!skipped) return waiting;
  if (!waiting) return skipped;
  return policy_->skipped_goes_first(*skipped, *waiting) ? skipped : waiting;
}

bool Scheduler::may_be_considered(const Sequence& sequence) const {
  if (pause_ == PauseMode::kNoAdmission && !sequence.was_admitted()) return false;
  return !admission_filter_ || admission_filter_(sequence);
}

void Scheduler::schedule_waiting(double now_s, Budget& budget, StepBatch& batch) {
  if (pause_ == PauseMode::kNoAdmission && num_started_ == 0) return;
  while (budget.num_tokens > 0 && static_cast<int32_t>(running_.size()) < options_.max_num_seqs) {
    Sequence* candidate = next_candidate();
    if (!candidate) break;
    if (!may_be_considered(*candidate)) {
      leave_queue(*candidate);
      passed_over_.push_back(candidate);
      continue;
    }
    if (!try_admit(*candidate, now_s, budget, batch)) break;
  }
  // Back to the front of the skipped queue, in the order in which they were met.
  for (; !passed_over_.empty(); passed_over_.pop_back()) {
    passed_over_.back()->in_skipped = true;
    skipped_->push_front(*passed_over_.back());
  }
}

int32_t Scheduler::num_watermark_blocks() const {
  if (running_.empty()) return 0;
  return static_cast<int32_t>(std::floor(options_.watermark * kv_cache_.pool().num_blocks()));
}

bool Scheduler::try_admit(Sequence& sequence, double now_s, Budget& budget, StepBatch& batch) {
  // Preempted with a step in flight that may yet bring it a token: what it has to run is not known.
  if (sequence.num_inflight_steps > 0) return false;
  std::span<const BlockId> hit;
  const bool reads_cache = kv_cache_.enable_prefix_caching() && sequence.reads_prefix_cache();
  if (reads_cache) hit = kv_cache_.find_prefix(sequence.block_hashes, sequence.num_tokens());
  const auto num_cached = static_cast<int32_t>(hit.size()) * kv_cache_.block_size();

  int32_t num_new = num_tokens_to_run(sequence, num_cached, budget);
  if (num_new <= 0) return false;  // this step's prompt-logprob rows are used up
  if (!options_.enable_chunked_prefill && num_new > budget.num_tokens) return false;
  num_new = std::min(num_new, budget.num_tokens);

  SlotRequest request{.num_tokens = std::min(sequence.num_tokens(), options_.max_model_len),
                      .prefix_hit = hit,
                      .hashes = sequence.block_hashes,
                      .num_reserved_blocks = num_watermark_blocks()};
  if (options_.reserve_full_isl && !kv_cache_.has_room(sequence.block_table, request)) return false;
  request.num_tokens = num_cached + num_new;
  if (!kv_cache_.allocate(sequence.block_table, request)) return false;

  leave_queue(sequence);
  sequence.state = SequenceState::kRunning;
  sequence.num_computed_tokens = num_cached;
  running_.push_back(&sequence);
  if (!sequence.was_admitted()) {
    sequence.first_scheduled_s = now_s;
    sequence.num_cached_tokens = num_cached;
    num_queued_prompt_tokens_ -= sequence.num_prompt_tokens;
    ++num_started_;
    if (reads_cache) {
      prefix_cache_queries_ += sequence.num_tokens();
      prefix_cache_hits_ += num_cached;
      prefix_cache_admissions_.emplace_back(sequence.num_tokens(), num_cached);
    }
  }
  if (!sequence.known_to_runner) {
    sequence.known_to_runner = true;
    batch.added.push_back({sequence.id, sequence.tokens, sequence.sampling, sequence.eos_token_id,
                           sequence.seed, sequence.adapter_index, sequence.task});
  }
  grant(sequence, num_new, 0, budget, batch);
  return true;
}

std::shared_ptr<TokenConstraint> Scheduler::constraint_of(RequestId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second->constraint;
}

void Scheduler::leave_queue(Sequence& sequence) {
  (sequence.in_skipped ? skipped_ : waiting_)->remove(sequence);
  sequence.in_skipped = false;
}

std::unique_ptr<Sequence> Scheduler::remove(Sequence& sequence) {
  kv_cache_.release(sequence.block_table, sequence.num_computed_tokens);
  sequence.state = SequenceState::kFinished;
  if (sequence.known_to_runner) ended_.push_back(sequence.id);
  if (sequence.was_admitted()) {
    --num_started_;
  } else {
    num_queued_prompt_tokens_ -= sequence.num_prompt_tokens;
  }
  if (sequence.deadline_s) deadlines_.erase({*sequence.deadline_s, sequence.id});
  auto node = sequences_.extract(sequence.id);
  return std::move(node.mapped());
}

bool Scheduler::append_token(Sequence& sequence, TokenId token, SequenceOutput& output) {
  sequence.tokens.push_back(token);
  output.new_token_ids.push_back(token);
  if (kv_cache_.enable_prefix_caching()) {
    hasher_.extend(sequence.block_hashes, sequence.tokens, kv_cache_.block_size(),
                   sequence.cache_salt);
  }
  const auto finish = check_finish(sequence, options_.max_model_len);
  if (!finish) return false;
  output.finish_reason = finish->reason;
  output.stop_reason = finish->stop_reason;
  return true;
}

void Scheduler::update(const StepBatch& batch, RunnerOutput& results,
                       std::vector<SequenceOutput>& outputs) {
  CHECK_EQ(results.results.size(), batch.sequences.size());
  bool any_ended = false;
  outputs.reserve(outputs.size() + batch.sequences.size());
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    RunnerResult& result = results.results[i];
    const auto it = sequences_.find(batch.sequences[i].id);
    if (it == sequences_.end()) continue;  // aborted while the model ran
    Sequence& sequence = *it->second;
    --sequence.num_inflight_steps;
    if (result.token_ids.empty() && result.pooled.empty() && result.error.empty()) continue;
    SequenceOutput& output = outputs.emplace_back(make_output(sequence));
    output.logprobs = std::move(result.logprobs);
    output.prompt_logprobs = std::move(result.prompt_logprobs);
    bool ended = false;
    if (!result.error.empty()) {
      output.finish_reason = FinishReason::kError;
      output.error = std::move(result.error);
      ended = true;
    } else if (!result.pooled.empty()) {
      output.pooled = std::move(result.pooled);
      output.finish_reason = FinishReason::kStop;
      ended = true;
    } else {
      for (const TokenId token : result.token_ids) {
        ended = append_token(sequence, token, output);
        if (ended) break;  // what follows in the same step is discarded
      }
      if (output.logprobs.size() > output.new_token_ids.size()) {
        output.logprobs.resize(output.new_token_ids.size());
      }
    }
    if (ended) {
      any_ended = true;
      if (sequence.state == SequenceState::kRunning) {
        std::ranges::replace(running_, &sequence, static_cast<Sequence*>(nullptr));
      } else {
        leave_queue(sequence);  // preempted while the step was in flight
      }
      remove(sequence);
    }
  }
  if (any_ended) std::erase(running_, static_cast<Sequence*>(nullptr));
}

SchedulerStats Scheduler::take_stats() {
  SchedulerStats stats;
  stats.num_running = static_cast<int32_t>(running_.size());
  stats.num_waiting = static_cast<int32_t>(waiting_->size());
  stats.num_skipped = static_cast<int32_t>(skipped_->size());
  stats.kv_cache_usage = kv_cache_.pool().usage();
  stats.num_preemptions = num_preemptions_;
  stats.prefix_cache_queries = prefix_cache_queries_;
  stats.prefix_cache_hits = prefix_cache_hits_;
  stats.prefix_cache_admissions = std::exchange(prefix_cache_admissions_, {});
  return stats;
}

void Scheduler::check_invariants() const {
  const BlockPool& pool = kv_cache_.pool();
  std::vector<int32_t> uses(pool.num_blocks(), 0);
  for (const auto& [id, sequence] : sequences_) {
    const bool is_running = sequence->state == SequenceState::kRunning;
    CHECK(is_running || sequence->block_table.blocks.empty());
    CHECK_LE(sequence->num_computed_tokens, sequence->num_tokens());
    if (is_running) {
      CHECK_EQ(kv_cache_.num_blocks_for(sequence->num_computed_tokens),
               static_cast<int32_t>(sequence->block_table.blocks.size()));
    }
    for (const BlockId block : sequence->block_table.blocks) ++uses[block];
  }
  CHECK_EQ(uses[kNullBlock], 0);
  int32_t num_used = 0;
  for (BlockId block = 1; block < pool.num_blocks(); ++block) {
    CHECK_EQ(uses[block], pool.ref_count(block));
    num_used += uses[block] > 0;
  }
  CHECK_EQ(num_used + pool.num_free(), kv_cache_.num_usable_blocks());
  CHECK_EQ(static_cast<int32_t>(pool.free_list().size()), pool.num_free());
  CHECK_LE(static_cast<int32_t>(running_.size()), options_.max_num_seqs);
  CHECK_EQ(running_.size() + waiting_->size() + skipped_->size(), sequences_.size());
}

SequenceOutput make_output(const Sequence& sequence) {
  SequenceOutput output;
  output.id = sequence.id;
  output.queued_s = sequence.queued_s;
  output.first_scheduled_s = sequence.first_scheduled_s;
  output.num_prompt_tokens = sequence.num_prompt_tokens;
  output.num_cached_tokens = sequence.num_cached_tokens;
  output.num_preemptions = sequence.num_preemptions;
  return output;
}

}  // namespace octavo::engine
