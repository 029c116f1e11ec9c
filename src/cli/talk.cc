// `octavo chat` and `octavo complete`: a person at a terminal, or one question, to a running
// server.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/clients.h"
#include "client/event_stream.h"
#include "client/wait.h"
#include "config/command_line.h"

namespace octavo::cli {
namespace {

using Json = nlohmann::ordered_json;
using config::CommandLine;
using config::Option;
using enum config::OptionKind;
using Clock = std::chrono::steady_clock;

constexpr int kUsageError = 2;
constexpr size_t kMaxErrorText = 500;

constexpr Option kUrl = {"url", kText, "http://localhost:8000/v1", "URL of the server's API."};
constexpr Option kModel = {"model-name", kText, "", "Model; default: the server's first."};
constexpr Option kKey = {
    "api-key", kText, "", "API key; default: the environment's OPENAI_API_KEY.", {}, 0, true, true};
constexpr Option kQuick = {"quick", kText, "", "Ask this one thing and end.", {}, 'q'};
constexpr Option kStats = {"stats", kSwitch, "",
                           "Print TTFT and tokens per second of each answer."};

constexpr auto kChatFlags =
    std::to_array<Option>({kUrl,
                           kModel,
                           kKey,
                           kQuick,
                           kStats,
                           {"system-prompt", kText, "", "System message of the conversation."}});
constexpr auto kCompleteFlags = std::to_array<Option>(
    {kUrl, kModel, kKey, kQuick, kStats, {"max-tokens", kInt, "", "Tokens of an answer at most."}});

/// An answer while it streams.
struct Answer {
  std::string text;
  std::string error;  // of the stream
  bool is_thinking = false;
  Clock::time_point start = Clock::now();
  std::optional<double> ttft_s;
  int64_t completion_tokens = 0;
};

std::string text_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Talk {
 public:
  Talk(const CommandLine& line, const Host& host, bool is_chat)
      : line_(line), host_(host), is_chat_(is_chat) {}

  Status open() {
    OCTAVO_TRY(url_, client::parse_url(line_.text("url")));
    std::string key = line_.text("api-key");
    if (key.empty()) key = host_.environment("OPENAI_API_KEY").value_or("EMPTY");
    if (!client::is_header_value(key)) {
      return Error{Code::kInvalidArgument, "the API key has characters that no key has"};
    }
    headers_ = {{"Authorization", "Bearer " + key}, {"Content-Type", "application/json"}};
    OCTAVO_TRY(find_model());
    fmt::print(host_.out, "Using model: {}\n", model_);
    if (is_chat_ && line_.has("system-prompt")) {
      messages_.push_back({{"role", "system"}, {"content", line_.text("system-prompt")}});
    }
    return {};
  }

  Status ask(const std::string& text) {
    Json body = {{"model", model_}};
    if (is_chat_) {
      messages_.push_back({{"role", "user"}, {"content", text}});
      body["messages"] = messages_;
    } else {
      body["prompt"] = text;
      if (line_.has("max-tokens")) body["max_tokens"] = line_.integer("max-tokens");
    }
    body["stream"] = true;
    if (line_.flag("stats")) body["stream_options"] = {{"include_usage", true}};
    Answer answer;
    const Status status = stream(body, answer);
    if (is_chat_) {
      if (status.ok()) {
        messages_.push_back({{"role", "assistant"}, {"content", answer.text}});
      } else {
        messages_.erase(messages_.size() - 1);  // as if it had not been asked
      }
    }
    return status;
  }

 private:
  client::Request request(const char* method, const char* path, std::string body) const {
    return {method, url_.path + path, headers_, std::move(body)};
  }

  Status find_model() {
    model_ = line_.text("model-name");
    if (!model_.empty()) return {};
    constexpr size_t kMaxList = 4 << 20;
    client::ClientOptions limits;
    limits.total_timeout_s = 60;
    OCTAVO_TRY(const client::Response answer,
               client::fetch(url_.origin, request("GET", "/models", ""), limits, kMaxList));
    OCTAVO_TRY(check_status(answer));
    const Json list = Json::parse(answer.body, nullptr, false);
    if (list.is_object() && list.contains("data") && list["data"].is_array() &&
        !list["data"].empty() && list["data"][0].is_object()) {
      model_ = text_member(list["data"][0], "id");
    }
    if (model_.empty()) return Error{Code::kUnavailable, "the server lists no model"};
    return {};
  }

  static Status check_status(const client::Response& answer) {
    if (answer.head.status == 200) return {};
    const Json body = Json::parse(answer.body, nullptr, false);
    std::string why = answer.body;
    if (body.is_object() && body.contains("error") && body["error"].is_object()) {
      why = text_member(body["error"], "message");
    }
    return Error{Code::kUnavailable,
                 fmt::format("the server answered {} {}: {}", answer.head.status,
                             answer.head.reason, why.substr(0, kMaxErrorText))};
  }

  Status stream(const Json& body, Answer& answer) {
    client::EventStreamReader events(
        [&](std::string_view data) { on_event(Json::parse(data, nullptr, false), answer); });
    Status broken;
    const auto done =
        client::stream(url_.origin,
                       request("POST", is_chat_ ? "/chat/completions" : "/completions",
                               body.dump(-1, ' ', false, Json::error_handler_t::replace)),
                       {}, [&](std::string_view piece) {
                         broken = events.feed(piece);
                         std::fflush(host_.out);
                         return broken.ok() && answer.error.empty();
                       });
    events.finish();
    if (answer.is_thinking) say("\n</think>");
    const bool was_answered = done.ok() && done->head.status == 200;
    if (was_answered || !answer.text.empty()) say("\n");
    if (!done.ok()) return done.error();
    OCTAVO_TRY(check_status(*done));
    OCTAVO_TRY(broken);
    if (!answer.error.empty()) return Error{Code::kUnavailable, answer.error};
    if (line_.flag("stats")) print_stats(answer);
    return {};
  }

  void on_event(const Json& event, Answer& answer) {
    if (!event.is_object()) return;  // [DONE]
    if (event.contains("error")) {
      answer.error = event["error"].is_object() ? text_member(event["error"], "message") : "";
      if (answer.error.empty()) answer.error = "the server reported an error";
      return;
    }
    if (event.contains("usage") && event["usage"].is_object()) {
      answer.completion_tokens = event["usage"].value("completion_tokens", int64_t{0});
    }
    if (!event.contains("choices") || !event["choices"].is_array() || event["choices"].empty() ||
        !event["choices"][0].is_object()) {
      return;
    }
    const Json& choice = event["choices"][0];
    if (!is_chat_) {
      on_text(text_member(choice, "text"), answer);
    } else if (choice.contains("delta") && choice["delta"].is_object()) {
      const Json& delta = choice["delta"];
      std::string reasoning = text_member(delta, "reasoning");
      if (reasoning.empty()) reasoning = text_member(delta, "reasoning_content");
      on_reasoning(reasoning, answer);
      on_text(text_member(delta, "content"), answer);
    }
  }

  void on_reasoning(const std::string& text, Answer& answer) {
    if (text.empty()) return;
    note_first(answer);
    if (!answer.is_thinking) say("<think>\n");
    answer.is_thinking = true;
    say(text);
  }

  void on_text(const std::string& text, Answer& answer) {
    if (text.empty()) return;
    note_first(answer);
    if (answer.is_thinking) say("\n</think>\n");
    answer.is_thinking = false;
    answer.text += text;
    say(text);
  }

  static void note_first(Answer& answer) {
    if (!answer.ttft_s) answer.ttft_s = seconds_since(answer.start);
  }
  void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), host_.out); }

  void print_stats(const Answer& answer) {
    if (!answer.ttft_s) return;
    const double total_s = seconds_since(answer.start);
    fmt::print(host_.out, "{:<5} {:.2f} ms\n", "TTFT:", *answer.ttft_s * 1000);
    fmt::print(host_.out, "{:<5} {:.2f} tokens/s ({} tokens in {:.2f}s)\n",
               "TPS:", double(answer.completion_tokens) / total_s, answer.completion_tokens,
               total_s);
  }

  const CommandLine& line_;
  const Host& host_;
  const bool is_chat_;
  client::Url url_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string model_;
  Json messages_ = Json::array();
};

/// A line of stdin without its newline; nullopt at the end.
std::optional<std::string> read_line() {
  std::string out;
  for (int c = std::getchar(); c != '\n'; c = std::getchar()) {
    if (c == EOF) return out.empty() ? std::nullopt : std::optional(out);
    out += static_cast<char>(c);
  }
  return out;
}

int talk(std::span<const Option> table, std::span<const std::string> args, const Host& host,
         bool is_chat) {
  const char* name = is_chat ? "chat" : "complete";
  const auto complain = [&](const Error& error) {
    fmt::print(host.err, "octavo {}: error: {}\n", name, error.message);
  };
  const auto line = CommandLine::read(table, args);
  if (!line.ok() || !line->positionals().empty()) {
    fmt::print(host.err, "usage: octavo {} [options]\n", name);
    complain(line.ok() ? Error{Code::kInvalidArgument,
                               "unrecognized arguments: " + line->positionals()[0]}
                       : line.error());
    return kUsageError;
  }
  if (line->wants_help()) {
    fmt::print(host.out, "usage: octavo {} [options]\n\nAsks a running server.\n\noptions:\n{}",
               name, config::describe_options(table));
    return 0;
  }
  for (const int number : {SIGINT, SIGTSTP}) std::signal(number, [](int) { ::_exit(0); });
  Talk talk(*line, host, is_chat);
  Status status = talk.open();
  if (!status.ok()) {
    complain(status.error());
    return status.error().code == Code::kInvalidArgument ? kUsageError : 1;
  }
  if (line->is_given("quick")) {
    status = talk.ask(line->text("quick"));
    if (!status.ok()) complain(status.error());
    return status.ok() ? 0 : 1;
  }
  fmt::print(
      host.out, "{}\n",
      is_chat ? "Please enter a message for the chat model:" : "Please enter prompt to complete:");
  for (;;) {
    fmt::print(host.out, "> ");
    std::fflush(host.out);
    const auto text = read_line();
    if (!text) return 0;
    status = talk.ask(*text);
    if (!status.ok()) complain(status.error());  // the next question may go better
  }
}

}  // namespace

int run_chat(std::span<const std::string> args, const Host& host) {
  return talk(kChatFlags, args, host, true);
}
int run_complete(std::span<const std::string> args, const Host& host) {
  return talk(kCompleteFlags, args, host, false);
}

}  // namespace octavo::cli
