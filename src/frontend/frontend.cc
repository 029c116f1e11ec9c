#include "frontend/frontend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "frontend/cache_config_info.h"
#include "frontend/output_stage.h"

namespace octavo::frontend {
namespace {

/// Work waits and no step has finished for so long: not live.
constexpr double kLiveTimeoutS = 30.0;

/// Carries aborts from streams, which may outlive the frontend, to it.
class FrontendAbortPort final : public AbortPort {
 public:
  FrontendAbortPort(OutputStage& stage, engine::Engine& engine)
      : stage_(&stage), engine_(&engine) {}
  void abort(const std::shared_ptr<StreamState>& stream) override {
    if (!stream->log_id().empty()) {
      log::info(log::Source::kApiServer, "Aborted request(s) {}.", stream->log_id());
    }
    std::lock_guard lock(mutex_);
    if (stage_ == nullptr) return;
    // First to the output stage: it ends the samples before it can see an output of the abort.
    stage_->client_abort(stream);
    for (int32_t index = 0; index < stream->n(); ++index) {
      (void)engine_->submit(
          engine::AbortRequest{stream->id_of(index), engine::FinishReason::kAbort, false});
    }
  }
  void close() {
    std::lock_guard lock(mutex_);
    stage_ = nullptr;
  }

 private:
  std::mutex mutex_;
  OutputStage* stage_;
  engine::Engine* engine_;
};

/// What one sample carries through the queues: its own copy of the prompt and the parameters, and
/// the hashes of the prompt's blocks.
int64_t bytes_per_sample(const GenerateRequest& request, int64_t block_size) {
  const engine::SamplingParams& p = request.sampling;
  const size_t num_blocks =
      request.prompt.size() / static_cast<size_t>(std::max<int64_t>(block_size, 1));
  return static_cast<int64_t>(sizeof(engine::AddRequest) +
                              request.prompt.size() * sizeof(engine::TokenId) +
                              num_blocks * sizeof(engine::BlockHash) + request.cache_salt.size() +
                              engine::num_list_bytes(p));
}

void log_received(const GenerateRequest& request) {
  const engine::SamplingParams& p = request.sampling;
  log::info(log::Source::kApiServer,
            "Received request {}: params: n={}, temperature={}, top_p={}, top_k={}, min_p={}, "
            "max_tokens={}, min_tokens={}, num_prompt_tokens={}, lora_request: None.",
            request.request_id, request.n, p.temperature, p.top_p, p.top_k, p.min_p, p.max_tokens,
            p.min_tokens, request.prompt.size());
}

class FrontendImpl final : public Frontend {
 public:
  FrontendImpl(Options options, std::unique_ptr<tokenizer::Tokenizer> tokenizer, Clock& clock)
      : options_(std::move(options)),
        tokenizer_(std::move(tokenizer)),
        clock_(clock),
        stage_(*tokenizer_, clock, load_) {}
  ~FrontendImpl() override { stop(); }

  Status start(const EngineFactory& factory) {
    OCTAVO_TRY(engine_, factory(stage_));
    OCTAVO_TRY(engine_->warm_up());
    const engine::EngineInfo& info = engine_->info();
    metrics_ = std::make_unique<observability::EngineMetrics>(observability::EngineMetrics::Options{
        .model_name = options_.model_name,
        .engine_index = 0,
        .max_model_len = info.max_model_len,
        .now_wall_s = clock_.wall_s(),
        .cache_config_info = cache_config_info(options_.cache, info)});
    metrics_->publish();
    stage_.start(*engine_, *metrics_, options_.stats.get());
    port_ = std::make_shared<FrontendAbortPort>(stage_, *engine_);
    engine_thread_ = std::make_unique<engine::EngineThread>(*engine_);
    engine_thread_->start();
    return {};
  }

  Result<std::shared_ptr<OutputStream>> generate(GenerateRequest request) override {
    std::vector<GenerateRequest> requests;
    requests.push_back(std::move(request));
    OCTAVO_TRY(auto streams, generate_all(std::move(requests)));
    return std::move(streams.front());
  }
  Result<std::vector<std::shared_ptr<OutputStream>>> generate_all(
      std::vector<GenerateRequest> requests) override;

  void control(engine::ControlRequest::Kind kind, std::string argument,
               std::function<void(Status)> reply) override {
    // Kept here too: a message that the engine does not take comes back as an error alone.
    auto shared = std::make_shared<std::function<void(Status)>>(std::move(reply));
    Status refused = engine_->submit(engine::ControlRequest{
        kind, std::move(argument), [shared](Status status) { (*shared)(std::move(status)); }});
    if (!refused.ok()) (*shared)(std::move(refused));
  }

  const tokenizer::Tokenizer& tokenizer() const override { return *tokenizer_; }
  const engine::EngineInfo& engine_info() const override { return engine_->info(); }
  const observability::EngineMetrics& metrics() const override { return *metrics_; }
  bool engine_dead() const override { return stage_.engine_dead() || engine_->dead(); }

  bool live() const override {
    if (engine_dead()) return false;
    if (num_unfinished() == 0) return true;
    const double since = std::max(engine_->last_step_finished_s(), load_.busy_since_s.load());
    return clock_.monotonic_s() - since <= kLiveTimeoutS;
  }
  /// The warm-up has made a token before the frontend existed.
  bool ready() const override { return !draining_.load() && !stopped_ && !engine_dead(); }
  int64_t num_unfinished() const override { return load_.num_unfinished.load(); }

  void begin_drain() override { draining_.store(true); }
  void abort_all() override { stage_.abort_all(); }
  void fail_all(const std::string& reason) override { stage_.fail_all(reason); }
  void stop() override {
    if (stopped_.exchange(true)) return;
    draining_.store(true);
    if (engine_thread_) engine_thread_->stop();
    if (port_) port_->close();
    stage_.stop();
  }

 private:
  /// A request on its way in.
  struct Entrant {
    GenerateRequest request;
    OutputStage::Registration registration;
  };
  Entrant make_entrant(GenerateRequest request);
  Status admit_bytes(int64_t num_asked) const;
  Status admit(const std::vector<Entrant>& entrants) const;
  void abort_samples(const StreamState& stream);
  Status submit_samples(GenerateRequest& request, const StreamState& stream);

  Options options_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  Clock& clock_;
  OutputStage::Load load_;
  OutputStage stage_;
  std::unique_ptr<engine::Engine> engine_;  // publishes into stage_
  std::unique_ptr<observability::EngineMetrics> metrics_;
  std::shared_ptr<FrontendAbortPort> port_;
  std::unique_ptr<engine::EngineThread> engine_thread_;
  std::atomic<int64_t> next_id_{1};
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopped_{false};
  std::mutex admission_;  // limits are checked and taken as one
};

Status FrontendImpl::admit_bytes(int64_t num_asked) const {
  const int64_t max = options_.max_held_bytes;
  if (num_asked > max) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("Prompts and parameters of all samples have {} bytes, more than the {} "
                    "of all requests together; ask for fewer samples",
                    num_asked, max),
        "n"};
  }
  const int64_t current = load_.num_held_bytes.load();
  if (current + num_asked <= max) return {};
  return Error{Code::kOverloaded,
               fmt::format("Request queue full: {} bytes of prompts and parameters wait, {} asked, "
                           "the limit is {}",
                           current, num_asked, max)};
}

Status FrontendImpl::admit(const std::vector<Entrant>& entrants) const {
  const std::string& id = entrants.front().request.request_id;
  int64_t n = 0;
  int64_t num_bytes = 0;
  for (const Entrant& entrant : entrants) {
    n += entrant.request.n;
    num_bytes += entrant.request.n * entrant.registration.num_held_bytes;
  }
  OCTAVO_TRY(admit_bytes(num_bytes));
  if (const auto& max = options_.scheduler.max_num_queued_reqs) {
    const int64_t current = num_unfinished();
    if (current + n > *max) {
      log::info(log::Source::kApiServer,
                "Request queue full - rejecting request {} (current={}, n={}, max={}).", id,
                current, n, *max);
      return Error{
          Code::kOverloaded,
          fmt::format("Request queue full: {} unfinished requests, {} asked, the limit is {} "
                      "(--max-num-queued-reqs)",
                      current, n, *max)};
    }
  }
  if (const auto& max = options_.scheduler.max_num_queued_tokens) {
    const int64_t current = load_.num_prefill_tokens.load();
    if (current >= *max) {
      log::info(log::Source::kApiServer,
                "Max queued tokens reached - rejecting request {} (current_tokens={}, max={}).", id,
                current, *max);
      return Error{Code::kOverloaded,
                   fmt::format("Max queued tokens reached: {} prompt tokens wait, the limit is {} "
                               "(--max-num-queued-tokens)",
                               current, *max)};
    }
  }
  return {};
}

FrontendImpl::Entrant FrontendImpl::make_entrant(GenerateRequest request) {
  auto stream = std::make_shared<StreamState>(
      engine::RequestId(next_id_.fetch_add(request.n)), request.n,
      options_.config.enable_log_requests ? request.request_id : std::string());
  const size_t max_text_bytes =
      (static_cast<size_t>(request.sampling.max_tokens) + 1) * tokenizer_->max_token_bytes();
  OutputStage::Registration registration{
      .stream = std::move(stream),
      .text = request.text,
      .min_tokens = request.sampling.min_tokens,
      .max_tokens = request.sampling.max_tokens,
      .num_prompt_tokens = static_cast<int32_t>(request.prompt.size()),
      .num_held_bytes = bytes_per_sample(request, engine_->info().block_size),
      .arrival_wall_s = request.arrival_wall_s,
      .stop = std::make_shared<const StopPatterns>(request.text.stop, max_text_bytes)};
  registration.text.stream_interval = static_cast<int32_t>(std::clamp<int64_t>(
      std::max<int64_t>(request.text.stream_interval, options_.config.stream_interval), 1,
      std::numeric_limits<int32_t>::max()));
  if (options_.config.enable_log_requests) log_received(request);
  return {.request = std::move(request), .registration = std::move(registration)};
}

Result<std::vector<std::shared_ptr<OutputStream>>> FrontendImpl::generate_all(
    std::vector<GenerateRequest> requests) {
  if (engine_dead()) return Error{Code::kUnavailable, "The engine has stopped"};
  if (draining_.load()) return Error{Code::kUnavailable, "The server is shutting down"};
  std::vector<Entrant> entrants;
  for (GenerateRequest& request : requests) entrants.push_back(make_entrant(std::move(request)));
  std::vector<std::shared_ptr<OutputStream>> out;
  if (entrants.empty()) return out;
  {
    std::lock_guard lock(admission_);
    OCTAVO_TRY(admit(entrants));
    for (const Entrant& entrant : entrants) {
      if (!stage_.add(entrant.registration)) {
        return Error{Code::kUnavailable, "The server is shutting down"};
      }
    }
  }
  for (size_t i = 0; i < entrants.size(); ++i) {
    if (Status status = submit_samples(entrants[i].request, *entrants[i].registration.stream);
        !status.ok()) {
      for (size_t j = 0; j < i; ++j) abort_samples(*entrants[j].registration.stream);
      for (const Entrant& entrant : entrants) stage_.remove(entrant.registration.stream);
      return std::move(status).error();
    }
  }
  for (Entrant& entrant : entrants) {
    std::shared_ptr<StreamState>& stream = entrant.registration.stream;
    if (!stream->log_id().empty()) {
      log::info(log::Source::kApiServer, "Added request {}.", stream->log_id());
    }
    out.push_back(std::make_shared<StreamHandle>(std::move(stream), port_));
  }
  return out;
}

void FrontendImpl::abort_samples(const StreamState& stream) {
  for (int32_t index = 0; index < stream.n(); ++index) {
    (void)engine_->submit(
        engine::AbortRequest{stream.id_of(index), engine::FinishReason::kAbort, false});
  }
}

/// All n samples, or none.
Status FrontendImpl::submit_samples(GenerateRequest& request, const StreamState& stream) {
  engine::AddRequest add;
  add.sampling = std::move(request.sampling);
  add.eos_token_id = tokenizer_->eos_token_id();
  add.arrival_wall_s = request.arrival_wall_s;
  add.priority = request.priority;
  add.cache_salt = std::move(request.cache_salt);
  add.prompt = std::move(request.prompt);
  const std::optional<int64_t> seed = add.sampling.seed;
  for (int32_t index = 0; index < request.n; ++index) {
    const bool last = index + 1 == request.n;
    engine::AddRequest child = last ? std::move(add) : add;
    child.id = stream.id_of(index);
    if (seed) {
      child.sampling.seed =
          static_cast<int64_t>(static_cast<uint64_t>(*seed) + static_cast<uint64_t>(index));
    }
    if (Status status = engine_->submit(std::move(child)); !status.ok()) {
      for (int32_t earlier = 0; earlier < index; ++earlier) {
        (void)engine_->submit(
            engine::AbortRequest{stream.id_of(earlier), engine::FinishReason::kAbort, false});
      }
      return status;
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Frontend>> create_frontend(Frontend::Options options, EngineFactory factory,
                                                  std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                                                  Clock& clock) {
  auto frontend = std::make_unique<FrontendImpl>(std::move(options), std::move(tokenizer), clock);
  OCTAVO_TRY(frontend->start(factory));
  return std::unique_ptr<Frontend>(std::move(frontend));
}

}  // namespace octavo::frontend
