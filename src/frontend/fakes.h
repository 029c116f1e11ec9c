#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

// Stand-ins for tests of frontend/ and openai/.

namespace octavo::frontend::fakes {

/// Ids 0..255 are the bytes; 256 = <s>, 257 = </s> (eos), 258 = <|im_start|>, 259 = <|im_end|>, all
/// special; 260.. are the words given.
class FakeTokenizer final : public tokenizer::Tokenizer {
 public:
  using TokenId = tokenizer::TokenId;
  explicit FakeTokenizer(std::vector<std::string> words = {}) {
    for (int byte = 0; byte < 256; ++byte)
      tokens_.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* special : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"})
      tokens_.push_back(special);
    for (std::string& word : words) tokens_.push_back(std::move(word));
  }
  std::vector<TokenId> encode(std::string_view text,
                              const tokenizer::EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special_tokens && add_bos) ids.push_back(256);
    for (size_t at = 0; at < text.size();) {
      TokenId id = static_cast<uint8_t>(text[at]);
      size_t length = 1;
      for (TokenId special = 256; special < 260; ++special) {
        const std::string& token = tokens_[static_cast<size_t>(special)];
        if (text.substr(at, token.size()) != token) continue;
        bool inside = false;
        for (const auto& span : options.untrusted) {
          inside |= span.begin < at + token.size() && at < span.end;
        }
        if (!inside) id = special, length = token.size();
      }
      ids.push_back(id);
      at += length;
    }
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    tokenizer::IncrementalDecoder decoder(*this, skip_special_tokens);
    std::string text;
    for (TokenId id : ids) text += decoder.push(id);
    return text + decoder.finish();
  }
  std::string_view token_bytes(TokenId id) const override {
    return is_known(id) ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }
  std::string_view token_string(TokenId id) const override { return token_bytes(id); }
  TokenId find(std::string_view token_string) const override {
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (tokens_[i] == token_string) return static_cast<TokenId>(i);
    return -1;
  }
  bool is_special(TokenId id) const override { return id >= 256 && id < 260; }
  bool is_known(TokenId id) const override {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size();
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  size_t max_token_bytes() const override { return 16; }
  TokenId bos_token_id() const override { return 256; }
  TokenId eos_token_id() const override { return 257; }
  std::string_view bos_token() const override { return "<s>"; }
  std::string_view eos_token() const override { return "</s>"; }

  bool add_bos = false;

 private:
  std::vector<std::string> tokens_;
};

/// Answers each request with the tokens of `script` (or its own prompt, when empty), one per step.
/// Steps only when a test or EngineThread calls `step`.
class FakeEngine final : public engine::Engine {
 public:
  FakeEngine(engine::OutputSink& sink, Clock& clock) : sink_(sink), clock_(clock) {
    info_.max_model_len = 64;
    info_.max_num_seqs = 8;
    info_.block_size = 16;
    info_.num_blocks = 101;
    info_.vocab_size = 300;
    info_.kv_cache_size_tokens = 1600;
    info_.kv_cache_max_concurrency = 25.25;
  }
  const engine::EngineInfo& info() const override { return info_; }
  Status submit(engine::EngineMessage message) override {
    std::lock_guard lock(mutex_);
    if (dead_) return Error{Code::kUnavailable, "The engine has stopped"};
    const auto* add = std::get_if<engine::AddRequest>(&message);
    if (add && static_cast<int64_t>(add->prompt.size()) >= info_.max_model_len) {
      return Error{Code::kInvalidArgument, "the prompt does not fit", "prompt"};
    }
    const bool is_abort = std::holds_alternative<engine::AbortRequest>(message);
    if (!is_abort && refuse_after >= 0 && num_added++ >= refuse_after) {
      return Error{Code::kOverloaded, "The queue is full"};
    }
    messages_.push_back(std::move(message));
    arrived_.notify_all();
    return {};
  }
  Result<bool> step() override {
    engine::StepOutput step;
    {
      std::lock_guard lock(mutex_);
      if (dead_) return Error{Code::kInternal, "dead"};
      if (hold || num_steps_ >= hold_after || (messages_.empty() && running_.empty())) return false;
      while (!messages_.empty()) {
        take(std::move(messages_.front()), step);
        messages_.pop_front();
      }
      for (auto it = running_.begin(); it != running_.end();) {
        fill_output(it->second, step.outputs.emplace_back());
        it = step.outputs.back().finish_reason ? running_.erase(it) : std::next(it);
      }
      step.step = ++num_steps_;
      step.timestamp_s = clock_.monotonic_s();
      step.stats = stats;
      step.stats.num_running = static_cast<int32_t>(running_.size());
      num_unfinished_ = static_cast<int64_t>(running_.size());
      last_step_s_ = step.timestamp_s;
    }
    sink_.publish(std::move(step));
    return true;
  }
  void wait_for_message(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, timeout, [&] { return !messages_.empty() || dead_; });
  }
  void interrupt() override { arrived_.notify_all(); }
  Status warm_up() override { return {}; }
  bool dead() const override { return dead_; }
  int64_t num_unfinished() const override { return num_unfinished_; }
  int64_t num_steps_finished() const override { return num_steps_; }
  double last_step_finished_s() const override { return last_step_s_; }

  void die(const std::string& reason) {
    dead_ = true;
    sink_.engine_died(reason);
  }
  std::vector<engine::AbortRequest> aborts() const {
    std::lock_guard lock(mutex_);
    return aborts_;
  }
  std::vector<engine::AddRequest> added() const {
    std::lock_guard lock(mutex_);
    return added_;
  }

  std::vector<engine::TokenId> script;
  std::vector<engine::TokenLogprobs::Entry> top;  // what every position reports as top entries
  engine::SchedulerStats stats;
  int refuse_after = -1;                       // refuse the AddRequest after so many
  std::atomic<bool> hold{false};               // do nothing in `step`
  std::atomic<int64_t> hold_after{INT64_MAX};  // the same once so many steps are done
  std::string error;                           // ends every request with kError
  int32_t num_cached_tokens = 0;
  Status control_reply;  // to every control message

 private:
  struct Running {
    engine::AddRequest request;
    size_t num_out = 0;
  };
  void take(engine::EngineMessage message, engine::StepOutput& step) {
    if (auto* add = std::get_if<engine::AddRequest>(&message)) {
      added_.push_back(*add);
      running_[add->id.value()] = Running{std::move(*add), 0};
    } else if (auto* control = std::get_if<engine::ControlRequest>(&message)) {
      control->reply(control_reply);
    } else if (auto* abort = std::get_if<engine::AbortRequest>(&message)) {
      aborts_.push_back(*abort);
      if (running_.erase(abort->id.value()) > 0 && abort->want_output) {
        engine::SequenceOutput& output = step.outputs.emplace_back();
        output.id = abort->id;
        output.finish_reason = abort->reason;
      }
    }
  }
  void fill_output(Running& r, engine::SequenceOutput& output) {
    output.id = r.request.id;
    if (!error.empty()) {
      output.finish_reason = engine::FinishReason::kError;
      output.error = error;
      return;
    }
    const auto& tokens = script.empty() ? r.request.prompt : script;
    const engine::TokenId token = tokens[r.num_out % tokens.size()];
    const auto& sampling = r.request.sampling;
    if (r.num_out == 0 && sampling.prompt_logprobs) {
      output.prompt_logprobs.emplace_back();
      for (size_t i = 1; i < r.request.prompt.size(); ++i) {
        output.prompt_logprobs.push_back(
            logprobs_of(r.request.prompt[i], *sampling.prompt_logprobs));
      }
    }
    output.new_token_ids = {token};
    if (sampling.logprobs) output.logprobs = {logprobs_of(token, *sampling.logprobs)};
    output.num_prompt_tokens = static_cast<int32_t>(r.request.prompt.size());
    output.num_cached_tokens = num_cached_tokens;
    output.queued_s = 1.0;
    output.first_scheduled_s = 2.0;
    ++r.num_out;
    const auto& ids = sampling.stop_token_ids;
    const bool allowed = static_cast<int32_t>(r.num_out) > sampling.min_tokens;
    if (token == r.request.eos_token_id && !sampling.ignore_eos && allowed) {
      output.finish_reason = engine::FinishReason::kStop;
    } else if (std::find(ids.begin(), ids.end(), token) != ids.end() && allowed) {
      output.finish_reason = engine::FinishReason::kStop;
      output.stop_reason.emplace<engine::TokenId>(token);
    } else if (static_cast<int32_t>(r.num_out) >= sampling.max_tokens) {
      output.finish_reason = engine::FinishReason::kLength;
    }
  }
  engine::TokenLogprobs logprobs_of(engine::TokenId token, int32_t k) const {
    engine::TokenLogprobs out;
    out.chosen = {token, -0.5f, 1};
    for (const auto& entry : top) {
      if (static_cast<int32_t>(out.top.size()) < k) out.top.push_back(entry);
    }
    return out;
  }

  engine::OutputSink& sink_;
  Clock& clock_;
  engine::EngineInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<engine::EngineMessage> messages_;
  std::map<int64_t, Running> running_;
  std::vector<engine::AddRequest> added_;
  std::vector<engine::AbortRequest> aborts_;
  std::atomic<bool> dead_{false};
  std::atomic<int64_t> num_unfinished_{0};
  std::atomic<int64_t> num_steps_{0};
  std::atomic<double> last_step_s_{0.0};
  int num_added = 0;
};

}  // namespace octavo::frontend::fakes
