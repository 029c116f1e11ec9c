#include "server/access_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "server/http_text.h"

namespace octavo::server {
namespace {
constexpr size_t kMaxLines = 8192;
}

AccessLog::AccessLog(const config::ServerConfig& config)
    : enabled_(!config.disable_uvicorn_access_log), lines_(kMaxLines) {
  std::string_view rest = config.disable_access_log_for_endpoints;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) muted_paths_.emplace_back(item);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (enabled_) writer_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  lines_.close();
  if (writer_.joinable()) writer_.join();
}

bool AccessLog::muted(std::string_view target) const {
  const std::string_view path = target.substr(0, target.find('?'));
  return std::find(muted_paths_.begin(), muted_paths_.end(), path) != muted_paths_.end();
}

void AccessLog::record(std::string_view client, std::string_view method, std::string_view target,
                       int version_minor, int status) {
  if (!enabled_ || muted(target)) return;
  std::string line =
      fmt::format("(APIServer pid={}) INFO:     {} - \"{} {} HTTP/1.{}\" {} {}\n", getpid(), client,
                  method, target, version_minor, status, status_phrase(status));
  if (!lines_.try_push(std::move(line))) num_dropped_.fetch_add(1, std::memory_order_relaxed);
}

void AccessLog::run() {
  for (;;) {
    const bool closed = lines_.closed();
    const auto lines = lines_.wait_and_take_all(std::chrono::seconds(3600));
    std::string text;
    for (const std::string& line : lines) text += line;
    const long dropped = num_dropped_.exchange(0);
    if (dropped > 0) {
      text += fmt::format("(APIServer pid={}) WARNING:  {} access log lines were dropped\n",
                          getpid(), dropped);
    }
    if (!text.empty()) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    if (closed && lines.empty()) return;
  }
}

}  // namespace octavo::server
