#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "frontend/fakes.h"
#include "openai/api.h"

namespace octavo::openai {

/// One thread for posted work, as the HTTP pool.
class FakePool {
 public:
  FakePool() : worker_([this] { work(); }) {}
  ~FakePool() { stop(); }
  void post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        next();
      } catch (const std::exception&) {  // as the server's pool: the request ends
      }
      next = {};
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread worker_;
};

/// Collects what a handler sends.
class FakeExchange final : public Exchange {
 public:
  explicit FakeExchange(std::shared_ptr<FakePool> pool = nullptr) : pool_(std::move(pool)) {}
  void respond(HttpResponse r) override {
    set([&] { response = std::move(r), ended = true; });
  }
  void begin_stream(std::vector<std::pair<std::string, std::string>>) override {
    set([&] { streaming = true; });
  }
  bool write(std::string bytes) override {
    if (throws) throw std::runtime_error("no memory");
    set([&] { events += bytes; });
    return !gone;
  }
  void end_stream() override {
    set([&] { ended = true; });
  }
  void on_disconnect(std::function<void()> callback) override {
    set([&] { disconnected_ = std::move(callback); });
  }
  void post(std::function<void()> work) override { pool_->post(std::move(work)); }

  void disconnect() {
    std::function<void()> callback;
    set([&] { gone = true, callback = disconnected_; });
    if (callback) callback();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended; });
  }

  HttpResponse response;
  std::string events;
  bool streaming = false;
  bool ended = false;
  std::atomic<bool> gone{false};
  std::atomic<bool> throws{false};  // in `write`

 private:
  template <class F>
  void set(F change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  std::shared_ptr<FakePool> pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> disconnected_;
};

/// An API over a fake engine that answers "hello world." and then </s>.
class ApiTest : public ::testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  void SetUp() override {
    config_.engine.model.model = "tiny";
    config_.engine.model.served_model_name = {"tiny", "alias"};
    start();
  }
  void TearDown() override {
    frontend_->stop();
    pool_->stop();
  }
  void start() {
    api_.frontend = nullptr;
    frontend_.reset();
    frontend::Frontend::Options options;
    options.model_name = "tiny";
    options.scheduler = config_.engine.scheduler;
    auto factory = [&](engine::OutputSink& sink) -> Result<std::unique_ptr<engine::Engine>> {
      auto engine = std::make_unique<frontend::fakes::FakeEngine>(sink, clock_);
      engine->script = script_;
      engine->top = {{'h', -0.5f, 1}, {'x', -1.5f, 2}, {'y', -2.5f, 3}};
      engine_ = engine.get();
      return std::unique_ptr<engine::Engine>(std::move(engine));
    };
    auto created = frontend::create_frontend(
        std::move(options), factory, std::make_unique<frontend::fakes::FakeTokenizer>(), clock_);
    ASSERT_TRUE(created.ok());
    frontend_ = std::move(created).value();
    auto compiled = chat_template::ChatTemplate::compile(kTemplate);
    ASSERT_TRUE(compiled.ok());
    template_ = std::make_unique<chat_template::ChatTemplate>(std::move(compiled).value());
    api_.frontend = frontend_.get();
    api_.chat_template = template_.get();
    api_.config = &config_;
    api_.clock = &clock_;
    api_.model_root = "/models/tiny";
    api_.created_s = 1700000000;
    api_.system_fingerprint = "octavo-0.1.0-0123abcd";
  }
  static std::vector<engine::TokenId> bytes(std::string_view text) {
    std::vector<engine::TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  std::shared_ptr<FakeExchange> send(
      Handler handler, std::string body,
      std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto exchange = std::make_shared<FakeExchange>(pool_);
    headers.emplace_back("content-type", "application/json; charset=utf-8");
    handler(api_,
            HttpRequest{.method = "POST",
                        .path = "",
                        .query = "",
                        .headers = headers,
                        .body = std::move(body),
                        .client = ""},
            exchange);
    return exchange;
  }
  HttpResponse post(Handler handler, std::string body,
                    std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto exchange = send(handler, std::move(body), std::move(headers));
    EXPECT_TRUE(exchange->wait());
    EXPECT_FALSE(exchange->streaming);
    return exchange->response;
  }
  Json ok(Handler handler, std::string body) {
    const HttpResponse r = post(handler, std::move(body));
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body);
  }
  /// Events of a stream, each parsed; the last must be [DONE].
  std::vector<Json> stream(Handler handler, std::string body) {
    auto exchange = send(handler, std::move(body));
    EXPECT_TRUE(exchange->wait());
    EXPECT_TRUE(exchange->streaming) << exchange->response.body;
    return parse_events(exchange->events);
  }
  static std::vector<Json> parse_events(const std::string& text) {
    std::vector<Json> out;
    bool done = false;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find("\n\n", at);
      if (end == std::string::npos) break;
      const std::string event = text.substr(at, end - at);
      EXPECT_EQ(event.substr(0, 6), "data: ");
      EXPECT_FALSE(done);
      if (event == "data: [DONE]") {
        done = true;
      } else {
        out.push_back(Json::parse(event.substr(6)));
      }
      at = end + 2;
    }
    EXPECT_TRUE(done);
    return out;
  }
  /// The error object of a refused request; checks what all of them promise.
  Json error(Handler handler, const std::string& body, int status = 400) {
    const HttpResponse r = post(handler, body);
    EXPECT_EQ(r.status, status) << body.substr(0, 200) << " -> " << r.body;
    EXPECT_LT(r.body.size(), 4096u);
    const Json parsed = Json::parse(r.body, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << r.body;
    if (!parsed.is_object() || !parsed.contains("error")) return Json::object();
    EXPECT_EQ(parsed["error"]["code"], status);
    return parsed["error"];
  }

  static constexpr const char* kTemplate =
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\\n' }}{% endif %}";

  ManualClock clock_;
  std::shared_ptr<FakePool> pool_ = std::make_shared<FakePool>();
  config::Config config_;
  std::vector<engine::TokenId> script_ = [] {
    auto ids = bytes("hello world.");
    ids.push_back(257);
    return ids;
  }();
  frontend::fakes::FakeEngine* engine_ = nullptr;
  std::unique_ptr<frontend::Frontend> frontend_;
  std::unique_ptr<chat_template::ChatTemplate> template_;
  ApiContext api_;
};

}  // namespace octavo::openai
