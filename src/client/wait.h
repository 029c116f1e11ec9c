#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/http_client.h"

namespace octavo::client {

/// A whole answer.
struct Response {
  ResponseHead head;
  std::string body;
  bool is_truncated = false;  // the body went on after `max_kept_bytes`
};

/// Sends one request on a connection of its own and waits for the answer. Keeps the first
/// `max_kept_bytes` of the body and then hangs up. Errors as ResponseReader::on_end.
Result<Response> fetch(const Origin& origin, Request request, const ClientOptions& options,
                       size_t max_kept_bytes);

/// Sends one request and passes on the body as it comes. `on_piece` gets the pieces of an answer
/// with status 200 and may end it with false; the body of any other answer is returned.
Result<Response> stream(const Origin& origin, Request request, const ClientOptions& options,
                        const std::function<bool(std::string_view)>& on_piece);

/// Sends several requests over kept connections, `concurrency` at a time; answers in their order.
std::vector<Result<Response>> fetch_all(const Origin& origin, std::vector<Request> requests,
                                        const ClientOptions& options, size_t max_kept_bytes,
                                        size_t concurrency);

}  // namespace octavo::client
