#include "server/access_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "server/http_text.h"

namespace octavo::server {

AccessLog::AccessLog(const config::ServerConfig& config)
    : enabled_(!config.disable_uvicorn_access_log) {
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
}

bool AccessLog::muted(std::string_view target) const {
  const std::string_view path = target.substr(0, target.find('?'));
  return std::find(muted_paths_.begin(), muted_paths_.end(), path) != muted_paths_.end();
}

void AccessLog::record(std::string_view client, std::string_view method, std::string_view target,
                       int version_minor, int status) const {
  if (!enabled_ || muted(target)) return;
  log::write_line(fmt::format("(APIServer pid={}) INFO:     {} - \"{} {} HTTP/1.{}\" {} {}\n",
                              getpid(), client, method, target, version_minor, status,
                              status_phrase(status)));
}

}  // namespace octavo::server
