// Bytes -> requests, as a connection does it: in pieces, pipelined, with small limits. Checks that
// the split of the bytes does not change what is read (what smuggling lives on) and that limits
// hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_parser.h"
#include "server/routes.h"

namespace {

using octavo::server::ParserLimits;
using octavo::server::RequestParser;

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr ParserLimits kLimits{
    .max_header_bytes = 512, .max_header_count = 8, .max_body_bytes = 256};

// Everything that can be read from `bytes` when they arrive in pieces of `piece` bytes.
std::vector<std::string> read_all(std::string_view bytes, size_t piece) {
  std::vector<std::string> out;
  RequestParser parser(kLimits);
  while (!bytes.empty() && !parser.failed()) {
    const size_t used = parser.feed(bytes.substr(0, piece));
    require(used > 0 && used <= bytes.size());
    bytes.remove_prefix(used);
    const auto& request = parser.request();
    require(int64_t(request.body.size()) <= kLimits.max_body_bytes);
    require(int64_t(request.headers.size()) <= kLimits.max_header_count);
    if (parser.failed()) {
      out.push_back(std::to_string(parser.failure().status));
    } else if (parser.done()) {
      (void)octavo::server::split_target(request.target, "/root");
      out.push_back(request.method + ' ' + request.target + ' ' + request.body);
      parser.reset();
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read_all(bytes, bytes.size());
  const auto pieces = read_all(bytes, size_t(data[0] % 17) + 1);
  // A failure may be seen earlier with more bytes at hand, but never another request.
  require(whole.size() == pieces.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].size() > 3 || pieces[i].size() > 3) require(whole[i] == pieces[i]);
  }
  return 0;
}
