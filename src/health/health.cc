#include "health/health.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <utility>

#include "client/http_client.h"
#include "config/command_line.h"
#include "health/probe.h"

namespace octavo::health {
namespace {

using config::CommandLine;
using config::Option;
using enum config::OptionKind;

constexpr int kUsageError = 2;
constexpr size_t kMaxKey = 4096;

constexpr auto kFlags = std::to_array<Option>({
    {"url", kText, "http://127.0.0.1:8000", "Server; a path is a prefix of all routes."},
    {"check", kRepeat, "",
     "A check; may be repeated. Default: health, version, models, load and "
     "metrics, and then a server without version, load or metrics passes.",
     "health version models load metrics live ready generate"},
    {"model", kText, "", "The model that must be listed; generate asks it."},
    {"timeout", kFloat, "10", "Seconds for the whole run."},
    {"api-key-file", kText, "",
     "File with the key. Default: the environment's VLLM_API_KEY, then "
     "OPENAI_API_KEY."},
    {"json", kSwitch, "", "Print one JSON object."},
    {"insecure", kSwitch, "", "Do not check TLS certificates."},
});

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// The key without the white space around it; errors never quote it.
Result<std::string> read_key(const CommandLine& line,
                             const config::EnvironmentLookup& environment) {
  std::string key;
  if (line.has("api-key-file")) {
    std::ifstream file(line.text("api-key-file"), std::ios::binary);
    key.resize(kMaxKey + 1);
    file.read(key.data(), std::streamsize(key.size()));
    if (!file.is_open() || file.bad()) return invalid("--api-key-file cannot be read");
    key.resize(size_t(file.gcount()));
    if (key.size() > kMaxKey) return invalid("--api-key-file holds more than a key");
  } else {
    for (const char* name : {"VLLM_API_KEY", "OPENAI_API_KEY"}) {
      key = environment(name).value_or("");
      if (!key.empty()) break;
    }
  }
  const size_t begin = key.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return std::string();
  key = key.substr(begin, key.find_last_not_of(" \t\r\n") - begin + 1);
  if (!client::is_header_value(key)) return invalid("the API key has characters that no key has");
  return key;
}

Result<ProbeOptions> read_options(const CommandLine& line,
                                  const config::EnvironmentLookup& environment) {
  if (!line.positionals().empty()) {
    return invalid("unrecognized arguments: " + line.positionals()[0]);
  }
  ProbeOptions options;
  OCTAVO_TRY(options.url, client::parse_url(line.text("url")));
  if (options.url.path.find('?') != std::string::npos) return invalid("--url has a query");
  options.checks = line.list("check");
  for (const std::string& check : options.checks) {
    if (!is_check(check)) {
      return invalid(fmt::format("argument --check: invalid choice: '{}' (choose from {})", check,
                                 check_choices()));
    }
  }
  options.expected_model = line.text("model");
  options.timeout_s = line.real("timeout");
  if (!(options.timeout_s > 0 && options.timeout_s <= 86400)) {
    return invalid("--timeout must be above 0 and at most 86400 seconds");
  }
  options.verify_tls = !line.flag("insecure");
  OCTAVO_TRY(options.api_key, read_key(line, environment));
  return options;
}

void print_help(std::FILE* out) {
  fmt::print(
      out,
      "usage: octavo health [options]        (also installed as vllm-health)\n\n"
      "Asks a running server how it is: vLLM, llama.cpp's server or octavo. Sends GET "
      "requests only,\nwrites nothing; --check generate is the exception: it sends one "
      "request of one token.\n\noptions:\n{}\n"
      "exit status: 0 all checks passed, 1 a finding or a fatal error, 2 a command line that "
      "cannot be\nread, 124 --timeout struck, whatever else was found\n",
      config::describe_options(kFlags));
}

}  // namespace

int run_health(std::span<const std::string> args, const Host& host) {
  const auto usage_error = [&](const Error& error) {
    fmt::print(host.err, "usage: octavo health [options]\noctavo health: error: {}\n",
               error.message);
    return kUsageError;
  };
  const auto line = CommandLine::read(kFlags, args);
  if (!line.ok()) return usage_error(line.error());
  if (line->wants_help()) {
    print_help(host.out);
    return 0;
  }
  const auto options = read_options(*line, host.environment);
  if (!options.ok()) return usage_error(options.error());
  const ProbeResult result = probe(*options);
  fmt::print(host.out, "{}",
             line->flag("json") ? as_json(*options, result) : as_text(*options, result));
  std::fflush(host.out);
  return result.exit_status();
}

}  // namespace octavo::health
