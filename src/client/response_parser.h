#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace octavo::client {

/// Status line and headers of an answer. Header names are lower-case, values trimmed.
struct ResponseHead {
  int status = 0;
  std::string reason;
  int version_minor = 1;
  std::vector<std::pair<std::string, std::string>> headers;

  /// Value of the first header of this (lower-case) name, or empty.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;
};

/// Bytes -> one HTTP/1.x answer after another (RFC 9112). No sockets; a fuzz target could drive it.
class ResponseParser {
 public:
  explicit ResponseParser(int64_t max_header_bytes) : max_header_bytes_(max_header_bytes) {}

  /// Takes bytes up to the end of the head, or up to the end of one piece of body (then `piece` is
  /// that part of `bytes`, empty otherwise); returns how many were taken. Call again with the rest.
  /// Takes nothing once `done()`. Interim answers (1xx) are skipped.
  Result<size_t> feed(std::string_view bytes, std::string_view& piece);
  /// The peer closed. True when that is a proper end of the answer.
  bool finish_at_eof();

  bool head_complete() const { return phase_ >= Phase::kFixedBody; }
  bool done() const { return phase_ == Phase::kDone; }
  /// Nothing has arrived since the last reset.
  bool untouched() const { return header_bytes_ == 0; }
  /// Whether the connection may carry another request after `done()`.
  bool keeps_alive() const { return keeps_alive_; }
  const ResponseHead& head() const { return head_; }
  void reset();

 private:
  enum class Phase {
    kStatusLine,
    kHeaders,
    kFixedBody,  // from here on the head is complete
    kUntilClose,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailers,
    kDone,
  };
  Status take_line(std::string_view bytes, size_t& used, bool& is_whole);
  Status on_line();
  Status on_status_line();
  Status on_header_line();
  Status on_chunk_size_line();
  Status finish_head();

  const int64_t max_header_bytes_;
  Phase phase_ = Phase::kStatusLine;
  ResponseHead head_;
  std::string line_;
  int64_t header_bytes_ = 0;
  int64_t remaining_ = 0;  // of the fixed body or the current chunk
  bool keeps_alive_ = false;
};

}  // namespace octavo::client
