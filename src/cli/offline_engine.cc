#include "cli/offline_engine.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "cli/load_model.h"
#include "cli/model_files.h"
#include "frontend/frontend.h"
#include "kernels/dispatch.h"
#include "kernels/profile.h"
#include "tokenizer/tokenizer.h"

namespace octavo::cli {
namespace {

using frontend::Frontend;

bench::PhaseTimes describe_phase(const kernels::StepProfile::Phase& phase) {
  constexpr std::string_view kUnits[] = {"f32", "bf16", "int8"};
  bench::PhaseTimes out{phase.num_steps, phase.num_tokens, phase.seconds, {}};
  for (int i = 0; i < kernels::kNumOps; ++i) {
    const auto& total = phase.ops[static_cast<size_t>(i)];
    if (total.seconds <= 0) continue;
    out.ops.push_back({std::string(kernels::name_of(static_cast<kernels::Op>(i))),
                       std::string(kUnits[static_cast<size_t>(total.work.unit)]), total.seconds,
                       total.least_seconds, total.reading_seconds, total.work.bytes,
                       total.work.ops});
  }
  return out;
}

bench::StepTimes describe_profile(const kernels::StepProfile& profile) {
  const device::Roofs& roofs = profile.roofs();
  bench::StepTimes out;
  out.roofs = {roofs.read_gb_s, roofs.f32_gflop_s, roofs.bf16_gflop_s, roofs.int8_gop_s};
  out.prefill = describe_phase(profile.prefill());
  out.decode = describe_phase(profile.decode());
  out.gap_seconds = profile.gap_seconds();
  return out;
}

class FrontendEngine final : public bench::OfflineEngine {
 public:
  FrontendEngine(std::string model, std::unique_ptr<SystemClock> clock,
                 std::unique_ptr<Frontend> frontend, kernels::StepProfile* profile)
      : model_(std::move(model)),
        clock_(std::move(clock)),
        frontend_(std::move(frontend)),
        profile_(profile) {}
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
      generate.text.ids_only = request.ids_only;
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

  std::optional<bench::StepTimes> take_step_times() override {
    if (profile_ == nullptr) return std::nullopt;
    bench::StepTimes times = describe_profile(*profile_);
    profile_->clear();
    const engine::EngineInfo& info = frontend_->engine_info();
    times.weight_bytes = static_cast<double>(info.weight_bytes);
    times.weight_format = info.weight_format;
    times.kv_cache_dtype = info.kv_cache_dtype;
    return times;
  }

 private:
  std::string model_;
  std::unique_ptr<SystemClock> clock_;  // outlives the frontend
  std::unique_ptr<Frontend> frontend_;
  kernels::StepProfile* profile_;  // the engine's, or nullptr
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
  kernels::StepProfile* profile = nullptr;
  OCTAVO_TRY(auto frontend, frontend::create_frontend(
                                std::move(options),
                                [&](engine::OutputSink& sink) {
                                  auto engine = engine::Engine::create(
                                      config.engine, std::move(model), *clock, sink);
                                  if (engine.ok()) profile = (*engine)->step_profile();
                                  return engine;
                                },
                                std::move(tokenizer), *clock));
  return std::unique_ptr<bench::OfflineEngine>(new FrontendEngine(
      config.engine.model.model, std::move(clock), std::move(frontend), profile));
}

}  // namespace octavo::cli
