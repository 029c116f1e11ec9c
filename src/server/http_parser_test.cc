#include "server/http_parser.h"

#include <gtest/gtest.h>

namespace octavo::server {
namespace {

// Feeds everything; the result is the parser's state at the end.
RequestParser parse(std::string_view bytes, ParserLimits limits = {}) {
  RequestParser parser(limits);
  while (!bytes.empty() && !parser.done() && !parser.failed()) {
    bytes.remove_prefix(parser.feed(bytes));
  }
  return parser;
}
int status_of(std::string_view bytes, ParserLimits limits = {}) {
  const RequestParser parser = parse(bytes, limits);
  return parser.failed() ? parser.failure().status : parser.done() ? 200 : 0;
}

TEST(RequestParser, ReadsARequestWithABody) {
  const auto parser =
      parse("POST /a?b=1 HTTP/1.1\r\nHost: h\r\nX-Two:  v w \t\r\nContent-Length: 3\r\n\r\nabc");
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(parser.request().method, "POST");
  EXPECT_EQ(parser.request().target, "/a?b=1");
  EXPECT_EQ(parser.request().header("x-two"), "v w");
  EXPECT_EQ(parser.request().body, "abc");
  EXPECT_TRUE(parser.request().keep_alive);
}

TEST(RequestParser, ByteByByteIsTheSameAsAtOnce) {
  const std::string_view bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: t\r\n\r\n";
  RequestParser parser({});
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_FALSE(parser.done()) << i;
    ASSERT_EQ(parser.feed(bytes.substr(i, 1)), 1u) << i;
    ASSERT_FALSE(parser.failed()) << i;
  }
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(parser.request().body, "abc");
}

TEST(RequestParser, StopsExactlyAtTheEndOfARequest) {
  const std::string_view bytes =
      "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
  RequestParser parser({});
  const size_t used = parser.feed(bytes);
  ASSERT_TRUE(parser.done());
  EXPECT_EQ(used, bytes.size() / 2);
  EXPECT_EQ(parser.feed(bytes.substr(used)), 0u);
  parser.reset();
  EXPECT_TRUE(parser.idle());
  parser.feed(bytes.substr(used));
  EXPECT_EQ(parser.request().target, "/2");
}

TEST(RequestParser, ShowsTheHeadBeforeItTakesTheBody) {
  RequestParser parser({});
  const std::string_view bytes = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
  EXPECT_EQ(parser.feed(bytes), bytes.size() - 3);
  EXPECT_TRUE(parser.head_complete());
  EXPECT_FALSE(parser.done());
}

TEST(RequestParser, BL_101_RefusesWhatSmugglingNeeds) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const std::string_view rest : {
           "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
           "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
           "Content-Length: 3, 3\r\n\r\nabc",
           "Content-Length: +3\r\n\r\nabc",
           "Content-Length: -1\r\n\r\n",
           "Content-Length: 0x3\r\n\r\nabc",
           "Content-Length: \r\n\r\n",
           "Content-Length: 99999999999999999999999\r\n\r\n",
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
           "X: a\n\r\n",
           "X: a\r\n folded\r\n\r\n",
           "X: a\r\n\tfolded\r\n\r\n",
           "X: a\rb\r\n\r\n",
           "no colon\r\n\r\n",
           ": empty name\r\n\r\n",
           "Host: again\r\n\r\n",
           "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
           "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
           "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
           "Transfer-Encoding: chunked\r\n\r\n1 1\r\n",
           "Transfer-Encoding: chunked\r\n\r\n\r\n",
           "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
       }) {
    EXPECT_EQ(status_of(start + std::string(rest)), 400) << rest;
  }
  EXPECT_EQ(status_of(start + std::string("X: a\0b\r\n\r\n", 10)), 400);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(RequestParser, BL_108_JudgesGarbageByItsFirstBytes) {
  EXPECT_EQ(status_of("\x16\x03\x01\x02"), 400);  // TLS hello, no line end
  EXPECT_EQ(status_of(std::string(40, 'A')), 400);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET  / HTTP/1.1\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1 \r\n"), 400);
  EXPECT_EQ(status_of("GET /\x80 HTTP/1.1\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\n"), 400);
  EXPECT_EQ(status_of("GET / http/1.1\r\n"), 400);
}

TEST(RequestParser, HeaderLimits) {
  ParserLimits limits;
  limits.max_header_bytes = 1000;
  limits.max_header_count = 3;
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(status_of(start + "A: 1\r\nB: 2\r\n\r\n", limits), 200);
  EXPECT_EQ(status_of(start + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits), 431);
  EXPECT_EQ(status_of(start + "A: " + std::string(2000, 'x'), limits), 431);
  EXPECT_EQ(status_of("GET /" + std::string(2000, 'x'), limits), 414);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: " +
                          std::string(2000, 'x'),
                      limits),
            431);
}

TEST(RequestParser, BodyLimitsAreJudgedBeforeTheBytesArrive) {
  ParserLimits limits;
  limits.max_body_bytes = 10;
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(status_of(start + "Content-Length: 10\r\n\r\n0123456789", limits), 200);
  EXPECT_EQ(status_of(start + "Content-Length: 11\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\nb\r\n", limits), 413);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n", limits),
            413);
}

TEST(RequestParser, ChunkLinesCannotOutweighTheBody) {
  std::string bytes = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 1000; ++i) bytes += "1;" + std::string(500, 'x') + "\r\na\r\n";
  EXPECT_EQ(status_of(bytes), 400);
}

TEST(RequestParser, ConnectionAndVersionDecideAboutKeepAlive) {
  const auto keeps = [](std::string_view bytes) { return parse(bytes).request().keep_alive; };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
}

TEST(RequestParser, EmptyLinesBeforeARequestAreIgnored) {
  EXPECT_EQ(status_of("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
}

TEST(RequestParser, ExpectContinue) {
  const auto parser =
      parse("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_TRUE(parser.request().expect_continue);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n"), 417);
}

}  // namespace
}  // namespace octavo::server
