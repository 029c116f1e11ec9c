#pragma once

#include <fmt/core.h>

#include <chrono>
#include <string>
#include <string_view>

namespace octavo::log {

enum class Level { kDebug, kInfo, kWarning, kError, kCritical };

/// Who speaks. Octavo is one process; engine events carry vLLM's `EngineCore` prefix, all else
/// `APIServer`, so that operators' greps go on working.
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

/// Writes one record `(<Source> pid=<pid>) <LEVEL> MM-DD HH:MM:SS [<file>:<line>] <message>`.
/// Any thread; see `write_line`.
void write(Level level, Source source, const Place& where, std::string message);

/// Queues one line (its newline included) for stdout. Any thread; never waits for stdout: one
/// writer thread does. When a stalled terminal or pipe has filled the queue (16,384 lines or 8 MiB)
/// lines are dropped, and how many is written once it moves again.
void write_line(std::string line);

/// Waits until everything queued so far has been written, `timeout` at most; false when it was not.
/// Happens by itself at exit, in std::terminate and before a failed CHECK aborts.
bool flush(std::chrono::milliseconds timeout = std::chrono::seconds(2));

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
