#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Bytes -> one HTTP/1.x request, strictly (RFC 9112). Our own instead of Beast's because it must
// refuse what smuggling needs (bare LF, folded headers, two lengths, length plus chunked), count
// headers, judge garbage by its first byte, and stop exactly at the end of a request so that
// pipelined bytes stay with the connection. No sockets, no threads: the fuzz target drives it.

namespace octavo::server {

struct ParserLimits {
  int64_t max_header_bytes = 64 << 10;  // request line, headers and trailers together
  int64_t max_header_count = 256;
  int64_t max_body_bytes = 32 << 20;
};

/// A request as it came over the wire. Header names are lower-case, values trimmed.
struct ParsedRequest {
  std::string method;
  std::string target;     // as sent; printable ASCII only
  int version_minor = 1;  // HTTP/1.x
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<int64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expect_continue = false;

  /// Value of the first header of this (lower-case) name, or empty.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;
};

/// Why a request cannot be read; the connection must be closed after the answer.
struct ParseFailure {
  int status = 0;
  const char* message = "";
};

/// Incremental reader of one request at a time.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits) : limits_(limits) {}

  /// Takes bytes up to the end of the head, then (on the next calls) up to the end of the request;
  /// returns how many were taken. Takes nothing once `done()` or `failed()`.
  size_t feed(std::string_view bytes);

  /// Nothing of the next request has arrived yet (empty lines do not count).
  bool idle() const { return phase_ == Phase::kRequestLine && line_.empty(); }
  /// The request line and all headers are known and valid.
  bool head_complete() const { return phase_ >= Phase::kFixedBody; }
  bool done() const { return phase_ == Phase::kDone; }
  bool failed() const { return failure_.status != 0; }
  const ParseFailure& failure() const { return failure_; }

  ParsedRequest& request() { return request_; }
  const ParsedRequest& request() const { return request_; }
  /// Forgets the request and waits for the next one.
  void reset();

 private:
  enum class Phase {
    kRequestLine,
    kHeaders,
    kFixedBody,  // from here on the head is complete
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailers,
    kDone,
  };

  bool take_line(std::string_view bytes, size_t& used);
  void take_body(std::string_view bytes, size_t& used);
  void on_line();
  void on_request_line();
  void on_header_line();
  void on_chunk_size_line();
  void on_trailer_line();
  void finish_head();
  void finish_framing();
  void check_partial_request_line();
  bool parse_version(std::string_view text);
  void fail(int status, const char* message);

  const ParserLimits limits_;
  Phase phase_ = Phase::kRequestLine;
  ParsedRequest request_;
  ParseFailure failure_;
  std::string line_;            // the current line so far, without its CRLF when complete
  int64_t header_bytes_ = 0;    // of request line, headers and trailers
  int64_t chunk_overhead_ = 0;  // bytes of chunk lines
  int64_t remaining_ = 0;       // of the fixed body or of the current chunk
};

/// ASCII case-insensitive equality.
bool equals_ignoring_case(std::string_view a, std::string_view b);
/// Whether a comma-separated header value lists `token` (case-insensitive).
bool lists_token(std::string_view value, std::string_view token);

}  // namespace octavo::server
