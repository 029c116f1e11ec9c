#include "bench/offline_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/log.h"
#include "config/parse_serve.h"

namespace octavo::bench {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 1;

std::string usage_of(std::string_view name) {
  return fmt::format("usage: octavo bench {} [--model MODEL] [options] [options of octavo serve]",
                     name);
}

/// The original takes the model as an option, `octavo serve` as the first word.
void move_model_to_front(std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string model;
    size_t count = 1;
    if (words[i].starts_with("--model=")) {
      model = words[i].substr(8);
    } else if (words[i] == "--model" && i + 1 < words.size()) {
      model = words[i + 1];
      count = 2;
    } else {
      continue;
    }
    const auto at = words.begin() + static_cast<ptrdiff_t>(i);
    words.erase(at, at + static_cast<ptrdiff_t>(count));
    words.insert(words.begin(), model);
    return;
  }
}

}  // namespace

std::optional<OfflineCommand> read_offline(std::string_view name,
                                           std::span<const config::Option> table,
                                           std::span<const std::string> args, const Host& host,
                                           int& exit_code) {
  exit_code = 0;
  SplitWords words = split_words(table, args);
  auto line = config::CommandLine::read(table, words.own);
  if (!line.ok()) {
    exit_code = kUsageError;
    fmt::print(host.err, "{}\noctavo bench {}: error: {}\n", usage_of(name), name,
               line.error().message);
    return std::nullopt;
  }
  if (line->wants_help()) {
    fmt::print(host.out, "{}\n\noptions:\n{}", usage_of(name), config::describe_options(table));
    return std::nullopt;
  }
  move_model_to_front(words.engine);
  auto outcome = config::parse_engine_flags(words.engine, host.environment);
  if (!outcome.ok()) {
    exit_code = kUsageError;
    fmt::print(host.err, "{}\noctavo bench {}: error: {}\n", usage_of(name), name,
               outcome.error().message);
    return std::nullopt;
  }
  if (!outcome->help_text.empty()) {  // --help=all, --help=GROUP
    fmt::print(host.out, "{}", outcome->help_text);
    return std::nullopt;
  }
  log::set_level(log::Level::kWarning);  // standard output holds the result
  for (const std::string& warning : outcome->warnings) {
    log::warning(log::Source::kApiServer, "{}", warning);
  }
  return OfflineCommand{std::move(*line), std::move(outcome->config), nullptr};
}

std::optional<OfflineCommand> open_offline(std::string_view name,
                                           std::span<const config::Option> table,
                                           std::span<const std::string> args, const Host& host,
                                           Prepare prepare, int& exit_code) {
  auto command = read_offline(name, table, args, host, exit_code);
  if (!command) return std::nullopt;
  if (const Status status = prepare(command->line, command->config); !status.ok()) {
    exit_code = kUsageError;
    fmt::print(host.err, "octavo bench {}: error: {}\n", name, status.error().message);
    return std::nullopt;
  }
  auto engine = host.open_engine(command->config);
  if (!engine.ok()) {
    exit_code = kFailed;
    fmt::print(host.err, "octavo bench {}: error: {}\n", name, engine.error().message);
    return std::nullopt;
  }
  command->engine = std::move(*engine);
  return command;
}

Status check_batch(const config::CommandLine& line, const OfflineEngine& engine,
                   std::span<const std::string_view> counts) {
  constexpr int64_t kMost = 1 << 20;
  for (const std::string_view name : counts) {
    const int64_t value = line.integer(name);
    if (value < 1 || value > kMost) {
      return Error{Code::kInvalidArgument, fmt::format("--{} must be 1 to {}", name, kMost)};
    }
  }
  const int64_t warmups = line.integer("num-iters-warmup");
  if (warmups < 0 || warmups > kMost) {
    return Error{Code::kInvalidArgument, fmt::format("--num-iters-warmup must be 0 to {}", kMost)};
  }
  const int64_t tokens = line.integer("input-len") + line.integer("output-len");
  if (tokens <= engine.max_model_len()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("--input-len and --output-len together are {} tokens, but "
                           "max_model_len is {}",
                           tokens, engine.max_model_len())};
}

int write_json(const std::string& path, const std::string& json, const Host& host) {
  std::ofstream file(path, std::ios::trunc);
  file << json;
  file.close();
  if (file) return 0;
  fmt::print(host.err, "octavo bench: error: cannot write {}\n", path);
  return kFailed;
}

}  // namespace octavo::bench
