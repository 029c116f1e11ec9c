#include "server/http_parser.h"

#include <algorithm>
#include <array>

namespace octavo::server {
namespace {

constexpr size_t kMaxMethodBytes = 32;
constexpr size_t kMaxChunkLineBytes = 1024;
constexpr int64_t kChunkOverheadSlack = 64 << 10;  // plus 16 bytes for each byte of body

// RFC 9110 section 5.6.2.
constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[size_t(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[size_t(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[size_t(c)] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<uint8_t>(c)] = true;
  return table;
}
constexpr auto kToken = make_token_table();

bool is_token_char(char c) { return kToken[static_cast<uint8_t>(c)]; }
bool is_token(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_token_char);
}
// Field values: visible ASCII, obs-text, space and tab; no other control characters.
bool is_value_char(char c) {
  const auto u = static_cast<uint8_t>(c);
  return (u >= 0x20 && u != 0x7f) || c == '\t';
}
bool is_target_char(char c) { return c > 0x20 && c < 0x7f; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; }

std::string_view trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Digits only and at most 18 of them, so that the value fits int64 (RFC 9110 section 8.6).
std::optional<int64_t> parse_length(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool lists_token(std::string_view value, std::string_view token) {
  while (!value.empty()) {
    const size_t comma = value.find(',');
    if (equals_ignoring_case(trim(value.substr(0, comma)), token)) return true;
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  return false;
}

std::string_view ParsedRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

bool ParsedRequest::has_header(std::string_view name) const {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& h) { return h.first == name; });
}

void RequestParser::reset() {
  phase_ = Phase::kRequestLine;
  request_ = {};
  failure_ = {};
  line_.clear();
  header_bytes_ = 0;
  chunk_overhead_ = 0;
  remaining_ = 0;
}

void RequestParser::fail(int status, const char* message) { failure_ = {status, message}; }

size_t RequestParser::feed(std::string_view bytes) {
  const bool head_was_complete = head_complete();
  size_t used = 0;
  while (used < bytes.size() && !failed() && !done()) {
    if (head_complete() != head_was_complete) break;  // let the caller look at the head first
    if (phase_ == Phase::kFixedBody || phase_ == Phase::kChunkData) {
      take_body(bytes, used);
    } else if (take_line(bytes, used)) {
      on_line();
      line_.clear();
    }
  }
  return used;
}

// True when a whole line, CRLF removed, stands in line_.
bool RequestParser::take_line(std::string_view bytes, size_t& used) {
  const std::string_view rest = bytes.substr(used);
  const size_t newline = rest.find('\n');
  const size_t count = newline == std::string_view::npos ? rest.size() : newline + 1;
  used += count;
  if (phase_ == Phase::kChunkSize || phase_ == Phase::kChunkEnd) {
    chunk_overhead_ += int64_t(count);
    if (line_.size() + count > kMaxChunkLineBytes ||
        chunk_overhead_ > kChunkOverheadSlack + 16 * int64_t(request_.body.size())) {
      fail(400, "The chunked encoding of the body is malformed.");
      return false;
    }
  } else {
    header_bytes_ += int64_t(count);
    if (header_bytes_ > limits_.max_header_bytes) {
      const bool in_target = phase_ == Phase::kRequestLine;
      fail(in_target ? 414 : 431, in_target ? "The request target is too long."
                                            : "The request headers are larger than the limit.");
      return false;
    }
  }
  line_.append(rest.substr(0, count));
  if (newline == std::string_view::npos) {
    if (phase_ == Phase::kRequestLine) check_partial_request_line();
    return false;
  }
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    fail(400, "A line of the request does not end with CR LF.");
    return false;
  }
  line_.resize(line_.size() - 2);
  return true;
}

void RequestParser::take_body(std::string_view bytes, size_t& used) {
  const size_t count = size_t(std::min<int64_t>(remaining_, int64_t(bytes.size() - used)));
  request_.body.append(bytes.substr(used, count));
  used += count;
  remaining_ -= int64_t(count);
  if (remaining_ > 0) return;
  phase_ = phase_ == Phase::kFixedBody ? Phase::kDone : Phase::kChunkEnd;
}

// Garbage, a TLS hello or another protocol is refused by its first bytes, not by a time-out.
void RequestParser::check_partial_request_line() {
  if (line_ == "\r") return;
  const std::string_view method = std::string_view(line_).substr(0, line_.find(' '));
  if (method.size() > kMaxMethodBytes ||
      !std::all_of(method.begin(), method.end(), is_token_char)) {
    fail(400, "The request line is malformed.");
  }
}

void RequestParser::on_line() {
  switch (phase_) {
    case Phase::kRequestLine:
      return on_request_line();
    case Phase::kHeaders:
      return on_header_line();
    case Phase::kChunkSize:
      return on_chunk_size_line();
    case Phase::kChunkEnd:
      if (!line_.empty()) return fail(400, "The chunked encoding of the body is malformed.");
      phase_ = Phase::kChunkSize;
      return;
    case Phase::kTrailers:
      return on_trailer_line();
    default:
      return;
  }
}

bool RequestParser::parse_version(std::string_view text) {
  if (text == "HTTP/1.1" || text == "HTTP/1.0") {
    request_.version_minor = text.back() - '0';
    return true;
  }
  const bool well_formed = text.size() == 8 && text.starts_with("HTTP/") && text[6] == '.' &&
                           text[5] >= '0' && text[5] <= '9' && text[7] >= '0' && text[7] <= '9';
  if (well_formed) {
    fail(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.");
  } else {
    fail(400, "The request line is malformed.");
  }
  return false;
}

void RequestParser::on_request_line() {
  if (line_.empty()) return;  // RFC 9112 section 2.2: empty lines before a request are ignored
  const std::string_view line = line_;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return fail(400, "The request line is malformed.");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (method.size() > kMaxMethodBytes || !is_token(method) || target.empty() ||
      !std::all_of(target.begin(), target.end(), is_target_char)) {
    return fail(400, "The request line is malformed.");
  }
  if (!parse_version(line.substr(last + 1))) return;
  request_.method = method;
  request_.target = target;
  phase_ = Phase::kHeaders;
}

void RequestParser::on_header_line() {
  if (line_.empty()) return finish_head();
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  // A folded line starts with a space, so it has no token before its colon (RFC 9112 section 5.2).
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return fail(400, "A header line is malformed.");
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (!std::all_of(value.begin(), value.end(), is_value_char)) {
    return fail(400, "A header value holds a control character.");
  }
  if (int64_t(request_.headers.size()) >= limits_.max_header_count) {
    return fail(431, "The request has more headers than the limit.");
  }
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  request_.headers.emplace_back(std::move(name), std::string(value));
}

void RequestParser::finish_head() {
  int num_hosts = 0;
  request_.keep_alive = request_.version_minor == 1;
  bool close = false;
  for (const auto& [name, value] : request_.headers) {
    if (name == "host") ++num_hosts;
    if (name == "connection") {
      if (lists_token(value, "close")) close = true;
      if (lists_token(value, "keep-alive")) request_.keep_alive = true;
    }
    if (name == "expect") {
      if (!equals_ignoring_case(value, "100-continue")) {
        return fail(417, "Only `Expect: 100-continue` is understood.");
      }
      request_.expect_continue = request_.version_minor == 1;
    }
  }
  if (close) request_.keep_alive = false;
  if (num_hosts > 1 || (num_hosts == 0 && request_.version_minor == 1)) {
    return fail(400, "An HTTP/1.1 request needs exactly one Host header.");
  }
  finish_framing();
}

// Where the body ends must have one reading only, or a proxy before us may see another request.
void RequestParser::finish_framing() {
  int num_lengths = 0;
  int num_encodings = 0;
  for (const auto& [name, value] : request_.headers) {
    if (name == "content-length") {
      ++num_lengths;
      request_.content_length = parse_length(value);
      if (!request_.content_length) return fail(400, "The Content-Length header is malformed.");
    } else if (name == "transfer-encoding") {
      ++num_encodings;
      if (!equals_ignoring_case(value, "chunked")) {
        return fail(501, "Only the transfer encoding `chunked` is understood.");
      }
    }
  }
  if (num_lengths > 1) return fail(400, "The request has more than one Content-Length header.");
  if (num_encodings > 1)
    return fail(400, "The request has more than one Transfer-Encoding header.");
  if (num_encodings == 1 && (num_lengths == 1 || request_.version_minor == 0)) {
    return fail(400, "Transfer-Encoding must not be used with Content-Length or HTTP/1.0.");
  }
  request_.chunked = num_encodings == 1;
  if (request_.chunked) {
    phase_ = Phase::kChunkSize;
    return;
  }
  remaining_ = request_.content_length.value_or(0);
  if (remaining_ > limits_.max_body_bytes) {
    return fail(413, "The request body is larger than the limit.");
  }
  phase_ = remaining_ == 0 ? Phase::kDone : Phase::kFixedBody;
  // Grows with what really arrives: a length alone must not cost memory.
  request_.body.reserve(size_t(std::min<int64_t>(remaining_, 64 << 10)));
}

void RequestParser::on_chunk_size_line() {
  const std::string_view line = line_;
  const size_t semicolon = line.find(';');
  std::string_view digits = line.substr(0, semicolon);
  if (semicolon !=
      std::string_view::npos) {  // blanks before an extension are legal (RFC 9112 7.1.1)
    if (!std::all_of(line.begin(), line.end(), is_value_char)) {
      return fail(400, "The chunked encoding of the body is malformed.");
    }
    digits = trim(digits);
  }
  if (digits.empty() || digits.size() > 15) {
    return fail(400, "The chunked encoding of the body is malformed.");
  }
  int64_t size = 0;
  for (const char c : digits) {
    const int digit = hex_digit(c);
    if (digit < 0) return fail(400, "The chunked encoding of the body is malformed.");
    size = size * 16 + digit;
  }
  if (size > limits_.max_body_bytes - int64_t(request_.body.size())) {
    return fail(413, "The request body is larger than the limit.");
  }
  remaining_ = size;
  phase_ = size == 0 ? Phase::kTrailers : Phase::kChunkData;
}

void RequestParser::on_trailer_line() {
  if (line_.empty()) {
    phase_ = Phase::kDone;
    return;
  }
  const size_t colon = line_.find(':');
  if (colon == std::string::npos || !is_token(std::string_view(line_).substr(0, colon)) ||
      !std::all_of(line_.begin(), line_.end(), is_value_char)) {
    fail(400, "A trailer line is malformed.");
  }
}

}  // namespace octavo::server
