#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openai/exchange.h"

// Text of responses: status lines, headers, error bodies, percent-decoding.

namespace octavo::server {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// The reason phrase of RFC 9110, or "Unknown".
std::string_view status_phrase(int status);

/// How the end of a response body is marked.
enum class BodyFraming { kContentLength, kChunked, kUntilClose };

struct ResponseHead {
  int status = 200;
  int version_minor = 1;
  bool keep_alive = true;
  BodyFraming framing = BodyFraming::kContentLength;
  size_t content_length = 0;
  std::string_view content_type;  // empty = no such header
  std::string_view date;          // RFC 9110 section 5.6.7
};
/// Appends the status line and all headers. A header whose name or value holds CR, LF or NUL is
/// left out, so that nothing from a request can split a response.
void append_head(std::string& out, const ResponseHead& head, const HeaderList& headers);

/// Appends one chunk of the chunked encoding; nothing for empty `data` (it would end the body).
void append_chunk(std::string& out, std::string_view data);

/// The error object (openai/api.h) for errors that never reach a handler.
openai::HttpResponse error_object(int status, std::string_view type, std::string_view message);
/// `{"detail": ...}`, the body of 404 and 405.
openai::HttpResponse detail_response(int status);

/// Undoes %XX; malformed escapes stay as they are.
std::string percent_decode(std::string_view text);

/// 32 random hexadecimal digits in the form of a version 4 UUID without dashes. Any thread.
std::string random_uuid_hex();

/// The current time for a Date header.
std::string http_date(long seconds_since_epoch);

}  // namespace octavo::server
