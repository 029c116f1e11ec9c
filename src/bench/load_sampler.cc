#include "bench/load_sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/thread_name.h"
#include "bench/gpu_facts.h"
#include "client/metrics_text.h"
#include "client/wait.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFirst = std::chrono::milliseconds(100);
constexpr auto kInterval = std::chrono::seconds(1);
constexpr double kTimeoutS = 2;
constexpr size_t kMaxAnswer = 16 << 20;

void raise_to(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(*value), *value);
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

void add_sample(std::string_view metrics_text, LoadPeaks& peaks) {
  std::optional<double> usage;
  std::optional<double> running;
  std::optional<double> waiting;
  client::for_each_sample(metrics_text, [&](const client::MetricSample& sample) {
    if (sample.name == "vllm:kv_cache_usage_perc" || sample.name == "vllm:gpu_cache_usage_perc") {
      raise_to(usage, sample.value);
    } else if (sample.name == "vllm:num_requests_running") {
      running = running.value_or(0) + sample.value;
    } else if (sample.name == "vllm:num_requests_waiting") {
      waiting = waiting.value_or(0) + sample.value;
    }
  });
  ++peaks.num_samples;
  raise_to(peaks.kv_usage, usage);
  raise_to(peaks.running, running);
  raise_to(peaks.waiting, waiting);
}

struct LoadSampler::Impl {
  explicit Impl(Server of) : server(std::move(of)) {
    thread = std::thread([this] {
      name_this_thread("sampler");
      work();
    });
  }
  ~Impl() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    ended.notify_all();
    if (thread.joinable()) thread.join();
  }

  void work() {
    std::chrono::milliseconds pause = kFirst;
    for (std::unique_lock lock(mutex);;) {
      if (ended.wait_for(lock, pause, [this] { return is_over; })) return;
      lock.unlock();
      read();
      if (std::exchange(is_first, false)) gpus = gpu_state_now();
      lock.lock();
      pause = kInterval;
    }
  }

  void read() {
    client::ClientOptions options;
    options.total_timeout_s = kTimeoutS;
    options.verify_tls = server.verify_tls;
    const auto answer = client::fetch(server.base.origin,
                                      {"GET", server.base.path + "/metrics", server.headers, ""},
                                      options, kMaxAnswer);
    if (answer.ok() && answer->head.status == 200) add_sample(answer->body, peaks);
  }

  const Server server;
  LoadPeaks peaks;  // of the thread until it has ended
  Json gpus;        // likewise
  bool is_first = true;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;  // under mutex
  std::thread thread;
};

LoadSampler::LoadSampler(const Server& server) : impl_(std::make_unique<Impl>(server)) {}
LoadSampler::~LoadSampler() = default;

LoadPeaks LoadSampler::stop() {
  impl_->stop();
  return impl_->peaks;
}

const nlohmann::ordered_json& LoadSampler::gpu_state() const { return impl_->gpus; }

nlohmann::ordered_json describe_peaks(const LoadPeaks& peaks) {
  return {{"peak_usage", or_null(peaks.kv_usage)},
          {"peak_running", or_null(peaks.running)},
          {"peak_waiting", or_null(peaks.waiting)},
          {"num_samples", peaks.num_samples}};
}

}  // namespace octavo::bench
