#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/kv_cache/block_hash.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/message.h"
#include "engine/runner/step_batch.h"
#include "engine/scheduler/sequence.h"
#include "engine/scheduler/waiting_queue.h"

namespace octavo::engine {

/// Prompt-logprob rows that one step may ask logits for, over all sequences. It bounds the logits
/// buffer: rows = max_num_seqs (one sampled row each) + this.
inline constexpr int32_t kMaxPromptLogprobRows = 64;

struct SchedulerOptions {
  int32_t max_num_scheduled_tokens = 512;
  int32_t max_num_seqs = 128;
  int32_t max_model_len = 2048;
  int32_t long_prefill_token_threshold = 0;  // 0 = off
  bool enable_chunked_prefill = true;
  bool reserve_full_isl = true;  // admission gate
  double watermark = 0.0;
};

/// Who is scheduled while the engine is paused.
enum class PauseMode : uint8_t { kNone, kNoAdmission, kAll };

/// Chooses what each step runs, as vLLM's V1 scheduler: running sequences first, in
/// order of admission, then new ones while budget, seats and blocks last. Single-threaded.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, std::unique_ptr<SchedulingPolicy> policy,
            KvCache& kv_cache, const BlockHasher& hasher);

  /// Enters the waiting queue. The id is new.
  void add(std::unique_ptr<Sequence> sequence);
  /// Ends a sequence wherever it stands and gives its blocks back. Null if it has ended already.
  std::unique_ptr<Sequence> abort(RequestId id);
  bool contains(RequestId id) const;
  /// A sequence whose deadline has passed at `now_s`, or an invalid id.
  RequestId next_expired(double now_s) const;
  /// Ids of all unfinished sequences, in no particular order.
  std::vector<RequestId> unfinished_ids() const;

  /// Fills `batch` with the next step. `num_computed_tokens` of what is scheduled advances now.
  /// Steps whose update is still to come may be in flight: a sequence whose next token they will
  /// bring has nothing to run until then, one in the middle of its prompt has.
  void schedule(double now_s, StepBatch& batch);
  /// Applies, in the order of schedule, what the runner made of `batch`: appends tokens, ends
  /// sequences, appends outputs.
  void update(const StepBatch& batch, RunnerOutput& results, std::vector<SequenceOutput>& outputs);

  /// Takes all running sequences off their blocks; they will be recomputed.
  void preempt_all();
  void set_pause(PauseMode mode) { pause_ = mode; }
  PauseMode pause() const { return pause_; }

  /// Called for every candidate; false sends it to the skipped queue for this step.
  void set_admission_filter(std::function<bool(const Sequence&)> filter) {
    admission_filter_ = std::move(filter);
  }

  int64_t num_unfinished() const { return static_cast<int64_t>(sequences_.size()); }
  const std::vector<Sequence*>& running() const { return running_; }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_->size()); }
  int64_t num_skipped() const { return static_cast<int64_t>(skipped_->size()); }
  /// Sequences that were admitted before: running, or preempted and waiting to resume.
  int64_t num_started() const { return num_started_; }
  /// Prompt tokens of sequences that were never admitted.
  int64_t num_queued_prompt_tokens() const { return num_queued_prompt_tokens_; }
  /// Of a sequence that has one; else nullptr.
  std::shared_ptr<TokenConstraint> constraint_of(RequestId id) const;
  /// Figures as of now; moves out this step's prefix-cache admissions.
  SchedulerStats take_stats();

  /// CHECKs that block tables, ref counts and queues agree. O(blocks); for tests.
  void check_invariants() const;

 private:
  struct Budget {
    int32_t num_tokens = 0;
    int32_t num_prompt_logprob_rows = 0;
  };
  void schedule_running(Budget& budget, StepBatch& batch);
  void schedule_waiting(double now_s, Budget& budget, StepBatch& batch);
  /// False: admission stops here.
  bool try_admit(Sequence& sequence, double now_s, Budget& budget, StepBatch& batch);
  Sequence* next_candidate() const;
  bool may_be_considered(const Sequence& sequence) const;
  int32_t num_tokens_to_run(const Sequence& sequence, int32_t num_computed,
                            const Budget& budget) const;
  bool allocate_or_preempt(Sequence& sequence, int32_t num_new, size_t& index, Budget& budget,
                           StepBatch& batch);
  void preempt(size_t index);
  void grant(Sequence& sequence, int32_t num_new, int32_t num_old_blocks, Budget& budget,
             StepBatch& batch);
  void take_back(const Sequence& sequence, Budget& budget, StepBatch& batch);
  int32_t num_watermark_blocks() const;
  std::unique_ptr<Sequence> remove(Sequence& sequence);
  void leave_queue(Sequence& sequence);
  bool append_token(Sequence& sequence, TokenId token, SequenceOutput& output);

  SchedulerOptions options_;
  std::unique_ptr<SchedulingPolicy> policy_;
  KvCache& kv_cache_;
  const BlockHasher& hasher_;

  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;
  std::unique_ptr<WaitingQueue> waiting_;
  std::unique_ptr<WaitingQueue> skipped_;
  std::vector<Sequence*> passed_over_;  // of this step
  std::set<std::pair<double, RequestId>> deadlines_;
  std::vector<RequestId> ended_;  // that the runner still knows

  std::function<bool(const Sequence&)> admission_filter_;
  PauseMode pause_ = PauseMode::kNone;
  int64_t num_preemptions_ = 0;
  int64_t num_started_ = 0;
  int64_t num_queued_prompt_tokens_ = 0;
  int64_t prefix_cache_queries_ = 0;
  int64_t prefix_cache_hits_ = 0;
  std::vector<std::pair<int32_t, int32_t>> prefix_cache_admissions_;
};

/// The figures of a sequence that go with each of its outputs.
SequenceOutput make_output(const Sequence& sequence);

}  // namespace octavo::engine
