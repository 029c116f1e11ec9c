#include "cli/serve.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "chat_template/chat_template.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/content_hash.h"
#include "cli/load_model.h"
#include "cli/model_files.h"
#include "cli/stats_log_sink.h"
#include "config/parse_serve.h"
#include "config/version.h"
#include "device/dtype.h"
#include "device/thread_plan.h"
#include "frontend/frontend.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "server/serve_loop.h"
#include "tokenizer/tokenizer.h"

namespace octavo::cli {
namespace {

using log::Source;

/// What the server needs of a model beside its weights.
struct TextSide {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<chat_template::ChatTemplate> chat_template;  // nullptr: the model has none
  std::string default_sampling_json;
};

Result<TextSide> load_text_side(const checkpoint::Checkpoint& checkpoint,
                                const config::Config& config) {
  TextSide text;
  if (config.engine.model.tokenizer.empty()) {
    OCTAVO_TRY(text.tokenizer, tokenizer::Tokenizer::create(checkpoint));
  } else {
    OCTAVO_TRY(const auto other, checkpoint::Checkpoint::open(config.engine.model.tokenizer,
                                                              checkpoint::LoadFormat::kDummy));
    OCTAVO_TRY(text.tokenizer, tokenizer::Tokenizer::create(*other));
  }
  OCTAVO_TRY(const auto source, find_chat_template(checkpoint, config.frontend.chat_template));
  if (source) {
    OCTAVO_TRY(auto compiled, chat_template::ChatTemplate::compile(*source));
    text.chat_template = std::make_unique<chat_template::ChatTemplate>(std::move(compiled));
  }
  OCTAVO_TRY(text.default_sampling_json,
             default_sampling_json(checkpoint, config.engine.model, *text.tokenizer));
  return text;
}

/// Fetches what another thread makes; what it threw becomes an error.
Result<TextSide> take(std::future<Result<TextSide>>& later) {
  try {
    return later.get();
  } catch (const std::exception& e) {
    return Error{Code::kInternal, fmt::format("tokenizer or chat template: {}", e.what())};
  }
}

/// Says in the log, in the words that operators look for, that the engine could not be made.
template <class T>
Result<T> said_if_failed(Result<T> made) {
  if (!made.ok()) {
    log::error(Source::kEngineCore, "EngineCore failed to start. {}", made.error().message);
    log::error(Source::kApiServer, "Engine core initialization failed. See root cause above.");
  }
  return made;
}

/// Eight hex digits of what decides the answers: model, weights, dtypes, kernels.
std::string system_fingerprint(const model::ModelInfo& info) {
  uint32_t hash = 2166136261u;  // FNV-1a
  const std::string text = info.weight_hash + info.dtype +
                           std::string(device::name_of(info.kv_dtype)) +
                           kernels::describe_kernels();
  for (const unsigned char c : text) hash = (hash ^ c) * 16777619u;
  return fmt::format("octavo-{}-{:08x}", config::version(), hash);
}

void log_engine_config(const config::Config& config) {
  const config::EngineConfig& engine = config.engine;
  if (engine.scheduler.performance_mode != "balanced") {
    log::info(Source::kApiServer, "Performance mode set to '{}'.",
              engine.scheduler.performance_mode);
  }
  log::info(Source::kEngineCore,
            "Initializing a V1 LLM engine (v{}) with config: model='{}', tokenizer='{}', "
            "load_format={}, dtype={}, quantization={}, kv_cache_dtype={}, seed={}, block_size={}, "
            "enable_prefix_caching={}, "
            "scheduling_policy={}, kernel={}",
            config::version(), engine.model.model,
            engine.model.tokenizer.empty() ? engine.model.model : engine.model.tokenizer,
            engine.model.load_format, engine.model.dtype,
            engine.model.quantization.empty() ? "None" : engine.model.quantization,
            engine.cache.kv_cache_dtype, engine.model.seed, engine.cache.block_size,
            engine.cache.enable_prefix_caching.value_or(true), engine.scheduler.scheduling_policy,
            engine.kernel);
}

/// What only run records ask for.
void add_record_facts(checkpoint::ContentHash& weights, openai::ApiContext& api) {
  api.model_revision = revision_of(api.model_root);
  api.image_digest = image_digest();
  api.weights = &weights;
}

Result<int> serve(config::Config config) {
  SystemClock clock;
  OCTAVO_TRY(kernels::set_isa(config.engine.kernel));
  OCTAVO_TRY(engine::Engine::check_config(config.engine));
  OCTAVO_TRY(resolve_model(config.engine.model));
  const std::string& model_path = config.engine.model.model;
  log::info(Source::kApiServer, "vLLM server version {}, serving model {} (octavo)",
            config::version(), model_path);
  log::info(Source::kApiServer, "non-default args: {}",
            config::python_dict(config.non_default_args));

  OCTAVO_TRY(server::Listener listener, server::Listener::bind(config.server));
  OCTAVO_TRY(const auto format, load_format_of(config.engine.model.load_format));
  OCTAVO_TRY(auto checkpoint, checkpoint::Checkpoint::open(model_path, format));
  // Tokenizer and template on their own thread while the weights are packed: promise P7.
  auto text_later =
      std::async(std::launch::async, [&] { return load_text_side(*checkpoint, config); });
  auto loaded = load_model(*checkpoint, config.engine, clock);
  OCTAVO_TRY(TextSide text, take(text_later));
  OCTAVO_TRY(std::unique_ptr<model::Model> model, said_if_failed(std::move(loaded)));
  checkpoint::ContentHash weights(checkpoint::weight_files(*checkpoint));
  checkpoint.reset();  // all of it has been packed or copied; its map and metadata go

  openai::ApiContext api;
  api.config = &config;
  api.clock = &clock;
  api.chat_template = text.chat_template.get();
  api.model_root = model_path;
  api.created_s = static_cast<int64_t>(clock.wall_s());
  api.system_fingerprint = system_fingerprint(model->info());
  api.default_sampling_json = text.default_sampling_json;
  api.kernels = kernels::describe_kernels();
  OCTAVO_TRY(const device::ThreadPlan threads, engine::Engine::thread_plan(config.engine));
  api.num_threads = threads.num_threads;
  add_record_facts(weights, api);

  frontend::Frontend::Options options;
  options.config = config.frontend;
  options.model_name = first_served_name(config);
  options.scheduler = config.engine.scheduler;
  options.cache = config.engine.cache;
  std::optional<double> stats_interval_s;
  if (!config.frontend.disable_log_stats) stats_interval_s = config.frontend.log_stats_interval_s;
  options.stats = make_stats_log_sink(stats_interval_s, clock);
  log_engine_config(config);
  const double init_start_s = clock.monotonic_s();
  OCTAVO_TRY(const auto frontend, said_if_failed(frontend::create_frontend(
                                      std::move(options),
                                      [&](engine::OutputSink& sink) {
                                        return engine::Engine::create(
                                            config.engine, std::move(model), clock, sink);
                                      },
                                      std::move(text.tokenizer), clock)));
  api.frontend = frontend.get();
  log::info(Source::kEngineCore,
            "init engine (profile, create kv cache, warmup model) took {:.2f} s",
            clock.monotonic_s() - init_start_s);
  log::info(Source::kApiServer, "Supported tasks: ['generate']");

  observability::HttpMetrics http_metrics(clock.wall_s());
  OCTAVO_TRY(const auto server,
             server::create_server(std::move(listener), config.server, api, http_metrics, clock));
  const int exit_code = server::ServeLoop(*server, *frontend, config.server).run();
  frontend->stop();
  return exit_code;
}

}  // namespace

int run_serve(const config::Config& config) {
  auto result = serve(config);
  if (result.ok()) return *result;
  std::fprintf(stderr, "octavo serve: error: %s\n", result.error().message.c_str());
  return 1;
}

}  // namespace octavo::cli
