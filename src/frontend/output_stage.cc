#include "frontend/output_stage.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/thread_name.h"

namespace octavo::frontend {

using engine::FinishReason;

/// One sequence of the engine: its text so far and what its client has not been told yet.
struct OutputStage::Sample {
  Sample(const tokenizer::Tokenizer& tokenizer, const Registration& registration, int32_t index,
         std::shared_ptr<RequestTally> request)
      : stream(registration.stream),
        index(index),
        text(registration.text),
        min_tokens(registration.min_tokens),
        num_prefill_tokens(registration.num_prompt_tokens),
        num_held_bytes(registration.num_held_bytes),
        decoder(tokenizer, registration.text.skip_special_tokens &&
                               !registration.text.parser_sees_special_tokens),
        stop(registration.stop) {
    text.stop.clear();  // kept once, in the patterns
    tally.request = std::move(request);
    tally.arrival_wall_s = registration.arrival_wall_s;
    tally.max_tokens = registration.max_tokens;
    tally.num_prompt_tokens = registration.num_prompt_tokens;
    pending.index = index;
  }

  std::shared_ptr<StreamState> stream;
  int32_t index;
  TextParams text;
  int32_t min_tokens;
  int32_t num_prefill_tokens;  // counted in Load until the first output
  int64_t num_held_bytes;      // counted in Load until the end
  tokenizer::IncrementalDecoder decoder;
  StopMatcher stop;
  SampleTally tally;
  Delta pending;              // held by stream_interval or final_only
  int32_t num_delivered = 0;  // tokens
};

namespace {

/// Steps that wait for this thread before the engine waits for it: so many are a moment's delay,
/// more would be memory without end.
constexpr int64_t kMaxQueuedSteps = 64;

}  // namespace

OutputStage::OutputStage(const tokenizer::Tokenizer& tokenizer, Clock& clock, Load& load)
    : tokenizer_(tokenizer), clock_(clock), load_(load), events_(SIZE_MAX) {}

OutputStage::~OutputStage() { stop(); }

void OutputStage::start(engine::Engine& engine, observability::EngineMetrics& metrics,
                        StatsSink* stats) {
  engine_ = &engine;
  stats_ = stats;
  accounting_ = std::make_unique<RequestAccounting>(metrics, stats);
  thread_ = std::thread([this] {
    name_this_thread("output");
    run();
  });
}

void OutputStage::stop() {
  events_.close();
  if (thread_.joinable()) thread_.join();
}

void OutputStage::publish(engine::StepOutput output) {
  for (int64_t n = num_queued_steps_.load(); n >= kMaxQueuedSteps; n = num_queued_steps_.load()) {
    num_queued_steps_.wait(n);
  }
  num_queued_steps_.fetch_add(1);
  if (!events_.push_unbounded(std::move(output))) num_queued_steps_.fetch_sub(1);
}

void OutputStage::engine_died(const std::string& reason) {
  engine_dead_.store(true);
  events_.push_unbounded(EngineDied{reason});
}

bool OutputStage::add(Registration registration) {
  const int64_t n = registration.stream->n();
  const int64_t num_prefill_tokens = n * registration.num_prompt_tokens;
  const int64_t num_held_bytes = n * registration.num_held_bytes;
  // The time first: whoever sees work must not see the time of long ago. And again, if the last
  // sample ended in between.
  const double now_s = clock_.monotonic_s();
  if (load_.num_unfinished.load() == 0) load_.busy_since_s.store(now_s);
  if (load_.num_unfinished.fetch_add(n) == 0) load_.busy_since_s.store(now_s);
  load_.num_prefill_tokens.fetch_add(num_prefill_tokens);
  load_.num_held_bytes.fetch_add(num_held_bytes);
  if (events_.push_unbounded(std::move(registration))) return true;
  load_.num_unfinished.fetch_sub(n);
  load_.num_prefill_tokens.fetch_sub(num_prefill_tokens);
  load_.num_held_bytes.fetch_sub(num_held_bytes);
  return false;
}

void OutputStage::remove(std::shared_ptr<StreamState> stream) {
  events_.push_unbounded(Remove{std::move(stream)});
}

void OutputStage::client_abort(std::shared_ptr<StreamState> stream) {
  events_.push_unbounded(ClientAbort{std::move(stream)});
}

void OutputStage::abort_all() { events_.push_unbounded(AbortAll{}); }

void OutputStage::fail_all(const std::string& reason) { events_.push_unbounded(FailAll{reason}); }

void OutputStage::run() {
  try {
    serve_events();
  } catch (const std::exception&) {  // not what(): it may quote a text
    log::error(log::Source::kApiServer, "The output thread failed; every request ends");
    fail();
  }
  // Whatever the engine still publishes has nobody to wait for.
  num_queued_steps_.store(std::numeric_limits<int64_t>::min() / 2);
  num_queued_steps_.notify_all();
}

void OutputStage::serve_events() {
  // Often enough for a stats line that is due while nothing happens.
  constexpr std::chrono::milliseconds kTick{200};
  while (!events_.closed() || events_.size() > 0) {
    std::ranges::move(events_.wait_and_take_all(kTick), std::back_inserter(batch_));
    for (; !batch_.empty(); batch_.pop_front()) {
      std::visit([this](auto& e) { handle(e); }, batch_.front());
      if (!std::holds_alternative<Registration>(batch_.front())) flush();
    }
    if (stats_ != nullptr) stats_->tick(clock_.monotonic_s());
  }
  end_all(FinishReason::kAbort, {});
  flush();
}

// For clients a dead output thread is a dead engine: all open requests end now, those that it has
// not seen yet included, and new ones are refused.
void OutputStage::fail() {
  engine_dead_.store(true);
  events_.close();
  for (Event& event : events_.take_all()) batch_.push_back(std::move(event));
  for (Event& event : batch_) {
    if (auto* registration = std::get_if<Registration>(&event)) handle(*registration);
  }
  batch_.clear();
  end_all(FinishReason::kError, {});
  flush();
}

void OutputStage::flush() {
  accounting_->publish();
  for (const auto& stream : touched_) stream->notify();
  touched_.clear();
}

void OutputStage::handle(engine::StepOutput& step) {
  num_queued_steps_.fetch_sub(1);
  num_queued_steps_.notify_one();
  accounting_->begin_step(clock_.wall_s());
  for (engine::SequenceOutput& output : step.outputs) {
    const auto it = samples_.find(output.id);
    if (it == samples_.end()) continue;  // ended here already: overshoot
    if (apply(*it->second, output, step.timestamp_s)) erase(it);
  }
  accounting_->end_step(step.stats);
}

void OutputStage::handle(Registration& registration) {
  const int32_t n = registration.stream->n();
  auto request = std::make_shared<RequestTally>(RequestTally{.n = n, .num_open = n});
  for (int32_t index = 0; index < n; ++index) {
    samples_.emplace(registration.stream->id_of(index),
                     std::make_unique<Sample>(tokenizer_, registration, index, request));
  }
}

void OutputStage::handle(Remove& event) {
  for (int32_t index = 0; index < event.stream->n(); ++index) {
    if (auto it = samples_.find(event.stream->id_of(index)); it != samples_.end()) erase(it);
  }
}

void OutputStage::handle(ClientAbort& event) {
  accounting_->begin_step(clock_.wall_s());
  for (int32_t index = 0; index < event.stream->n(); ++index) {
    const auto it = samples_.find(event.stream->id_of(index));
    if (it == samples_.end()) continue;
    Sample& sample = *it->second;
    accounting_->record_end(sample.tally, FinishReason::kAbort, /*client_gone=*/true);
    Delta delta;
    delta.finish_reason = FinishReason::kAbort;
    deliver(sample, std::move(delta));
    erase(it);
  }
}

void OutputStage::handle(AbortAll&) {
  for (const auto& [id, sample] : samples_) {
    // Refused only by a dead engine, whose death ends the samples.
    (void)engine_->submit(engine::AbortRequest{id, FinishReason::kAbort, /*want_output=*/true});
  }
}

void OutputStage::handle(FailAll& event) { end_all(FinishReason::kError, event.reason); }

void OutputStage::handle(EngineDied& event) {
  accounting_->begin_step(clock_.wall_s());
  end_all(FinishReason::kError, event.reason);
  engine::SchedulerStats nothing;  // the queues are gone with the engine
  accounting_->end_step(nothing);
}

void OutputStage::end_all(FinishReason reason, const std::string& error) {
  while (!samples_.empty()) {
    const auto it = samples_.begin();
    accounting_->record_end(it->second->tally, reason, /*client_gone=*/true);
    Delta delta;
    delta.finish_reason = reason;
    delta.error = error;
    deliver(*it->second, std::move(delta));
    erase(it);
  }
}

/// Takes one output of the engine; true when the sample has ended.
bool OutputStage::apply(Sample& sample, engine::SequenceOutput& output, double timestamp_s) {
  Delta delta;
  delta.prompt_logprobs = std::move(output.prompt_logprobs);
  delta.finish_reason = output.finish_reason;
  delta.stop_reason = output.stop_reason;
  delta.error = std::move(output.error);
  decode(sample, output, delta);
  if (!delta.token_ids.empty()) {
    leave_prefill(sample);
    accounting_->record_tokens(sample.tally, output, timestamp_s,
                               static_cast<int32_t>(delta.token_ids.size()));
  }
  const bool stopped_here = delta.finish_reason && !output.finish_reason;
  if (stopped_here) {
    (void)engine_->submit(engine::AbortRequest{output.id, FinishReason::kStop, false});
  }
  const bool ended = delta.finish_reason.has_value();
  if (ended) accounting_->record_end(sample.tally, *delta.finish_reason, /*client_gone=*/false);
  deliver(sample, std::move(delta));
  return ended;
}

/// Detokenises the new tokens one by one, so that a stop string ends the sample at the token that
/// completed it.
void OutputStage::decode(Sample& sample, engine::SequenceOutput& output, Delta& delta) {
  const size_t num_new = output.new_token_ids.size();
  // The token that made the engine stop (EOS or a stop id) is no text, unless asked for.
  const bool hide_last =
      output.finish_reason == FinishReason::kStop && !sample.text.include_stop_str_in_output;
  for (size_t i = 0; i < num_new; ++i) {
    const engine::TokenId token = output.new_token_ids[i];
    delta.token_ids.push_back(token);
    if (i < output.logprobs.size()) delta.logprobs.push_back(std::move(output.logprobs[i]));
    if (hide_last && i + 1 == num_new) break;
    if (sample.text.ids_only) continue;
    const int64_t position =
        int64_t{sample.tally.num_generated_tokens} + static_cast<int64_t>(i) + 1;
    const bool check = position > sample.min_tokens;
    StopMatcher::Result shown =
        sample.stop.push(sample.decoder.push(token), check, sample.text.include_stop_str_in_output);
    delta.text += shown.text;
    if (shown.stop != nullptr) {
      delta.finish_reason = FinishReason::kStop;
      delta.stop_reason = *shown.stop;
      return;
    }
  }
  if (!delta.finish_reason) return;
  delta.text += sample.stop.take_held();
  delta.text += sample.decoder.finish();
}

void OutputStage::deliver(Sample& sample, Delta&& delta) {
  delta.num_prompt_tokens = sample.tally.num_prompt_tokens;
  delta.num_cached_tokens = sample.tally.num_cached_tokens;
  delta.num_generated_tokens = sample.tally.num_generated_tokens;
  merge(sample.pending, std::move(delta));
  if (!sample.pending.finish_reason) {
    const int32_t num_new = sample.tally.num_generated_tokens - sample.num_delivered;
    const bool due = sample.num_delivered == 0 || num_new >= sample.text.stream_interval;
    if (sample.text.final_only || num_new == 0 || !due) return;
  }
  sample.num_delivered = sample.tally.num_generated_tokens;
  Delta ready = std::exchange(sample.pending, Delta{});
  sample.pending.index = sample.index;
  sample.stream->add(std::move(ready));
  if (touched_.empty() || touched_.back() != sample.stream) touched_.push_back(sample.stream);
}

void OutputStage::leave_prefill(Sample& sample) {
  load_.num_prefill_tokens.fetch_sub(std::exchange(sample.num_prefill_tokens, 0));
}

void OutputStage::erase(
    std::unordered_map<engine::RequestId, std::unique_ptr<Sample>>::iterator it) {
  leave_prefill(*it->second);
  load_.num_held_bytes.fetch_sub(it->second->num_held_bytes);
  load_.num_unfinished.fetch_sub(1);
  samples_.erase(it);
}

}  // namespace octavo::frontend
