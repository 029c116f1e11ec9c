#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <mutex>

namespace octavo::log {
namespace {
std::atomic<Level> g_level{Level::kInfo};
std::mutex g_mutex;
constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}
}  // namespace

void set_level(Level level) { g_level.store(level); }
bool enabled(Level level) { return level >= g_level.load(std::memory_order_relaxed); }

void write(Level level, Source source, const Place& where, std::string message) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", &local);
  const std::string line = fmt::format(
      "({} pid={}) {} {} [{}:{}] {}\n", source == Source::kApiServer ? "APIServer" : "EngineCore",
      getpid(), kNames[static_cast<int>(level)], stamp, base_name(where.file), where.line, message);
  std::lock_guard lock(g_mutex);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace octavo::log
