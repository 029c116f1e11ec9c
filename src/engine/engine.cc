#include "engine/engine.h"

#include <algorithm>

#include "device/machine.h"
#include "engine/engine_core.h"
#include "engine/plan.h"
#include "engine/runner/decoder_runner.h"
#include "model/model.h"

namespace octavo::engine {
namespace {

int64_t max_logits_rows(int64_t max_num_batched_tokens, int64_t max_num_seqs) {
  return max_num_seqs + std::min<int64_t>(max_num_batched_tokens, kMaxPromptLogprobRows);
}

PlanInputs plan_inputs(const config::EngineConfig& config, const model::Model& model,
                       int num_threads) {
  const model::ModelInfo& info = model.info();
  return {
      .model_max_model_len = info.max_model_len,
      .vocab_size = info.vocab_size,
      .kv_block_bytes =
          config.cache.block_size > 0 ? model.kv_block_bytes(config.cache.block_size) : 0,
      .weight_bytes = info.weight_bytes,
      .memory_limit_bytes = device::memory_limit_bytes(),
      .available_memory_bytes = device::available_memory_bytes(),
      .activation_bytes =
          [&model, num_threads](int64_t num_tokens, int64_t num_seqs, int64_t max_model_len) {
            const int64_t rows = max_logits_rows(num_tokens, num_seqs);
            return model.activation_bytes(num_tokens, num_seqs, rows, max_model_len, num_threads) +
                   DecoderRunner::buffer_bytes(rows, model.info().vocab_size, num_threads);
          },
  };
}

void describe_model(const model::ModelInfo& model, EngineInfo& info) {
  info.architecture = model.architecture;
  info.dtype = model.dtype;
  info.weight_format = model.weight_format;
  info.quantization = model.quantization;
  info.kv_cache_dtype = std::string(device::name_of(model.kv_dtype));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const config::EngineConfig& config,
                                               std::unique_ptr<model::Model> model, Clock& clock,
                                               OutputSink& sink) {
  OCTAVO_TRY(const device::ThreadPlan threads, thread_plan(config));
  const PlanInputs inputs = plan_inputs(config, *model, threads.num_threads);
  OCTAVO_TRY(EngineInfo info, plan_engine(config, inputs));
  describe_model(model->info(), info);

  auto pool = std::make_unique<device::ThreadPool>(threads);
  auto workspace = std::make_unique<device::Workspace>();
  const RunnerOptions options{
      .block_size = info.block_size,
      .max_num_batched_tokens = info.max_num_batched_tokens,
      .max_logits_rows = max_logits_rows(info.max_num_batched_tokens, info.max_num_seqs),
      .profile = config.profile,
  };
  OCTAVO_TRY(model->allocate_kv(info.num_blocks, info.block_size));
  OCTAVO_TRY(model->reserve({*pool, *workspace}, info.max_num_batched_tokens, info.max_num_seqs,
                            options.max_logits_rows, info.max_model_len));
  log_plan(config, inputs, info);
  OCTAVO_TRY(auto runner, DecoderRunner::create(options, std::move(model), std::move(pool),
                                                std::move(workspace)));
  return create_with_runner(config, std::move(info), std::move(runner), clock, sink);
}

Result<device::ThreadPlan> Engine::thread_plan(const config::EngineConfig& config) {
  auto plan = device::plan_threads({.num_threads = config.num_threads,
                                    .bind = config.cpus,
                                    .num_reserved = config.num_reserved_cpus});
  if (!plan.ok()) {
    return Error{plan.error().code, "VLLM_CPU_OMP_THREADS_BIND: " + plan.error().message};
  }
  return plan;
}

Status Engine::check_config(const config::EngineConfig& config) {
  OCTAVO_TRY(thread_plan(config));
  return check_options(config);
}

std::unique_ptr<Engine> Engine::create_with_runner(const config::EngineConfig& config,
                                                   EngineInfo info,
                                                   std::unique_ptr<ModelRunner> runner,
                                                   Clock& clock, OutputSink& sink) {
  fill_capacity(info);
  return std::make_unique<EngineCore>(config, std::move(info), std::move(runner), clock, sink);
}

}  // namespace octavo::engine
