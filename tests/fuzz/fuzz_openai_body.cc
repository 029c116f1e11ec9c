// Any bytes as the body of every route that takes JSON: one answer, of at most 4 KiB when refused.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "frontend/fakes.h"
#include "openai/api.h"

namespace {

using namespace octavo;

/// Takes no requests: what is fuzzed ends where the engine begins.
class ClosedFrontend final : public frontend::Frontend {
 public:
  ClosedFrontend() : metrics_({.model_name = "m", .cache_config_info = {}}) {
    info_.max_model_len = 4096;
    info_.vocab_size = 300;
  }
  Result<std::shared_ptr<frontend::OutputStream>> generate(frontend::GenerateRequest) override {
    return Error{Code::kUnavailable, "closed"};
  }
  Result<std::vector<std::shared_ptr<frontend::OutputStream>>> generate_all(
      std::vector<frontend::GenerateRequest>) override {
    return Error{Code::kUnavailable, "fake"};
  }
  void control(engine::ControlRequest::Kind, std::string,
               std::function<void(Status)> reply) override {
    reply(Error{Code::kUnavailable, "closed"});
  }
  const tokenizer::Tokenizer& tokenizer() const override { return tokenizer_; }
  const engine::EngineInfo& engine_info() const override { return info_; }
  const observability::EngineMetrics& metrics() const override { return metrics_; }
  bool engine_dead() const override { return false; }
  bool live() const override { return true; }
  bool ready() const override { return true; }
  int64_t num_unfinished() const override { return 0; }
  void begin_drain() override {}
  void abort_all() override {}
  void fail_all(const std::string&) override {}
  void stop() override {}

 private:
  frontend::fakes::FakeTokenizer tokenizer_;
  engine::EngineInfo info_;
  observability::EngineMetrics metrics_;
};

class OneAnswer final : public openai::Exchange {
 public:
  void respond(openai::HttpResponse response) override {
    if (++num_answers != 1) std::abort();
    if (response.status != 200 && response.body.size() > 4096) std::abort();
  }
  void begin_stream(std::vector<std::pair<std::string, std::string>>) override { std::abort(); }
  bool write(std::string) override { return false; }
  void end_stream() override {}
  void on_disconnect(std::function<void()>) override {}
  void post(std::function<void()>) override {}
  int num_answers = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ClosedFrontend frontend;
  static config::Config config;
  static SystemClock clock;
  static auto chat_template = chat_template::ChatTemplate::compile(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}");
  log::set_level(log::Level::kError);
  openai::ApiContext api;
  api.frontend = &frontend;
  api.chat_template = chat_template.ok() ? &*chat_template : nullptr;
  api.config = &config;
  api.clock = &clock;
  for (const openai::Handler handler : {openai::post_chat_completions, openai::post_completions,
                                        openai::post_tokenize, openai::post_detokenize}) {
    openai::HttpRequest request;
    request.headers.emplace_back("content-type", "application/json");
    request.body.assign(reinterpret_cast<const char*>(data), size);
    auto exchange = std::make_shared<OneAnswer>();
    handler(api, std::move(request), exchange);
    if (exchange->num_answers != 1) std::abort();
  }
  return 0;
}
