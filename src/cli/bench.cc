#include "cli/bench.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/config_record.h"
#include "bench/tune.h"
#include "chat_template/chat_template.h"
#include "checkpoint/checkpoint.h"
#include "cli/measure_machine.h"
#include "cli/model_files.h"
#include "cli/offline_engine.h"
#include "frontend/chat_prompt.h"

namespace octavo::cli {
namespace {

/// Sets `render_chat` if the checkpoint has a template.
Status add_chat_template(const checkpoint::Checkpoint& checkpoint, bench::TextModel& model) {
  OCTAVO_TRY(const auto source, find_chat_template(checkpoint, ""));
  if (!source) return {};
  OCTAVO_TRY(auto compiled, chat_template::ChatTemplate::compile(*source));
  auto shared = std::make_shared<chat_template::ChatTemplate>(std::move(compiled));
  model.render_chat = [shared, tokenizer = model.tokenizer.get()](
                          const std::vector<bench::ChatTurn>& turns,
                          const std::string& kwargs) -> Result<std::string> {
    std::vector<frontend::ChatMessage> messages(turns.size());
    for (size_t i = 0; i < turns.size(); ++i) {
      messages[i].role = turns[i].role;
      messages[i].text = turns[i].text;
    }
    frontend::ChatPromptOptions options;
    options.now_wall_s = SystemClock().wall_s();
    if (!kwargs.empty()) {
      options.default_kwargs = std::make_shared<const nlohmann::ordered_json>(
          nlohmann::ordered_json::parse(kwargs, nullptr, false));
    }
    OCTAVO_TRY(const chat_template::Rendered rendered,
               frontend::render_chat(*shared, *tokenizer, messages, options));
    return rendered.text;
  };
  return {};
}

Result<bench::TextModel> load_text_model(const std::string& path) {
  OCTAVO_TRY(const auto checkpoint,
             checkpoint::Checkpoint::open(path, checkpoint::LoadFormat::kDummy));
  OCTAVO_TRY(auto tokenizer, tokenizer::Tokenizer::create(*checkpoint));
  OCTAVO_TRY(const auto json, checkpoint->read_file("tokenizer.json"));
  OCTAVO_TRY(const auto config, checkpoint->read_file("tokenizer_config.json"));
  OCTAVO_TRY(bench::TextModel model,
             bench::make_text_model(std::move(tokenizer), json.value_or(""), config.value_or("")));
  OCTAVO_TRY(add_chat_template(*checkpoint, model));
  return model;
}

bench::Host bench_host(const Host& host) {
  return {.environment = host.environment,
          .load_text_model = load_text_model,
          .open_engine = open_offline_engine,
          .measure_machine = measure_machine,
          .list_model_files = list_model_files,
          .out = host.out,
          .err = host.err};
}

}  // namespace

int run_bench(std::span<const std::string> args, const Host& host) {
  return bench::run_bench(args, bench_host(host));
}

int run_tune(std::span<const std::string> args, const Host& host) {
  return bench::run_tune(args, bench_host(host));
}

int run_config(std::span<const std::string> args, const Host& host) {
  return bench::run_config(args, bench_host(host));
}

}  // namespace octavo::cli
