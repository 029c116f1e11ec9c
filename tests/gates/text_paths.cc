#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "frontend/fakes.h"
#include "frontend/frontend.h"
#include "frontend/stop_matcher.h"
#include "gate.h"
#include "openai/api.h"
#include "tokenizer/tokenizer.h"

namespace octavo::gates {
namespace {

using frontend::Delta;

constexpr std::string_view kPassage =
    "The harbour master wrote down 1,024 arrivals in the year 1889, and said that he'd never seen "
    "so many. \"Why,\" asked his clerk, \"do they all come at night?\"\n\n"
    "    for (int i = 0; i < n; ++i) { total += row[i] * 0.5f; }  // half of it\n"
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Привет, мир! "
    "東京は夜の七時。 "
    "{\"name\": \"gate\", \"values\": [1, 2.5e-3, null]} 🙂\n";

std::string passage() {
  std::string text;
  for (int i = 0; i < 8; ++i) text += kPassage;
  return text;
}

/// Gives one delta at each `take`, as a client that keeps up sees them.
class ScriptedStream final : public frontend::OutputStream {
 public:
  explicit ScriptedStream(int num_deltas) : num_deltas_(num_deltas) {}
  std::vector<Delta> take() override {
    Delta delta;
    delta.text = " harbour";
    delta.token_ids = {1000 + num_taken_};
    delta.num_prompt_tokens = 4;
    delta.num_generated_tokens = ++num_taken_;
    if (finished()) delta.finish_reason = engine::FinishReason::kLength;
    std::vector<Delta> out;
    out.push_back(std::move(delta));
    return out;
  }
  bool finished() const override { return num_taken_ == num_deltas_; }
  void on_ready(std::function<void()> callback) override { ready_ = std::move(callback); }
  bool wait(std::chrono::milliseconds) override { return true; }
  void abort() override {}
  void run() {
    while (!finished()) ready_();
    ready_ = {};
  }

 private:
  const int num_deltas_;
  int num_taken_ = 0;
  std::function<void()> ready_;
};

/// A frontend without an engine: each request gets a scripted stream.
class ScriptedFrontend final : public frontend::Frontend {
 public:
  ScriptedFrontend(const tokenizer::Tokenizer& tokenizer, int num_deltas)
      : tokenizer_(tokenizer), num_deltas_(num_deltas) {
    info_.max_model_len = 8192;
    info_.vocab_size = tokenizer.vocab_size();
  }
  Result<std::shared_ptr<frontend::OutputStream>> generate(frontend::GenerateRequest) override {
    stream = std::make_shared<ScriptedStream>(num_deltas_);
    return std::shared_ptr<frontend::OutputStream>(stream);
  }
  Result<std::vector<std::shared_ptr<frontend::OutputStream>>> generate_all(
      std::vector<frontend::GenerateRequest> requests) override {
    std::vector<std::shared_ptr<frontend::OutputStream>> out;
    for (auto& request : requests) out.push_back(generate(std::move(request)).value());
    return out;
  }
  const tokenizer::Tokenizer& tokenizer() const override { return tokenizer_; }
  const engine::EngineInfo& engine_info() const override { return info_; }
  const observability::EngineMetrics& metrics() const override { return metrics_; }
  bool engine_dead() const override { return false; }
  bool live() const override { return true; }
  bool ready() const override { return true; }
  int64_t num_unfinished() const override { return 0; }
  void begin_drain() override {}
  void control(engine::ControlRequest::Kind, std::string, std::function<void(Status)>) override {}
  void abort_all() override {}
  void fail_all(const std::string&) override {}
  void stop() override {}

  std::shared_ptr<ScriptedStream> stream;

 private:
  const tokenizer::Tokenizer& tokenizer_;
  const int num_deltas_;
  engine::EngineInfo info_;
  observability::EngineMetrics metrics_{{}};
};

/// Runs posted work at once and counts the bytes.
class CountingExchange final : public openai::Exchange {
 public:
  void respond(openai::HttpResponse response) override {
    std::fprintf(stderr, "%s\n", response.body.c_str());
    CHECK(false);
  }
  void begin_stream(std::vector<std::pair<std::string, std::string>>) override {}
  bool write(std::string bytes) override {
    num_bytes += bytes.size();
    return true;
  }
  void end_stream() override { ended = true; }
  void on_disconnect(std::function<void()>) override {}
  void post(std::function<void()> work) override { work(); }

  size_t num_bytes = 0;
  bool ended = false;
};

/// A whole streamed answer of `kChunks` chunks; parsing the request is a small part of it.
void count_stream(const std::string& name, const tokenizer::Tokenizer& tokenizer,
                  openai::Handler handler, const std::string& body) {
  constexpr int kChunks = 512;
  ManualClock clock;
  config::Config config;
  config.engine.model.model = "tiny";
  config.engine.model.served_model_name = {"tiny"};
  ScriptedFrontend frontend(tokenizer, kChunks);
  const auto chat = chat_template::ChatTemplate::compile(
      "{% for message in messages %}{{ message['content'] }}{% endfor %}");
  openai::ApiContext api;
  api.frontend = &frontend;
  api.chat_template = &chat.value();
  api.config = &config;
  api.clock = &clock;
  api.system_fingerprint = "octavo-0.1.0-0123abcd";
  count(name, "chunk", kChunks, [&] {
    const auto exchange = std::make_shared<CountingExchange>();
    openai::HttpRequest request;
    request.method = "POST";
    request.headers = {{"content-type", "application/json"}};
    request.body = body;
    handler(api, std::move(request), exchange);
    frontend.stream->run();
    CHECK(exchange->ended);
    CHECK(exchange->num_bytes > kChunks * 100);
  });
}

}  // namespace

void count_text_paths(const std::string& model) {
  const auto checkpoint =
      checkpoint::Checkpoint::open(model, checkpoint::LoadFormat::kAuto).value();
  const auto tokenizer = tokenizer::Tokenizer::create(*checkpoint).value();
  const std::string text = passage();
  std::vector<engine::TokenId> ids;
  count("encode", "byte", static_cast<double>(text.size()),
        [&] { ids = tokenizer->encode(text, {}); });
  const auto num_tokens = static_cast<double>(ids.size());
  size_t num_bytes = 0;
  count("detokenise", "token", num_tokens, [&] {
    tokenizer::IncrementalDecoder decoder(*tokenizer, true);
    for (const engine::TokenId id : ids) num_bytes += decoder.push(id).size();
    num_bytes += decoder.finish().size();
  });
  CHECK_EQ(num_bytes, 2 * text.size());
  const auto patterns = std::make_shared<frontend::StopPatterns>(
      std::vector<std::string>{"\n\nUser:", "harbour pilot"}, size_t{1} << 20);
  count("detokenise_with_stop_strings", "token", num_tokens, [&] {
    tokenizer::IncrementalDecoder decoder(*tokenizer, true);
    frontend::StopMatcher matcher(patterns);
    for (const engine::TokenId id : ids) {
      CHECK(matcher.push(decoder.push(id), true, false).stop == nullptr);
    }
  });
  count_stream("completion_stream", *tokenizer, openai::post_completions,
               R"({"model":"tiny","prompt":[1,2,3,4],"stream":true,"max_tokens":512})");
  count_stream("chat_stream", *tokenizer, openai::post_chat_completions,
               R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}],"stream":true,)"
               R"("max_tokens":512})");
}

}  // namespace octavo::gates
