#include "client/response_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace octavo::client {
namespace {

constexpr size_t kMaxHeaders = 256;

Error malformed(const char* what) {
  return {Code::kInvalidArgument, std::string("the answer is not HTTP: ") + what};
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Whether a comma-separated value lists `token`; both compared in lower case.
bool lists_token(std::string_view value, std::string_view token) {
  const std::string low = lowered(value);
  for (size_t begin = 0; begin <= low.size();) {
    const size_t end = std::min(low.find(',', begin), low.size());
    if (trimmed(std::string_view(low).substr(begin, end - begin)) == token) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::string_view ResponseHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

bool ResponseHead::has_header(std::string_view name) const {
  return std::ranges::any_of(headers, [&](const auto& pair) { return pair.first == name; });
}

void ResponseParser::reset() {
  phase_ = Phase::kStatusLine;
  head_ = {};
  line_.clear();
  header_bytes_ = 0;
  remaining_ = 0;
  keeps_alive_ = false;
}

Result<size_t> ResponseParser::feed(std::string_view bytes, std::string_view& piece) {
  piece = {};
  size_t used = 0;
  while (used < bytes.size() && phase_ != Phase::kDone) {
    if (phase_ == Phase::kUntilClose) {
      piece = bytes.substr(used);
      return bytes.size();
    }
    if (phase_ == Phase::kFixedBody || phase_ == Phase::kChunkData) {
      const size_t count = std::min<size_t>(bytes.size() - used, size_t(remaining_));
      piece = bytes.substr(used, count);
      remaining_ -= int64_t(count);
      if (remaining_ == 0) phase_ = phase_ == Phase::kFixedBody ? Phase::kDone : Phase::kChunkEnd;
      return used + count;
    }
    bool is_whole = false;
    OCTAVO_TRY(take_line(bytes, used, is_whole));
    if (!is_whole) break;
    const bool was_head = head_complete();
    OCTAVO_TRY(on_line());
    line_.clear();
    if (!was_head && head_complete()) break;  // the caller sees the head before any body
  }
  return used;
}

bool ResponseParser::finish_at_eof() {
  if (phase_ == Phase::kUntilClose) phase_ = Phase::kDone;
  return phase_ == Phase::kDone;
}

/// Moves bytes up to and with the next newline into line_, without CR and LF.
Status ResponseParser::take_line(std::string_view bytes, size_t& used, bool& is_whole) {
  const std::string_view rest = bytes.substr(used);
  const size_t newline = rest.find('\n');
  const size_t count = newline == std::string_view::npos ? rest.size() : newline + 1;
  used += count;
  header_bytes_ += int64_t(count);
  const bool is_chunk_line = phase_ == Phase::kChunkSize || phase_ == Phase::kChunkEnd;
  if (!is_chunk_line && header_bytes_ > max_header_bytes_) {
    return Error{Code::kInvalidArgument, "the head of the answer is too large"};
  }
  line_.append(rest.substr(0, count));
  if (is_chunk_line && line_.size() > 4096) return malformed("a chunk line is too long");
  is_whole = newline != std::string_view::npos;
  if (is_whole) {
    line_.pop_back();
    if (line_.ends_with('\r')) line_.pop_back();
  }
  return {};
}

Status ResponseParser::on_line() {
  switch (phase_) {
    case Phase::kStatusLine:
      return on_status_line();
    case Phase::kHeaders:
      return line_.empty() ? finish_head() : on_header_line();
    case Phase::kChunkSize:
      return on_chunk_size_line();
    case Phase::kChunkEnd:
      if (!line_.empty()) return malformed("a chunk is longer than it says");
      phase_ = Phase::kChunkSize;
      return {};
    case Phase::kTrailers:
      if (line_.empty()) phase_ = Phase::kDone;
      return {};
    default:
      return {};
  }
}

Status ResponseParser::on_status_line() {
  std::string_view line = line_;
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ') {
    return malformed("no status line");
  }
  head_.version_minor = line[7] - '0';
  const auto [end, error] = std::from_chars(line.data() + 9, line.data() + 12, head_.status);
  if (error != std::errc() || end != line.data() + 12 || head_.status < 100 ||
      (line.size() > 12 && line[12] != ' ') || head_.version_minor < 0 || head_.version_minor > 9) {
    return malformed("the status is no number");
  }
  head_.reason = std::string(trimmed(line.substr(12)));
  phase_ = Phase::kHeaders;
  return {};
}

Status ResponseParser::on_header_line() {
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line[0] == ' ' || line[0] == '\t') {
    return malformed("a header has no name");
  }
  if (head_.headers.size() >= kMaxHeaders) return malformed("too many headers");
  head_.headers.emplace_back(lowered(line.substr(0, colon)),
                             std::string(trimmed(line.substr(colon + 1))));
  return {};
}

Status ResponseParser::on_chunk_size_line() {
  const std::string_view digits = trimmed(std::string_view(line_).substr(0, line_.find(';')));
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), remaining_, 16);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
      remaining_ < 0) {
    return malformed("the size of a chunk is no number");
  }
  phase_ = remaining_ == 0 ? Phase::kTrailers : Phase::kChunkData;
  if (remaining_ == 0) header_bytes_ = 1;  // trailers get the whole bound
  return {};
}

Status ResponseParser::finish_head() {
  if (head_.status < 200) {  // 100 Continue and the like; the answer is still to come
    head_ = {};
    phase_ = Phase::kStatusLine;
    return {};
  }
  const std::string_view connection = head_.header("connection");
  keeps_alive_ = head_.version_minor >= 1 ? !lists_token(connection, "close")
                                          : lists_token(connection, "keep-alive");
  if (head_.status == 204 || head_.status == 304) {
    phase_ = Phase::kDone;
    return {};
  }
  if (lists_token(head_.header("transfer-encoding"), "chunked")) {
    phase_ = Phase::kChunkSize;
    return {};
  }
  if (!head_.has_header("content-length")) {
    keeps_alive_ = false;
    phase_ = Phase::kUntilClose;
    return {};
  }
  const std::string_view length = head_.header("content-length");
  const auto [end, error] =
      std::from_chars(length.data(), length.data() + length.size(), remaining_);
  if (length.empty() || error != std::errc() || end != length.data() + length.size() ||
      remaining_ < 0) {
    return malformed("Content-Length is no number");
  }
  phase_ = remaining_ == 0 ? Phase::kDone : Phase::kFixedBody;
  return {};
}

}  // namespace octavo::client
