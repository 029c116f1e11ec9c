#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace octavo::log {

enum class Level { kDebug, kInfo, kWarning, kError, kCritical };

/// Who speaks. Octavo is one process; engine events carry vLLM's `EngineCore` prefix, all else
/// `APIServer`, so that operators' greps go on working (contract/logging.md section 1).
enum class Source { kApiServer, kEngineCore };

/// Where a record was written. Not std::source_location: clang 14, which builds the fuzz targets,
/// lacks it.
struct Place {
  const char* file;
  int line;
};

/// A format string that knows where it was written.
struct Format {
  fmt::string_view text;
  Place where;
  template <class S>
  Format(const S& s, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT
      : text(s), where{file, line} {}
};

/// Lowest level that is written. Default INFO. Any thread.
void set_level(Level level);
bool enabled(Level level);

/// Writes one record `(<Source> pid=<pid>) <LEVEL> MM-DD HH:MM:SS [<file>:<line>] <message>` to
/// stdout (or where configured). Any thread; never blocks on a slow terminal for long.
void write(Level level, Source source, const Place& where, std::string message);

template <class... Args>
void log(Level level, Source source, const Format& format, const Args&... args) {
  if (!enabled(level)) return;
  write(level, source, format.where, fmt::vformat(format.text, fmt::make_format_args(args...)));
}
template <class... Args>
void debug(Source source, const Format& format, const Args&... args) {
  log(Level::kDebug, source, format, args...);
}
template <class... Args>
void info(Source source, const Format& format, const Args&... args) {
  log(Level::kInfo, source, format, args...);
}
template <class... Args>
void warning(Source source, const Format& format, const Args&... args) {
  log(Level::kWarning, source, format, args...);
}
template <class... Args>
void error(Source source, const Format& format, const Args&... args) {
  log(Level::kError, source, format, args...);
}

}  // namespace octavo::log
