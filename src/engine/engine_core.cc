#include "engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <random>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"

namespace octavo::engine {
namespace {

constexpr auto kCore = log::Source::kEngineCore;
constexpr size_t kMaxQueuedMessages = size_t{1} << 17;

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

HashAlgorithm algorithm_of(const EngineInfo& info) {
  const auto algorithm = parse_hash_algorithm(info.prefix_caching_hash_algo);
  return algorithm ? *algorithm : HashAlgorithm::kSha256;
}

std::unique_ptr<SchedulingPolicy> policy_of(const config::EngineConfig& config) {
  auto policy = make_scheduling_policy(config.scheduler.scheduling_policy);
  return std::move(policy).value();  // the plan has checked the name
}

SchedulerOptions scheduler_options(const config::EngineConfig& config, const EngineInfo& info) {
  const int64_t budget =
      config.scheduler.max_num_scheduled_tokens.value_or(info.max_num_batched_tokens);
  return {
      .max_num_scheduled_tokens =
          static_cast<int32_t>(std::min(budget, info.max_num_batched_tokens)),
      .max_num_seqs = static_cast<int32_t>(info.max_num_seqs),
      .max_model_len = static_cast<int32_t>(info.max_model_len),
      .long_prefill_token_threshold =
          static_cast<int32_t>(config.scheduler.long_prefill_token_threshold),
      .enable_chunked_prefill = info.enable_chunked_prefill,
      .reserve_full_isl = config.scheduler.scheduler_reserve_full_isl,
      .watermark = config.scheduler.watermark,
  };
}

/// Without `--seed` unseeded requests differ between runs of the server too; any given one, 0
/// included, makes a server's unseeded draws repeatable.
uint64_t entropy_of(const config::EngineConfig& config) {
  if (config.model.user_specified_seed) return static_cast<uint64_t>(config.model.seed);
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::string_view name_of(ControlRequest::Kind kind) {
  using Kind = ControlRequest::Kind;
  switch (kind) {
    case Kind::kSleep:
      return "sleep";
    case Kind::kWake:
      return "wake up";
    case Kind::kLoadAdapter:
      return "load an adapter";
    case Kind::kProfile:
      return "profile";
    default:
      return "do that";
  }
}

Error dead_error() { return {Code::kUnavailable, "the engine is not running any more"}; }

int64_t prompt_bytes(const EngineMessage& message) {
  const auto* add = std::get_if<AddRequest>(&message);
  return add ? static_cast<int64_t>(add->prompt.size() * sizeof(TokenId)) : 0;
}

}  // namespace

EngineCore::EngineCore(const config::EngineConfig& config, EngineInfo info,
                       std::unique_ptr<ModelRunner> runner, Clock& clock, OutputSink& sink)
    : info_(std::move(info)),
      clock_(clock),
      sink_(sink),
      runner_(std::move(runner)),
      hasher_(algorithm_of(info_), config.cache.python_hash_seed),
      prompt_hasher_(hasher_, info_.block_size),
      kv_cache_({.num_blocks = static_cast<int32_t>(info_.num_blocks),
                 .block_size = static_cast<int32_t>(info_.block_size),
                 .enable_prefix_caching = info_.enable_prefix_caching}),
      scheduler_options_(scheduler_options(config, info_)),
      scheduler_(scheduler_options_, policy_of(config), kv_cache_, hasher_),
      fault_(config.fault),
      entropy_(entropy_of(config)),
      max_queued_prompt_bytes_(config.max_queued_prompt_bytes),
      queue_(kMaxQueuedMessages),
      batches_(static_cast<size_t>(runner_->num_inflight_steps())) {
  CHECK_GE(runner_->num_inflight_steps(), 1);
}

EngineCore::~EngineCore() {
  try {
    refuse_pending();
  } catch (const std::exception&) {
    // An asker broke: there is nobody left to tell.
  }
}

Status EngineCore::warm_up() { return runner_->warm_up(); }

// ---- Any thread ----

Status EngineCore::check_request(const AddRequest& request) const {
  if (request.task != info_.task) {
    return Error{Code::kUnsupported, info_.task == Task::kGenerate
                                         ? "this engine only generates text"
                                         : "this engine only makes vectors"};
  }
  if (request.adapter_index >= 0) return Error{Code::kUnsupported, "no adapter is loaded", "model"};
  const auto invalid = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message), "prompt"};
  };
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (num_prompt_tokens == 0) return invalid("the prompt has no tokens");
  if (num_prompt_tokens >= info_.max_model_len) {
    return invalid(
        fmt::format("the prompt has {} tokens, but the context length is {}, of which "
                    "at least one must remain for the output",
                    num_prompt_tokens, info_.max_model_len));
  }
  for (const TokenId token : request.prompt) {
    if (token >= 0 && token < info_.vocab_size) continue;
    return invalid(fmt::format("token id {} is out of vocabulary: ids are 0 to {}", token,
                               info_.vocab_size - 1));
  }
  // The last token of the output needs no KV.
  const int64_t max_output = std::max(1, request.sampling.max_tokens);
  const int64_t most = std::min(num_prompt_tokens + max_output - 1, info_.max_model_len);
  if (!info_.enable_chunked_prefill && most > scheduler_options_.max_num_scheduled_tokens) {
    // After a preemption all of it runs again, in one step.
    return invalid(
        fmt::format("the request may have {} tokens to compute, but a step takes {} and chunked "
                    "prefill is off",
                    most, scheduler_options_.max_num_scheduled_tokens));
  }
  const int64_t room = (info_.num_blocks - 1) * info_.block_size;
  if (most > room) {
    return invalid(
        fmt::format("the request may need {} tokens of KV cache, but there is room for "
                    "{} in all; ask for fewer tokens or raise --kv-cache-memory-bytes",
                    most, room));
  }
  return {};
}

Status EngineCore::enqueue(EngineMessage message) {
  const bool is_abort = std::holds_alternative<AbortRequest>(message);
  Message queued{std::move(message), clock_.monotonic_s()};
  const bool pushed =
      is_abort ? queue_.push_unbounded(std::move(queued)) : queue_.try_push(std::move(queued));
  if (pushed) return {};
  if (queue_.closed()) return dead_error();
  return Error{Code::kOverloaded, "the engine's queue of messages is full"};
}

Status EngineCore::submit(EngineMessage message) {
  if (dead_.load()) return dead_error();
  auto* request = std::get_if<AddRequest>(&message);
  if (!request) return enqueue(std::move(message));
  OCTAVO_TRY(check_request(*request));
  const int64_t bytes = prompt_bytes(message);
  const int64_t queued = message_prompt_bytes_.fetch_add(bytes) + waiting_prompt_bytes_.load();
  Status status;
  if (queued + bytes > max_queued_prompt_bytes_) {
    status = Error{Code::kOverloaded,
                   fmt::format("prompts of {} bytes are queued already; the limit is {}", queued,
                               max_queued_prompt_bytes_)};
  } else {
    // What grows with the prompt is done here, on the caller's thread.
    if (info_.enable_prefix_caching) {
      request->block_hashes = *prompt_hasher_.hash(request->prompt, request->cache_salt);
    }
    status = enqueue(std::move(message));
  }
  if (!status.ok()) message_prompt_bytes_.fetch_sub(bytes);
  return status;
}

void EngineCore::interrupt() {
  fault_.release();
  queue_.push_unbounded(Message{Interrupt{}, 0.0});
}

// ---- The driver's thread ----

void EngineCore::wait_for_message(std::chrono::milliseconds timeout) {
  if (!pending_.empty() || dead_.load()) return;
  try {
    std::ranges::move(queue_.wait_and_take_all(timeout), std::back_inserter(pending_));
  } catch (const std::exception& e) {
    die(e.what());
  }
}

Result<bool> EngineCore::step() {
  if (dead_.load()) return dead_error();
  try {
    Result<bool> result = run_step();
    if (result.ok()) return result;
    return die(result.error().message);
  } catch (const std::exception& e) {
    return die(e.what());
  }
}

Result<bool> EngineCore::run_step() {
  bool did_something = apply_messages();
  did_something |= expire_deadlines();
  OCTAVO_TRY(const bool submitted, submit_step());
  // The pipe is filled first; what is in it comes out when it is full or nothing more fits.
  if (num_inflight_ == batches_.size() || (!submitted && num_inflight_ > 0)) {
    OCTAVO_TRY(const bool ran, collect_step());
    did_something |= ran;
  }
  if (did_something) publish();
  reply_to_drained();
  return did_something || num_inflight_ > 0 || can_progress();
}

Result<bool> EngineCore::submit_step() {
  StepBatch& batch = batches_[(oldest_batch_ + num_inflight_) % batches_.size()];
  scheduler_.schedule(clock_.monotonic_s(), batch);
  if (batch.sequences.empty() && batch.ended.empty()) return false;
  if (!batch.sequences.empty()) {
    OCTAVO_TRY(fault_.before_step(num_steps_finished_.load() + 1));
  }
  constraints_.clear();
  for (const NewSequence& added : batch.added) {
    if (auto constraint = scheduler_.constraint_of(added.id)) {
      constraints_.push_back({added.id, std::move(constraint)});
    }
  }
  OCTAVO_TRY(runner_->submit(batch, constraints_));
  ++num_inflight_;
  return true;
}

Result<bool> EngineCore::collect_step() {
  OCTAVO_TRY(runner_->collect(runner_output_));
  const StepBatch& batch = batches_[oldest_batch_];
  oldest_batch_ = (oldest_batch_ + 1) % batches_.size();
  --num_inflight_;
  if (batch.sequences.empty()) return false;  // the runner has only forgotten what has ended
  apply_late_aborts();
  scheduler_.update(batch, runner_output_, outputs_);
  num_collected_tokens_ = batch.num_tokens;
  return true;
}

bool EngineCore::can_progress() const {
  // Unfinished work that was not scheduled: after a preemption the next step resumes it; while
  // paused or passed over it waits for a message or for time.
  return scheduler_.pause() == PauseMode::kNone &&
         scheduler_.num_unfinished() > scheduler_.num_skipped();
}

bool EngineCore::apply_messages() {
  std::ranges::move(queue_.take_all(), std::back_inserter(pending_));
  bool applied = false;
  int64_t bytes = 0;
  while (!pending_.empty()) {
    Message message = std::move(pending_.front());
    pending_.pop_front();
    auto* content = std::get_if<EngineMessage>(&message.content);
    if (!content) continue;
    bytes += prompt_bytes(*content);
    applied = true;
    std::visit(Overload{[&](AddRequest& m) { apply(m, message.queued_s); },
                        [&](AbortRequest& m) { apply(m); }, [&](ControlRequest& m) { apply(m); }},
               *content);
  }
  waiting_prompt_bytes_.store(scheduler_.num_queued_prompt_tokens() *
                              static_cast<int64_t>(sizeof(TokenId)));
  message_prompt_bytes_.fetch_sub(bytes);
  return applied;
}

uint64_t EngineCore::seed_of(const AddRequest& request) const {
  if (request.sampling.seed) return static_cast<uint64_t>(*request.sampling.seed);
  SplitMix64 mix(entropy_ ^ (static_cast<uint64_t>(request.id.value()) * 0x9E3779B97F4A7C15));
  mix.next();
  return mix.next();
}

void EngineCore::apply(AddRequest& request, double queued_s) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = request.id;
  sequence->task = request.task;
  sequence->seed = seed_of(request);
  sequence->sampling = std::move(request.sampling);
  sequence->eos_token_id = request.eos_token_id;
  sequence->priority = request.priority;
  sequence->tenant = std::move(request.tenant);
  sequence->adapter_index = request.adapter_index;
  sequence->arrival_wall_s = request.arrival_wall_s;
  sequence->queued_s = queued_s;
  sequence->deadline_s = request.deadline_s;
  sequence->cache_salt = std::move(request.cache_salt);
  sequence->constraint = std::move(request.constraint);
  sequence->num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
  sequence->tokens = std::move(request.prompt);
  sequence->block_hashes = std::move(request.block_hashes);
  scheduler_.add(std::move(sequence));
}

void EngineCore::apply(const AbortRequest& request) {
  if (request.want_output && request.reason != FinishReason::kStop) {
    end_with_output(request.id, request.reason, {});
  } else {
    scheduler_.abort(request.id);
  }
}

void EngineCore::end_with_output(RequestId id, FinishReason reason, std::string error) {
  const auto sequence = scheduler_.abort(id);
  if (!sequence) return;
  SequenceOutput& output = outputs_.emplace_back(make_output(*sequence));
  output.finish_reason = reason;
  output.error = std::move(error);
}

void EngineCore::apply_late_aborts() {
  // Aborts that came while the model ran, so that an ended request gets no further output. One
  // whose request is still in a message keeps its place behind it.
  for (Message& message : queue_.take_all()) {
    const auto* content = std::get_if<EngineMessage>(&message.content);
    const auto* abort = content ? std::get_if<AbortRequest>(content) : nullptr;
    if (abort && scheduler_.contains(abort->id)) {
      apply(*abort);
    } else {
      pending_.push_back(std::move(message));
    }
  }
}

bool EngineCore::expire_deadlines() {
  bool any = false;
  const double now_s = clock_.monotonic_s();
  for (RequestId id = scheduler_.next_expired(now_s); id != RequestId();
       id = scheduler_.next_expired(now_s)) {
    end_with_output(id, FinishReason::kError, "deadline");
    any = true;
  }
  return any;
}

void EngineCore::apply(ControlRequest& request) {
  using Kind = ControlRequest::Kind;
  Status status;
  switch (request.kind) {
    case Kind::kPause:
      pause(request);
      return;
    case Kind::kResume:
      scheduler_.set_pause(PauseMode::kNone);
      break;
    case Kind::kResetPrefixCache:
      status = reset_prefix_cache(request.argument == "reset_running");
      break;
    default:
      status = Error{Code::kUnsupported,
                     fmt::format("this engine cannot {} yet", name_of(request.kind))};
  }
  if (request.reply) request.reply(std::move(status));
}

void EngineCore::pause(ControlRequest& request) {
  const std::string& mode = request.argument;
  if (mode == "wait") {
    scheduler_.set_pause(PauseMode::kNoAdmission);
    if (request.reply) drain_replies_.push_back(std::move(request.reply));
    return;
  }
  Status status;
  if (mode == "abort" || mode == "keep" || mode.empty()) {
    scheduler_.set_pause(PauseMode::kAll);
    if (mode == "abort") {
      auto ids = scheduler_.unfinished_ids();
      std::ranges::sort(ids);
      for (const RequestId id : ids) end_with_output(id, FinishReason::kAbort, {});
    }
  } else {
    status = Error{Code::kInvalidArgument,
                   fmt::format("pause mode is '{}'; allowed are abort, wait and keep", mode)};
  }
  if (request.reply) request.reply(std::move(status));
}

void EngineCore::reply_to_drained() {
  if (drain_replies_.empty() || scheduler_.num_started() > 0) return;
  for (auto& reply : std::exchange(drain_replies_, {})) reply({});
}

Status EngineCore::reset_prefix_cache(bool preempt_running) {
  if (preempt_running) scheduler_.preempt_all();
  if (kv_cache_.reset_prefix_cache()) {
    log::info(kCore, "Successfully reset prefix cache");
    return {};
  }
  const int32_t num_used = kv_cache_.num_usable_blocks() - kv_cache_.pool().num_free();
  log::warning(kCore, "Failed to reset prefix cache because some blocks ({}) are not freed yet",
               num_used);
  return Error{Code::kUnavailable,
               fmt::format("{} blocks of the prefix cache are in use", num_used)};
}

void EngineCore::publish() {
  StepOutput output;
  output.step = ++num_published_;
  output.timestamp_s = clock_.monotonic_s();
  output.stats = scheduler_.take_stats();
  output.outputs = std::exchange(outputs_, {});
  output.num_scheduled_tokens = std::exchange(num_collected_tokens_, 0);
  waiting_prompt_bytes_.store(scheduler_.num_queued_prompt_tokens() *
                              static_cast<int64_t>(sizeof(TokenId)));
  num_unfinished_.store(scheduler_.num_unfinished());
  last_step_finished_s_.store(output.timestamp_s);
  num_steps_finished_.fetch_add(1);
  sink_.publish(std::move(output));
}

Error EngineCore::die(const std::string& reason) {
  // From here submit refuses; what is queued already is answered by the sink.
  dead_.store(true);
  queue_.close();
  try {
    log::error(kCore, "EngineCore encountered a fatal error. {}", reason);
    refuse_pending();
  } catch (const std::exception&) {
    // Out of memory, perhaps the very reason: nobody may miss the news below.
  }
  sink_.engine_died(reason);
  return Error{Code::kUnavailable, reason};
}

void EngineCore::refuse_pending() {
  std::ranges::move(queue_.take_all(), std::back_inserter(pending_));
  for (Message& message : pending_) {
    auto* content = std::get_if<EngineMessage>(&message.content);
    auto* control = content ? std::get_if<ControlRequest>(content) : nullptr;
    if (control && control->reply) control->reply(dead_error());
  }
  pending_.clear();
  for (auto& reply : std::exchange(drain_replies_, {})) reply(dead_error());
}

}  // namespace octavo::engine
