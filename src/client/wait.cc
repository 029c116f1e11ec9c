#include "client/wait.h"

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <vector>

namespace octavo::client {
namespace {

constexpr size_t kMaxErrorBody = 64 << 10;

class Collector final : public ResponseReader {
 public:
  explicit Collector(size_t max_kept_bytes) : max_kept_bytes_(max_kept_bytes) {}
  void on_head(const ResponseHead& head) override { response.head = head; }
  bool on_body(std::string_view piece) override {
    if (on_piece != nullptr && response.head.status == 200) return on_piece(piece);
    const size_t room = max_kept_bytes_ - response.body.size();
    response.body.append(piece.substr(0, room));
    response.is_truncated = piece.size() > room;
    return !response.is_truncated;
  }
  void on_end(const Status& status) override {
    end = status;
    if (on_over != nullptr) on_over();
  }

  Response response;
  std::optional<Status> end;
  std::function<bool(std::string_view)> on_piece;
  std::function<void()> on_over;

 private:
  const size_t max_kept_bytes_;
};

Result<Response> run(const Origin& origin, Request request, const ClientOptions& options,
                     const std::shared_ptr<Collector>& collector) {
  auto context = std::make_unique<boost::asio::io_context>();
  HttpClient(*context, origin, options).start(std::move(request), collector);
  while (!collector->end && context->run_one() > 0) {
  }
  if (!collector->end) return Error{Code::kInternal, "the exchange did not end"};
  if (!collector->end->ok() && collector->end->error().code == Code::kCancelled) {
    // A name may still be being looked up, on a thread that the context's end would wait for: out
    // of time must mean now. What is left behind goes with the process.
    static auto* const abandoned = new std::vector<std::unique_ptr<boost::asio::io_context>>();
    abandoned->push_back(std::move(context));
  }
  OCTAVO_TRY(*collector->end);
  return std::move(collector->response);
}

}  // namespace

Result<Response> fetch(const Origin& origin, Request request, const ClientOptions& options,
                       size_t max_kept_bytes) {
  return run(origin, std::move(request), options, std::make_shared<Collector>(max_kept_bytes));
}

Result<Response> stream(const Origin& origin, Request request, const ClientOptions& options,
                        const std::function<bool(std::string_view)>& on_piece) {
  auto collector = std::make_shared<Collector>(kMaxErrorBody);
  collector->on_piece = on_piece;
  return run(origin, std::move(request), options, collector);
}

std::vector<Result<Response>> fetch_all(const Origin& origin, std::vector<Request> requests,
                                        const ClientOptions& options, size_t max_kept_bytes,
                                        size_t concurrency) {
  boost::asio::io_context context;
  HttpClient client(context, origin, options);
  std::vector<std::shared_ptr<Collector>> collectors;
  size_t next = 0;
  const std::function<void()> send_next = [&] {
    if (next == requests.size()) return;
    auto collector = std::make_shared<Collector>(max_kept_bytes);
    collector->on_over = send_next;
    collectors.push_back(collector);
    client.start(std::move(requests[next++]), collector);
  };
  for (size_t i = 0; i < concurrency; ++i) send_next();
  context.run();
  std::vector<Result<Response>> out;
  for (const auto& collector : collectors) {
    if (collector->end->ok()) {
      out.emplace_back(std::move(collector->response));
    } else {
      out.emplace_back(collector->end->error());
    }
  }
  return out;
}

}  // namespace octavo::client
