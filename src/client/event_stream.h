#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo::client {

/// Bytes of a text/event-stream -> the data of its events (WHATWG HTML, section 9.2): lines end
/// with LF, CR or CRLF; data lines of one event are joined by LF; comments and other fields are
/// skipped; an event without data is none. Pieces may be cut anywhere.
class EventStreamReader {
 public:
  using OnData = std::function<void(std::string_view data)>;
  explicit EventStreamReader(OnData on_data, size_t max_event_bytes = 16u << 20)
      : on_data_(std::move(on_data)), max_event_bytes_(max_event_bytes) {}

  /// Calls `on_data` for every event that ends inside `piece`. Error: an event is too large.
  Status feed(std::string_view piece);
  /// The stream has ended: an event whose empty line is missing still counts, as lenient clients
  /// have it.
  void finish();

 private:
  void on_line(std::string_view line);
  void dispatch();

  OnData on_data_;
  const size_t max_event_bytes_;
  std::string line_;  // what has come of the current line
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace octavo::client
