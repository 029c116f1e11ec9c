// How much of a core the load generator needs: LoadDriver against a stub on another thread that
// writes every token as an event of its own.
//   bench_client [connections=64] [tokens=200] [gap_ms=10]     gap 0: as fast as it can be read
// Prints streamed tokens per second of client CPU, the client's share of a core, and by how much
// the client's TTFT is above what the stub measured (both clocks are the same).
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/load_driver.h"
#include "bench/statistics.h"

namespace {

using octavo::bench::Outcome;
using Clock = std::chrono::steady_clock;

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// Accepts `count` connections, reads one request on each, then streams to all of them in turn.
class Stub {
 public:
  Stub(size_t count, int tokens, double gap_s) : count_(count), tokens_(tokens), gap_s_(gap_s) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 4096) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::perror("stub");
      std::exit(1);
    }
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Stub() {
    thread_.join();
    ::close(listener_);
  }
  uint16_t port = 0;
  std::vector<double> first_write_s;

 private:
  void serve() {
    std::vector<int> sockets;
    char buffer[65536];
    for (size_t i = 0; i < count_; ++i) {
      sockets.push_back(::accept(listener_, nullptr, nullptr));
      const int one = 1;
      ::setsockopt(sockets.back(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    for (const int fd : sockets) {
      if (::recv(fd, buffer, sizeof(buffer), 0) <= 0) std::exit(1);
      send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
    const double start_s = now_s();
    for (int token = 0; token < tokens_; ++token) {
      const double due_s = start_s + token * gap_s_;
      while (gap_s_ > 0 && now_s() < due_s) ::poll(nullptr, 0, 1);
      for (const int fd : sockets) {
        if (token == 0) first_write_s.push_back(now_s());
        event(fd,
              "{\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1,"
              "\"model\":\"stub\",\"choices\":[{\"index\":0,\"text\":\" token\",\"logprobs\":null,"
              "\"finish_reason\":null,\"stop_reason\":null}]}");
      }
    }
    for (const int fd : sockets) {
      event(fd, "[DONE]");
      send(fd, "0\r\n\r\n");
      ::close(fd);
    }
  }
  static void event(int fd, const std::string& data) {
    send(fd, fmt::format("{:x}\r\ndata: {}\n\n\r\n", data.size() + 8, data));
  }
  static void send(int fd, const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += size_t(count);
    }
  }

  const size_t count_;
  const int tokens_;
  const double gap_s_;
  int listener_ = -1;
  std::thread thread_;
};

double argument(int argc, char** argv, int index, double otherwise) {
  if (index >= argc) return otherwise;
  double value = otherwise;
  const std::string text = argv[index];
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const auto connections = size_t(argument(argc, argv, 1, 64));
  const int tokens = int(argument(argc, argv, 2, 200));
  const double gap_ms = argument(argc, argv, 3, 10);
  octavo::bench::raise_descriptor_limit();
  Stub stub(connections, tokens, gap_ms / 1000);
  octavo::bench::Target target;
  target.origin = {false, "127.0.0.1", stub.port};
  target.path = "/v1/completions";
  target.payload.model = "stub";
  octavo::bench::SampleRequest sample;
  sample.prompts = {"Hi"};
  const std::vector<octavo::bench::SampleRequest> samples(connections, sample);
  octavo::bench::LoadDriver driver(target);
  octavo::bench::Batch batch;
  batch.requests = samples;
  const auto result = driver.run(batch);
  std::vector<double> seen_s;
  size_t events = 0;
  for (const Outcome& outcome : result.outcomes) {
    if (!outcome.success) {
      fmt::print(stderr, "failed: {}\n", outcome.error);
      return 1;
    }
    seen_s.push_back(outcome.start_s + outcome.ttft_s);
    events += outcome.itl_s.size() + 1;
  }
  // Connections are accepted in the order in which they are opened, which is the order of requests.
  std::vector<double> added_ms;
  for (size_t i = 0; i < seen_s.size(); ++i) {
    added_ms.push_back((seen_s[i] - stub.first_write_s[i]) * 1000);
  }
  std::sort(added_ms.begin(), added_ms.end());
  fmt::print(
      "{} connections, {} tokens in {:.2f} s: {:.0f} tokens/s, client CPU {:.1f} % of a core, "
      "{:.0f} tokens/s of client CPU; TTFT added p50 {:.3f} ms, p99 {:.3f} ms\n",
      connections, events, result.duration_s, double(events) / result.duration_s,
      100 * result.cpu_s / result.duration_s, double(events) / result.cpu_s,
      octavo::bench::percentile_of_sorted(added_ms, 50),
      octavo::bench::percentile_of_sorted(added_ms, 99));
  return 0;
}
