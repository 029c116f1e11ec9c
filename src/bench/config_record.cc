#include "bench/config_record.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bench/record_page.h"
#include "bench/run_record.h"
#include "config/command_line.h"

namespace octavo::bench {
namespace {

using enum config::OptionKind;

constexpr int kUsageError = 2;
constexpr const char* kUsage = "usage: octavo config record [options]";

constexpr auto kFlags = std::to_array<config::Option>({
    {"url", kText, "http://127.0.0.1:8000", "Server; a path is a prefix of all routes."},
    {"json", kSwitch, "", "Print JSON instead of the page."},
    {"insecure", kSwitch, "", "Do not check TLS certificates."},
});

}  // namespace

int run_config(std::span<const std::string> args, const Host& host) {
  const auto complain = [&](const std::string& why, int status) {
    if (status == kUsageError) fmt::print(host.err, "{}\n", kUsage);
    fmt::print(host.err, "octavo config record: error: {}\n", why);
    return status;
  };
  const bool is_record = !args.empty() && args[0] == "record";
  const auto line = config::CommandLine::read(kFlags, is_record ? args.subspan(1) : args);
  if (!line.ok()) return complain(line.error().message, kUsageError);
  if (line->wants_help() || args.empty()) {
    fmt::print(host.out,
               "{}\n\nPrints what a running server runs with, as a filled-in page. The key comes "
               "from the\nenvironment's VLLM_API_KEY or OPENAI_API_KEY.\n\noptions:\n{}",
               kUsage, config::describe_options(kFlags));
    return 0;
  }
  if (!is_record || !line->positionals().empty()) {
    return complain("the one thing that can be done is `record`", kUsageError);
  }
  const auto url = client::parse_url(line->text("url"));
  if (!url.ok()) return complain(url.error().message, kUsageError);
  Server server{*url, {}, !line->flag("insecure")};
  for (const char* name : {"VLLM_API_KEY", "OPENAI_API_KEY"}) {
    const auto key = host.environment(name);
    if (!key || key->empty() || !server.headers.empty()) continue;
    server.headers.emplace_back("Authorization", "Bearer " + *key);
  }
  constexpr double kMaxWaitS = 30;
  const auto facts = collect_server_facts(server, kMaxWaitS, [&] {
    fmt::print(host.err, "Waiting for the server's hash of its weights...\n");
  });
  if (!facts.ok()) return complain(facts.error().message, 1);
  fmt::print(
      host.out, "{}",
      line->flag("json")
          ? facts->dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n"
          : serving_config_page(*facts));
  return 0;
}

}  // namespace octavo::bench
