#include "server/http_text.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <ctime>

namespace octavo::server {
namespace {

struct Phrase {
  int status;
  std::string_view text;
};
constexpr auto kPhrases = std::to_array<Phrase>({
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Entity"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
});

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool splits_response(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

}  // namespace

std::string_view status_phrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

void append_head(std::string& out, const ResponseHead& head, const HeaderList& headers) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.{} {} {}\r\ndate: {}\r\nserver: octavo\r\n", head.version_minor,
                 head.status, status_phrase(head.status), head.date);
  if (head.framing == BodyFraming::kContentLength) {
    fmt::format_to(to, "content-length: {}\r\n", head.content_length);
  } else if (head.framing == BodyFraming::kChunked) {
    out += "transfer-encoding: chunked\r\n";
  }
  if (!head.content_type.empty()) fmt::format_to(to, "content-type: {}\r\n", head.content_type);
  for (const auto& [name, value] : headers) {
    if (!splits_response(name) && !splits_response(value)) {
      fmt::format_to(to, "{}: {}\r\n", name, value);
    }
  }
  if (!head.keep_alive) {
    out += "connection: close\r\n";
  } else if (head.version_minor == 0) {
    out += "connection: keep-alive\r\n";
  }
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", data.size());
  out += data;
  out += "\r\n";
}

openai::HttpResponse error_object(int status, std::string_view type, std::string_view message) {
  // Both texts are ours and hold neither quotes nor control characters.
  openai::HttpResponse response;
  response.status = status;
  response.body =
      fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":{}}}}})", message,
                  type, status);
  return response;
}

openai::HttpResponse detail_response(int status) {
  openai::HttpResponse response;
  response.status = status;
  response.body = fmt::format(R"({{"detail":"{}"}})", status_phrase(status));
  return response;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::string random_uuid_hex() {
  std::array<unsigned char, 16> bytes{};
  RAND_bytes(bytes.data(), int(bytes.size()));
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string out;
  for (const unsigned char byte : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", byte);
  return out;
}

std::string http_date(long seconds_since_epoch) {
  const std::time_t seconds = seconds_since_epoch;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  // Not strftime: %a and %b follow the locale.
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday,
                     kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace octavo::server
