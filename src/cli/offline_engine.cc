#include "cli/offline_engine.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "cli/load_model.h"
#include "cli/model_files.h"
#include "frontend/frontend.h"
#include "kernels/dispatch.h"
#include "tokenizer/tokenizer.h"

namespace octavo::cli {
namespace {

using frontend::Frontend;

class FrontendEngine final : public bench::OfflineEngine {
 public:
  FrontendEngine(std::string model, std::unique_ptr<SystemClock> clock,
                 std::unique_ptr<Frontend> frontend)
      : model_(std::move(model)), clock_(std::move(clock)), frontend_(std::move(frontend)) {}
  ~FrontendEngine() override { frontend_->stop(); }

  const std::string& model() const override { return model_; }
  int64_t max_model_len() const override { return frontend_->engine_info().max_model_len; }
  int64_t vocab_size() const override { return frontend_->engine_info().vocab_size; }

  Result<bench::OfflineRun> generate(std::span<const bench::OfflineRequest> requests,
                                     int32_t n) override {
    bench::OfflineRun run;
    std::vector<std::shared_ptr<frontend::OutputStream>> streams;
    const double start_s = clock_->monotonic_s();
    for (const bench::OfflineRequest& request : requests) {
      frontend::GenerateRequest generate;
      generate.request_id = fmt::format("bench-{}", next_id_++);
      generate.prompt.assign(request.prompt.begin(), request.prompt.end());
      generate.sampling.temperature = 1.0f;
      generate.sampling.ignore_eos = true;
      generate.sampling.max_tokens = static_cast<int32_t>(request.max_tokens);
      generate.text.final_only = true;
      generate.n = n;
      generate.arrival_wall_s = clock_->wall_s();
      run.num_prompt_tokens += static_cast<int64_t>(request.prompt.size());
      OCTAVO_TRY(auto stream, frontend_->generate(std::move(generate)));
      streams.push_back(std::move(stream));
    }
    for (const auto& stream : streams) {
      while (true) {
        for (const frontend::Delta& delta : stream->take()) {
          if (!delta.error.empty()) return Error{Code::kInternal, delta.error};
          run.num_output_tokens += static_cast<int64_t>(delta.token_ids.size());
        }
        if (stream->finished()) break;
        stream->wait(std::chrono::milliseconds(1000));
      }
    }
    run.seconds = clock_->monotonic_s() - start_s;
    return run;
  }

 private:
  std::string model_;
  std::unique_ptr<SystemClock> clock_;  // outlives the frontend
  std::unique_ptr<Frontend> frontend_;
  int64_t next_id_ = 0;
};

}  // namespace

Result<std::unique_ptr<bench::OfflineEngine>> open_offline_engine(config::Config config) {
  auto clock = std::make_unique<SystemClock>();
  OCTAVO_TRY(kernels::set_isa(config.engine.kernel));
  OCTAVO_TRY(engine::Engine::check_config(config.engine));
  OCTAVO_TRY(resolve_model(config.engine.model));
  OCTAVO_TRY(const auto format, load_format_of(config.engine.model.load_format));
  OCTAVO_TRY(auto checkpoint, checkpoint::Checkpoint::open(config.engine.model.model, format));
  OCTAVO_TRY(auto tokenizer, tokenizer::Tokenizer::create(*checkpoint));
  OCTAVO_TRY(auto model, load_model(*checkpoint, config.engine, *clock));
  checkpoint.reset();
  Frontend::Options options;
  options.config = config.frontend;
  options.model_name = first_served_name(config);
  options.scheduler = config.engine.scheduler;
  options.cache = config.engine.cache;
  OCTAVO_TRY(auto frontend, frontend::create_frontend(
                                std::move(options),
                                [&](engine::OutputSink& sink) {
                                  return engine::Engine::create(config.engine, std::move(model),
                                                                *clock, sink);
                                },
                                std::move(tokenizer), *clock));
  return std::unique_ptr<bench::OfflineEngine>(
      new FrontendEngine(config.engine.model.model, std::move(clock), std::move(frontend)));
}

}  // namespace octavo::cli
