#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "openai/exchange.h"
#include "server/http_text.h"
#include "server/worker_pool.h"

namespace octavo::server {

/// What passes from the handler of one request (any thread) to its connection (I/O thread): the
/// answer one way, "the client has gone" the other. Bytes that the handler queues while the I/O
/// thread is busy are taken together, so a burst of events costs one send.
class Channel {
 public:
  /// Everything the handler did since the last `take`.
  struct Pending {
    std::optional<openai::HttpResponse> response;
    bool begin = false;
    HeaderList headers;
    std::string bytes;
    bool end = false;
    bool abandoned = false;  // the handler let go without finishing
    bool cut = false;        // the buffer limit was passed, or nobody is left to read
  };

  /// `wake` asks the I/O thread for a `take` soon; called with no lock held, at most once per
  /// `take`.
  Channel(size_t max_buffered_bytes, std::function<void()> wake);

  // Handler side, any thread.
  void respond(openai::HttpResponse response);
  void begin_stream(HeaderList headers);
  bool write(std::string bytes);
  void end_stream();
  void on_disconnect(std::function<void()> callback);
  void abandon();

  // I/O side.
  Pending take();
  /// Bytes of this response that the connection holds and the client has not read.
  void set_unsent_bytes(size_t count) { unsent_bytes_.store(count, std::memory_order_relaxed); }
  /// The client has gone: runs the handler's callback if there is one. With `may_still_read` (it
  /// only closed its sending side) a handler without callback may still answer. True when the
  /// connection has no reason to live on.
  bool client_gone(bool may_still_read);
  /// The answer is complete: forgets the callback and refuses everything more.
  void close();

 private:
  void changed(std::unique_lock<std::mutex> lock);

  const size_t max_buffered_bytes_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  Pending pending_;
  std::function<void()> callback_;
  bool woken_ = false;
  bool begun_ = false;     // respond or begin_stream was called
  bool finished_ = false;  // respond, end_stream or abandon was called
  bool gone_ = false;
  bool closed_ = false;
  std::atomic<size_t> unsent_bytes_{0};
};

/// The handler's end. When the last handle is dropped without an answer the client gets a 500 (or a
/// cut stream): every request ends. Works passed to `post` run one at a time and in order.
class ServerExchange final : public openai::Exchange {
 public:
  ServerExchange(std::shared_ptr<Channel> channel, std::shared_ptr<WorkerPool> pool);
  ~ServerExchange() override;

  /// Runs the handler itself on the pool, before anything posted. False when the pool is full.
  bool start(std::function<void()> handler);

  void respond(openai::HttpResponse response) override;
  void begin_stream(std::vector<std::pair<std::string, std::string>> headers) override;
  bool write(std::string bytes) override;
  void end_stream() override;
  void on_disconnect(std::function<void()> callback) override;
  void post(std::function<void()> work) override;

 private:
  void run_works();
  void submit_works();

  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<WorkerPool> pool_;  // shared: a handler may outlive the server
  std::mutex mutex_;
  std::deque<std::function<void()>> works_;
  bool running_ = false;
};

}  // namespace octavo::server
