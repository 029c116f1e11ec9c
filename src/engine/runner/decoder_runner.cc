#include "engine/runner/decoder_runner.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "device/machine.h"

namespace octavo::engine {
namespace {

/// The read roof is that of as many bytes as a step reads weights: how much of them a cache keeps
/// from step to step is the machine's doing.
Result<std::unique_ptr<kernels::StepProfile>> start_profile(device::ThreadPool& pool,
                                                            size_t weight_bytes) {
  constexpr size_t kLeast = size_t{32} << 20;
  const size_t most =
      std::max(std::min(size_t{512} << 20, device::available_memory_bytes() / 4), kLeast);
  const size_t size = std::clamp(weight_bytes, kLeast, most);
  OCTAVO_TRY(const device::Buffer buffer, device::Buffer::create(size, true));
  std::memset(buffer.data(), 1, size);
  return std::make_unique<kernels::StepProfile>(device::measure_roofs(pool, buffer.data(), size));
}

}  // namespace

Result<std::unique_ptr<DecoderRunner>> DecoderRunner::create(
    const RunnerOptions& options, std::unique_ptr<model::Model> model,
    std::unique_ptr<device::ThreadPool> pool, std::unique_ptr<device::Workspace> workspace) {
  // Pages are taken when the first step of that many rows writes them.
  const auto count = static_cast<size_t>(options.max_logits_rows * model->info().vocab_size);
  OCTAVO_TRY(device::Buffer logits, device::Buffer::create(count * sizeof(float), false));
  std::unique_ptr<DecoderRunner> runner(new DecoderRunner(
      options, std::move(model), std::move(pool), std::move(workspace), std::move(logits)));
  if (options.profile) {
    OCTAVO_TRY(runner->profile_,
               start_profile(*runner->pool_, runner->model_->info().weight_bytes));
  }
  return runner;
}

DecoderRunner::DecoderRunner(const RunnerOptions& options, std::unique_ptr<model::Model> model,
                             std::unique_ptr<device::ThreadPool> pool,
                             std::unique_ptr<device::Workspace> workspace, device::Buffer logits)
    : options_(options),
      pool_(std::move(pool)),
      workspace_(std::move(workspace)),
      model_(std::move(model)),
      vocab_size_(model_->info().vocab_size),
      num_kv_groups_(static_cast<size_t>(model_->info().num_kv_groups)),
      logits_buffer_(std::move(logits)),
      logits_(logits_buffer_.as<float>()),
      scratch_(static_cast<size_t>(pool_->num_threads())) {}

DecoderRunner::~DecoderRunner() {
  if (!profile_) return;
  for (const std::string& line : profile_->report())
    log::info(log::Source::kEngineCore, "{}", line);
}

size_t DecoderRunner::buffer_bytes(int64_t max_logits_rows, int64_t vocab_size, int num_threads) {
  return static_cast<size_t>(max_logits_rows * vocab_size) * sizeof(float) +
         SamplerScratch::bytes(vocab_size) * static_cast<size_t>(num_threads);
}

Status DecoderRunner::warm_up() {
  model::ForwardBatch batch;
  batch.token_ids = {0};
  batch.positions = {0};
  batch.num_kv_groups = static_cast<int32_t>(num_kv_groups_);
  batch.slot_mapping.assign(num_kv_groups_, int64_t{kNullBlock} * options_.block_size);
  batch.query_start_loc = {0, 1};
  batch.seq_lens = {1};
  batch.block_tables.assign(num_kv_groups_, kNullBlock);
  batch.max_blocks_per_seq = 1;
  batch.logits_rows = {0};
  kernels::KernelContext ctx{*pool_, *workspace_};
  return model_->forward(ctx, batch, {logits_, static_cast<size_t>(vocab_size_)}, {});
}

Status DecoderRunner::submit(const StepBatch& batch,
                             std::span<const SequenceConstraint> constraints) {
  CHECK(batch_ == nullptr);
  if (!binding_) binding_.emplace(*pool_);  // the thread that steps, not the one that loaded
  batch_ = &batch;
  forget_and_meet(batch, constraints);
  build_forward_batch(batch);
  CHECK_LE(static_cast<int64_t>(rows_.size()), options_.max_logits_rows);
  return {};
}

Status DecoderRunner::collect(RunnerOutput& output) {
  CHECK(batch_ != nullptr);
  const StepBatch& batch = *std::exchange(batch_, nullptr);
  output.results.clear();
  output.results.resize(batch.sequences.size());
  if (batch.sequences.empty()) return {};

  kernels::KernelContext ctx{*pool_, *workspace_, profile_.get()};
  const size_t num_logits = whole_rows_.size() * static_cast<size_t>(vocab_size_);
  if (profile_) {
    profile_->begin_step(static_cast<int64_t>(forward_batch_.token_ids.size()),
                         static_cast<int64_t>(batch.sequences.size()));
  }
  OCTAVO_TRY(model_->forward(ctx, forward_batch_, {logits_, num_logits}, largest_));
  {
    const kernels::OpTimer timer(ctx, kernels::Op::kSampling);
    process_rows(output);
  }
  if (profile_) profile_->end_step();
  accept_results(batch, output);
  return {};
}

void DecoderRunner::process_rows(RunnerOutput& output) {
  // Sampling allocates and a constraint is foreign code: what is thrown must leave neither a
  // worker nor parallel_for, so it ends the one sequence.
  pool_->parallel_for(static_cast<int64_t>(whole_rows_.size()), 1,
                      [&](int64_t begin, int64_t end, int thread_index) {
                        SamplerScratch& scratch = scratch_[static_cast<size_t>(thread_index)];
                        for (int64_t i = begin; i < end; ++i) {
                          LogitsRow& row = rows_[whole_rows_[static_cast<size_t>(i)]];
                          try {
                            process_row(row, scratch, output);
                          } catch (const std::exception&) {
                            row.failed = true;
                          }
                        }
                      });
  for (size_t i = 0; i < largest_.size(); ++i) {
    if (rows_[i].logits_index >= 0) continue;
    take_token(largest_token(largest_[i]), output.results[rows_[i].sequence]);
  }
}

void DecoderRunner::forget_and_meet(const StepBatch& batch,
                                    std::span<const SequenceConstraint> constraints) {
  for (const RequestId id : batch.ended) states_.erase(id);
  for (const NewSequence& added : batch.added) {
    const auto constraint = std::ranges::find(constraints, added.id, &SequenceConstraint::id);
    SequenceState state{
        .tokens = added.prompt,
        .num_prompt_tokens = static_cast<int32_t>(added.prompt.size()),
        .blocks = std::vector<std::vector<BlockId>>(num_kv_groups_),
        .adapter_index = added.adapter_index,
        .sampling =
            SamplingState(added.sampling, added.prompt, added.eos_token_id, added.seed,
                          constraint == constraints.end() ? nullptr : constraint->constraint),
        .prompt_logprobs = {},
    };
    if (added.sampling.prompt_logprobs) state.prompt_logprobs.resize(added.prompt.size());
    CHECK(states_.try_emplace(added.id, std::move(state)).second);
  }
}

void DecoderRunner::update_blocks(const StepBatch& batch) {
  for (const BlockUpdate& update : batch.block_updates) {
    std::vector<BlockId>& blocks =
        states_.at(update.id).blocks.at(static_cast<size_t>(update.group));
    if (update.replaces) blocks.clear();
    const auto first = batch.block_ids.begin() + update.first_block;
    blocks.insert(blocks.end(), first, first + update.num_blocks);
  }
}

void DecoderRunner::build_forward_batch(const StepBatch& batch) {
  model::ForwardBatch& out = forward_batch_;
  out.token_ids.clear();
  out.positions.clear();
  out.row_adapters.clear();
  out.query_start_loc.assign(1, 0);
  out.seq_lens.clear();
  out.logits_rows.clear();
  out.only_largest.clear();
  rows_.clear();
  whole_rows_.clear();
  batch_states_.clear();
  update_blocks(batch);
  bool any_adapter = false;
  for (const ScheduledSequence& scheduled : batch.sequences) {
    SequenceState& state = states_.at(scheduled.id);
    any_adapter |= state.adapter_index >= 0;
    add_logits_rows(batch_states_.size(), scheduled, state);
    add_tokens(scheduled, state);
    batch_states_.push_back(&state);
  }
  if (whole_rows_.size() == rows_.size()) out.only_largest.clear();
  largest_.resize(out.only_largest.size());
  if (any_adapter) {
    for (size_t i = 0; i < batch_states_.size(); ++i) {
      out.row_adapters.insert(out.row_adapters.end(),
                              static_cast<size_t>(batch.sequences[i].num_tokens),
                              batch_states_[i]->adapter_index);
    }
  }
  fill_block_tables(batch);
}

void DecoderRunner::fill_block_tables(const StepBatch& batch) {
  model::ForwardBatch& out = forward_batch_;
  size_t max_blocks = 0;
  for (const SequenceState* state : batch_states_) {
    for (const auto& blocks : state->blocks) max_blocks = std::max(max_blocks, blocks.size());
  }
  out.num_kv_groups = static_cast<int32_t>(num_kv_groups_);
  out.max_blocks_per_seq = static_cast<int64_t>(max_blocks);
  out.block_tables.assign(num_kv_groups_ * batch_states_.size() * max_blocks, kNoBlock);
  out.slot_mapping.clear();
  auto to = out.block_tables.begin();
  for (size_t group = 0; group < num_kv_groups_; ++group) {
    for (size_t i = 0; i < batch_states_.size(); ++i, to += static_cast<ptrdiff_t>(max_blocks)) {
      const std::vector<BlockId>& blocks = batch_states_[i]->blocks[group];
      std::ranges::copy(blocks, to);
      const int32_t begin = batch.sequences[i].num_computed_tokens;
      for (int32_t p = begin; p < begin + batch.sequences[i].num_tokens; ++p) {
        const int64_t block = blocks.at(static_cast<size_t>(p / options_.block_size));
        out.slot_mapping.push_back(block * options_.block_size + p % options_.block_size);
      }
    }
  }
}

void DecoderRunner::add_tokens(const ScheduledSequence& scheduled, const SequenceState& state) {
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_tokens;
  CHECK_LE(end, static_cast<int32_t>(state.tokens.size()));
  for (int32_t position = scheduled.num_computed_tokens; position < end; ++position) {
    forward_batch_.token_ids.push_back(state.tokens[position]);
    forward_batch_.positions.push_back(position);
  }
  forward_batch_.query_start_loc.push_back(static_cast<int32_t>(forward_batch_.token_ids.size()));
  forward_batch_.seq_lens.push_back(end);
}

void DecoderRunner::add_logits_row(int32_t row, size_t index, int32_t prompt_position,
                                   bool only_largest) {
  forward_batch_.logits_rows.push_back(row);
  forward_batch_.only_largest.push_back(only_largest ? 1 : 0);
  LogitsRow wanted{.sequence = index, .prompt_position = prompt_position};
  if (!only_largest) {
    wanted.logits_index = static_cast<int32_t>(whole_rows_.size());
    whole_rows_.push_back(rows_.size());
  }
  rows_.push_back(wanted);
}

void DecoderRunner::add_logits_rows(size_t index, const ScheduledSequence& scheduled,
                                    const SequenceState& state) {
  const auto first_row = static_cast<int32_t>(forward_batch_.token_ids.size());
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_tokens;
  if (!state.prompt_logprobs.empty() && !state.prompt_logprobs_sent) {
    // The logits at a position score the token after it.
    for (int32_t position = begin; position < std::min(end, state.num_prompt_tokens - 1);
         ++position) {
      if (state.prompt_logprobs[position + 1]) continue;  // done before a preemption
      add_logits_row(first_row + position - begin, index, position + 1, /*only_largest=*/false);
    }
  }
  if (scheduled.samples) {
    add_logits_row(first_row + scheduled.num_tokens - 1, index, -1,
                   state.sampling.needs_only_largest());
  }
}

void DecoderRunner::process_row(const LogitsRow& wanted, SamplerScratch& scratch,
                                RunnerOutput& output) {
  const std::span<float> logits(logits_ + wanted.logits_index * vocab_size_,
                                static_cast<size_t>(vocab_size_));
  SequenceState& state = *batch_states_[wanted.sequence];
  if (wanted.prompt_position >= 0) {
    // Rows of one sequence may be on several threads; each writes its own entry. An unusable row
    // stays empty, which accept_results sees.
    if (!kernels::scan_logits(logits).is_valid) return;
    state.prompt_logprobs[wanted.prompt_position] =
        token_logprobs(logits, state.tokens[wanted.prompt_position],
                       *state.sampling.params().prompt_logprobs, scratch);
    return;
  }
  take_token(sample_token(logits, state.sampling, scratch), output.results[wanted.sequence]);
}

void DecoderRunner::take_token(SampledToken sampled, RunnerResult& result) {
  if (!sampled.error.empty()) {
    result.error = std::move(sampled.error);
    return;
  }
  result.token_ids.push_back(sampled.token);
  if (sampled.logprobs) result.logprobs.push_back(std::move(*sampled.logprobs));
}

void DecoderRunner::accept_results(const StepBatch& batch, RunnerOutput& output) {
  for (const LogitsRow& row : rows_) {
    if (row.failed) output.results[row.sequence].error = "the next token could not be chosen";
    if (row.failed || row.prompt_position < 0) continue;
    if (!batch_states_[row.sequence]->prompt_logprobs[row.prompt_position]) {
      output.results[row.sequence].error = "the model produced logits that are not numbers";
    }
  }
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    SequenceState& state = *batch_states_[i];
    RunnerResult& result = output.results[i];
    if (!result.error.empty()) {
      result.token_ids.clear();
      result.logprobs.clear();
      continue;
    }
    for (const TokenId token : result.token_ids) {
      state.tokens.push_back(token);
      state.sampling.accept(token);
    }
    if (!result.token_ids.empty() && !state.prompt_logprobs.empty() &&
        !state.prompt_logprobs_sent) {
      state.prompt_logprobs_sent = true;
      result.prompt_logprobs = std::move(state.prompt_logprobs);
    }
  }
}

}  // namespace octavo::engine
