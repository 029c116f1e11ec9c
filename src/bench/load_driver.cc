#include "bench/load_driver.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <ctime>
#include <deque>

#include "client/event_stream.h"

namespace octavo::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double thread_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

/// One request under way: turns HTTP into an Outcome.
class OneRequest final : public client::ResponseReader {
 public:
  OneRequest(Wire wire, Outcome& outcome, std::function<void()> on_over)
      : outcome_(outcome),
        answer_(wire, outcome),
        events_([this](std::string_view data) { on_event(data); }),
        on_over_(std::move(on_over)) {}

  void on_head(const client::ResponseHead& head) override {
    if (head.status == 200) return;
    is_refused_ = true;
    outcome_.error = head.reason.empty() ? "HTTP " + std::to_string(head.status) : head.reason;
  }
  bool on_body(std::string_view piece) override {
    if (is_refused_) return true;  // read to the end, so that the connection can be kept
    if (!answer_.is_stream()) {
      body_ += piece;
      return true;
    }
    const Status status = events_.feed(piece);
    if (!status.ok()) fail(status);
    return !has_failed_;
  }
  void on_end(const Status& status) override {
    if (!status.ok()) {
      fail(status);
    } else if (!is_refused_ && !has_failed_) {
      finish();
    }
    on_over_();
  }

 private:
  void on_event(std::string_view data) {
    if (has_failed_) return;
    const Status status = answer_.on_event(data, now_s());
    if (!status.ok()) fail(status);
  }
  void finish() {
    if (answer_.is_stream()) {
      events_.finish();
      if (!has_failed_) answer_.finish();
      return;
    }
    const Status status = answer_.on_body(body_, now_s());
    if (!status.ok()) fail(status);
  }
  void fail(const Status& status) {
    has_failed_ = true;
    outcome_.success = false;
    outcome_.error = status.error().message;
  }

  Outcome& outcome_;
  AnswerReader answer_;
  client::EventStreamReader events_;
  std::string body_;
  std::function<void()> on_over_;
  bool is_refused_ = false;
  bool has_failed_ = false;
};

client::Request make_request(const Target& target, const SampleRequest& sample) {
  client::Request request{"POST", target.path, target.headers,
                          make_payload(target.payload, sample)};
  if (!sample.request_id.empty()) {
    request.headers.emplace_back("x-request-id", sample.request_id);
  }
  return request;
}

int64_t num_sequences(Wire wire, const SampleRequest& sample) {
  const auto count = int64_t(sample.prompts.size());
  return std::max<int64_t>(wire == Wire::kRerank ? count - 1 : count, 1);
}

/// A batch while it runs. Lives until run() returns; all handlers run inside it.
class BatchRun {
 public:
  BatchRun(asio::io_context& context, client::HttpClient& client, const Target& target,
           const Batch& batch)
      : context_(context),
        client_(client),
        probe_client_(context, target.origin, target.client),
        target_(target),
        batch_(batch),
        timer_(context),
        probe_timer_(context) {}

  BatchResult run() {
    result_.outcomes.resize(batch_.requests.size());
    arrival_s_.resize(batch_.requests.size());
    // Bodies are made before the clock starts: making them is not the server's time.
    for (const SampleRequest& sample : batch_.requests) {
      prepared_.push_back(make_request(target_, sample));
    }
    const double cpu_before_s = thread_cpu_s();
    start_ = Clock::now();
    start_s_ = now_s();
    end_s_ = start_s_;
    if (batch_.probe_rate > 0) send_probe();
    release_due();
    context_.restart();
    context_.run();
    result_.duration_s = std::max(end_s_ - start_s_, 1e-9);
    result_.cpu_s = thread_cpu_s() - cpu_before_s;
    return std::move(result_);
  }

 private:
  /// Gives every request whose time has come its turn, then waits for the next one's.
  void release_due() {
    while (next_ < batch_.requests.size()) {
      const double due_s = batch_.times_s.empty() ? 0 : batch_.times_s[next_];
      if (due_s > 0 && now_s() < start_s_ + due_s) {
        timer_.expires_at(start_ + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(std::min(due_s, 1e8))));
        timer_.async_wait([this](const boost::system::error_code& error) {
          if (!error) release_due();
        });
        return;
      }
      const size_t index = next_++;
      if (batch_.on_turn) batch_.on_turn(index);
      arrival_s_[index] = now_s();
      waiting_.push_back(index);
      send_waiting();
    }
  }

  void send_waiting() {
    while (!waiting_.empty() &&
           (!batch_.max_concurrency || num_running_ < *batch_.max_concurrency)) {
      const size_t index = waiting_.front();
      waiting_.pop_front();
      ++num_running_;
      Outcome& outcome = result_.outcomes[index];
      outcome.prompt_len = batch_.requests[index].prompt_len;
      outcome.num_input_sequences = num_sequences(target_.payload.wire, batch_.requests[index]);
      outcome.start_s = now_s();
      outcome.client_queue_s = outcome.start_s - arrival_s_[index];
      client_.start(std::move(prepared_[index]),
                    std::make_shared<OneRequest>(target_.payload.wire, outcome,
                                                 [this] { on_request_over(); }));
    }
  }

  void on_request_over() {
    --num_running_;
    ++num_finished_;
    end_s_ = now_s();
    if (batch_.on_finished) batch_.on_finished(num_finished_);
    if (num_finished_ == batch_.requests.size()) probe_timer_.cancel();
    send_waiting();
  }

  bool is_over() const { return num_finished_ == batch_.requests.size(); }

  void send_probe() {
    SampleRequest sample;
    sample.prompts = {"Hi"};
    sample.prompt_len = 1;
    sample.output_len = 1;
    auto outcome = std::make_shared<Outcome>();
    outcome->start_s = now_s();
    const auto over = [this, outcome] {
      result_.probes.push_back(std::move(*outcome));
      if (is_over()) return;
      probe_timer_.expires_after(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(std::min(1 / batch_.probe_rate, 1e8))));
      probe_timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error && !is_over()) send_probe();
      });
    };
    probe_client_.start(make_request(target_, sample),
                        std::make_shared<OneRequest>(target_.payload.wire, *outcome, over));
  }

  asio::io_context& context_;
  client::HttpClient& client_;
  client::HttpClient probe_client_;
  const Target& target_;
  const Batch& batch_;
  asio::steady_timer timer_;
  asio::steady_timer probe_timer_;
  std::vector<client::Request> prepared_;
  std::vector<double> arrival_s_;
  std::deque<size_t> waiting_;
  size_t next_ = 0;
  size_t num_finished_ = 0;
  int64_t num_running_ = 0;
  Clock::time_point start_;
  double start_s_ = 0;
  double end_s_ = 0;
  BatchResult result_;
};

}  // namespace

struct LoadDriver::Impl {
  explicit Impl(Target wanted)
      : target(std::move(wanted)), client(context, target.origin, target.client) {}
  asio::io_context context{1};
  const Target target;
  client::HttpClient client;
};

LoadDriver::LoadDriver(Target target) : impl_(std::make_unique<Impl>(std::move(target))) {}
LoadDriver::~LoadDriver() = default;

BatchResult LoadDriver::run(const Batch& batch) {
  return BatchRun(impl_->context, impl_->client, impl_->target, batch).run();
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65535);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace octavo::bench
