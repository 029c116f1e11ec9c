// The readers that need no socket: URLs, answers, event streams; each also fed byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/event_stream.h"
#include "client/http_client.h"
#include "client/response_parser.h"
#include "client/url.h"

namespace octavo::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Url, PartsAreFound) {
  auto url = parse_url("http://localhost:8000/v1/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->origin, (Origin{false, "localhost", 8000}));
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(url->origin.host_header(), "localhost:8000");
  url = parse_url("https://[::1]");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->origin, (Origin{true, "::1", 443}));
  EXPECT_EQ(url->origin.host_header(), "[::1]");
  EXPECT_EQ(make_origin("::1", 80)->host, "::1");
}

TEST(Url, WhatIsNoUrlIsRefused) {
  for (const char* text :
       {"", "localhost:8000", "ftp://x", "http://", "http://:80", "http://u:p@h/", "http://h:0",
        "http://h:65536", "http://h:x", "http://[::1", "http://a b", "http://[::1]x", "http://h/\n",
        "http://h/#f", "http://h\x80/"}) {
    EXPECT_FALSE(parse_url(text).ok()) << text;
  }
  EXPECT_FALSE(make_origin("h/x", 80).ok());
  EXPECT_FALSE(make_origin("h", 70000).ok());
}

struct Parsed {
  std::string body;
  std::string error;
  bool is_done = false;
  bool keeps_alive = false;
  ResponseHead head;
};

Parsed parse(std::string_view text, size_t step, bool close = false) {
  ResponseParser parser(1000);
  Parsed out;
  while (!text.empty() && !parser.done()) {
    const std::string_view bytes = text.substr(0, step);
    std::string_view piece;
    const auto used = parser.feed(bytes, piece);
    if (!used.ok()) {
      out.error = used.error().message;
      return out;
    }
    out.body += piece;
    text.remove_prefix(*used);
  }
  if (close) parser.finish_at_eof();
  out.is_done = parser.done();
  out.keeps_alive = parser.keeps_alive();
  out.head = parser.head();
  return out;
}

TEST(ResponseParser, FramesAreTheSameInAnyPieces) {
  for (const size_t step : {size_t{1}, size_t{7}, size_t{100000}}) {
    Parsed fixed = parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX:  y \r\n\r\nhello", step);
    EXPECT_EQ(fixed.body, "hello");
    EXPECT_TRUE(fixed.is_done && fixed.keeps_alive);
    EXPECT_EQ(fixed.head.header("x"), "y");
    Parsed chunked = parse(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n"
        "0\r\nTrailer: x\r\n\r\n",
        step);
    EXPECT_EQ(chunked.body, "abc0123456789");
    EXPECT_TRUE(chunked.is_done && chunked.keeps_alive);
    Parsed until_close = parse("HTTP/1.0 404 Not Found\r\n\r\nbye", step, true);
    EXPECT_EQ(until_close.body, "bye");
    EXPECT_EQ(until_close.head.status, 404);
    EXPECT_EQ(until_close.head.reason, "Not Found");
    EXPECT_TRUE(until_close.is_done);
    EXPECT_FALSE(until_close.keeps_alive);
    Parsed interim = parse(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n", step);
    EXPECT_EQ(interim.head.status, 204);
    EXPECT_TRUE(interim.is_done);
    EXPECT_FALSE(interim.keeps_alive);
  }
}

TEST(ResponseParser, WhatIsNoAnswerIsAnError) {
  for (const char* text :
       {"SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc\r\n", "HTTP/2 200 OK\r\n", "HTTP/1.1 99 x\r\n",
        "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\n: x\r\n",
        "HTTP/1.1 200 OK\r\n folded\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"}) {
    EXPECT_THAT(parse(text, 1000).error, HasSubstr("not HTTP")) << text;
  }
  EXPECT_THAT(parse("HTTP/1.1 200 OK\r\nA: " + std::string(2000, 'x'), 100).error,
              HasSubstr("too large"));
  EXPECT_FALSE(parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 100, true).is_done);
}

std::vector<std::string> events(std::string_view text, size_t step) {
  std::vector<std::string> out;
  EventStreamReader reader([&](std::string_view data) { out.emplace_back(data); }, 100);
  while (!text.empty()) {
    if (!reader.feed(text.substr(0, step)).ok()) {
      out.emplace_back("too large");
      return out;
    }
    text.remove_prefix(std::min(step, text.size()));
  }
  reader.finish();
  return out;
}

TEST(EventStream, EventsAreTheSameInAnyPieces) {
  for (const size_t step : {size_t{1}, size_t{3}, size_t{1000}}) {
    EXPECT_THAT(events("data: a\n\n: ping\n\ndata:b\r\ndata:  c\r\n\r\n", step),
                ElementsAre("a", "b\n c"));
    EXPECT_THAT(events("event: x\nid: 1\ndata: {\"k\":1}\r\rdatax: no\n\n\n\ndata\n\n", step),
                ElementsAre("{\"k\":1}", ""));
    EXPECT_THAT(events("data: last, without an empty line", step),
                ElementsAre("last, without an empty line"));
    EXPECT_THAT(events("", step), ElementsAre());
    EXPECT_THAT(events("data: " + std::string(200, 'x') + "\n\n", step), ElementsAre("too large"));
  }
}

TEST(HttpClient, HeadersCannotSmuggle) {
  EXPECT_TRUE(is_header_value("Bearer abc\tdef"));
  EXPECT_FALSE(is_header_value("a\r\nb: c"));
  EXPECT_FALSE(is_header_value(std::string("a\0b", 3)));
  EXPECT_TRUE(is_header_name("x-request-id"));
  EXPECT_FALSE(is_header_name("x y"));
  EXPECT_FALSE(is_header_name(""));
}

}  // namespace
}  // namespace octavo::client
