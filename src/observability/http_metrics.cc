#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <tuple>

#include "observability/metrics.h"
#include "observability/text_format.h"

// http_* series, as the middleware of vLLM's server counts them.

namespace octavo::observability {
namespace {

constexpr auto kHighResolution =
    std::to_array<double>({0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1,  1.5, 2,
                           2.5,  3,     3.5,  4,     4.5, 5,    7.5, 10,   30, 60});
constexpr auto kLowResolution = std::to_array<double>({0.1, 0.5, 1});

/// Found anywhere in the route: /v1/load_lora_adapter is left out too, as upstream.
constexpr std::string_view kExcluded[] = {"/metrics", "/health",  "/load",
                                          "/ping",    "/version", "/server_info"};
/// Our own probes, by their whole name.
constexpr std::string_view kProbes[] = {"/live", "/ready"};

bool is_excluded(std::string_view handler) {
  for (const std::string_view part : kExcluded) {
    if (handler.find(part) != std::string_view::npos) return true;
  }
  return std::find(std::begin(kProbes), std::end(kProbes), handler) != std::end(kProbes);
}

/// A client may invent methods; a label must stay bounded.
std::string_view known_method(std::string_view method) {
  static constexpr std::string_view kMethods[] = {"GET",     "HEAD",  "POST",  "PUT",    "DELETE",
                                                  "OPTIONS", "PATCH", "TRACE", "CONNECT"};
  const auto it = std::find(std::begin(kMethods), std::end(kMethods), method);
  return it == std::end(kMethods) ? std::string_view("OTHER") : *it;
}

struct Counter {
  double value = 0;
  double created = 0;
};

struct Summary {
  double count = 0;
  double sum = 0;
  double created = 0;
};

template <size_t n>
struct Histogram {
  std::array<double, n + 1> counts{};
  double sum = 0;
  double created = 0;

  void observe(const std::array<double, n>& bounds, double value) {
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value);
    counts[static_cast<size_t>(bucket - bounds.begin())] += 1;
    sum += value;
  }
  void append(std::string& out, std::string_view name, const std::array<double, n>& bounds,
              Labels labels) const {
    double count = 0;
    for (size_t i = 0; i <= n; ++i) {
      count += counts[i];
      append_sample(out, name, "_bucket",
                    label_text_with(labels, "le", i < n ? format_value(bounds[i]) : "+Inf"), count);
    }
    append_sample(out, name, "_count", label_text(labels), count);
    append_sample(out, name, "_sum", label_text(labels), sum);
  }
};

using LabelList = std::vector<std::pair<std::string, std::string>>;

/// The `_created` family of a metric whose children are `map`; `labels_of` makes a child's labels.
template <class Map, class F>
void append_created(std::string& out, const std::string& base, std::string_view help,
                    const Map& map, F&& labels_of) {
  if (map.empty() || !created_series_enabled()) return;
  append_header(out, base + "_created", help, "gauge");
  for (const auto& [key, child] : map) {
    append_sample(out, base, "_created", label_text(labels_of(key)), child.created);
  }
}

/// The child of `key`, made at `now` if it is new.
template <class Map>
auto& child_of(Map& map, const typename Map::key_type& key, double now) {
  const auto [it, added] = map.try_emplace(key);
  if (added) it->second.created = now;
  return it->second;
}

}  // namespace

struct HttpMetrics::State {
  using Route = std::string;                                              // handler
  using RouteMethod = std::pair<std::string, std::string>;                // handler, method
  using RouteStatus = std::tuple<std::string, std::string, std::string>;  // and status

  double start_wall_s = 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  mutable std::mutex mutex;  // guards what follows
  std::map<RouteStatus, Counter> requests;
  std::map<Route, Summary> request_sizes;
  std::map<Route, Summary> response_sizes;
  Histogram<kHighResolution.size()> high;
  std::map<RouteMethod, Histogram<kLowResolution.size()>> low;

  double now() const {
    return start_wall_s +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void append_requests(std::string& out) const;
  static void append_sizes(std::string& out, const std::string& name, std::string_view help,
                           const std::map<Route, Summary>& sizes);
  void append_durations(std::string& out) const;
};

HttpMetrics::HttpMetrics(double now_wall_s) : state_(std::make_unique<State>()) {
  state_->start_wall_s = now_wall_s;
  state_->high.created = now_wall_s;
}
HttpMetrics::~HttpMetrics() = default;

void HttpMetrics::record(std::string_view handler, std::string_view method, int status,
                         int64_t request_bytes, int64_t response_bytes, double duration_s) {
  if (is_excluded(handler)) return;
  const std::string route(handler);
  const std::string verb(known_method(method));
  std::string group = std::to_string(std::clamp(status / 100, 1, 5));
  group.append("xx");
  const double now = state_->now();
  std::lock_guard lock(state_->mutex);
  child_of(state_->requests, {route, verb, group}, now).value += 1;
  const auto add = [&](auto& sizes, int64_t bytes) {
    Summary& s = child_of(sizes, route, now);
    s.count += 1;
    s.sum += static_cast<double>(bytes);
  };
  add(state_->request_sizes, request_bytes);
  add(state_->response_sizes, response_bytes);
  state_->high.observe(kHighResolution, duration_s);
  child_of(state_->low, {route, verb}, now).observe(kLowResolution, duration_s);
}

void HttpMetrics::State::append_requests(std::string& out) const {
  constexpr std::string_view kHelp = "Total number of requests by method, status and handler.";
  const auto labels_of = [](const RouteStatus& key) {
    return LabelList{
        {"handler", std::get<0>(key)}, {"method", std::get<1>(key)}, {"status", std::get<2>(key)}};
  };
  append_header(out, "http_requests_total", kHelp, "counter");
  for (const auto& [key, counter] : requests) {
    append_sample(out, "http_requests_total", "", label_text(labels_of(key)), counter.value);
  }
  append_created(out, "http_requests", kHelp, requests, labels_of);
}

void HttpMetrics::State::append_sizes(std::string& out, const std::string& name,
                                      std::string_view help,
                                      const std::map<Route, Summary>& sizes) {
  const auto labels_of = [](const Route& route) { return LabelList{{"handler", route}}; };
  append_header(out, name, help, "summary");
  for (const auto& [route, summary] : sizes) {
    append_sample(out, name, "_count", label_text(labels_of(route)), summary.count);
    append_sample(out, name, "_sum", label_text(labels_of(route)), summary.sum);
  }
  append_created(out, name, help, sizes, labels_of);
}

void HttpMetrics::State::append_durations(std::string& out) const {
  constexpr std::string_view kHigh = "http_request_duration_highr_seconds";
  constexpr std::string_view kHighHelp = "Latency with many buckets but no labels.";
  append_header(out, kHigh, kHighHelp, "histogram");
  high.append(out, kHigh, kHighResolution, {});
  if (created_series_enabled()) {
    append_header(out, "http_request_duration_highr_seconds_created", kHighHelp, "gauge");
    append_sample(out, kHigh, "_created", "", high.created);
  }
  constexpr std::string_view kLow = "http_request_duration_seconds";
  constexpr std::string_view kLowHelp = "Latency with few buckets by handler and method.";
  const auto labels_of = [](const RouteMethod& key) {
    return LabelList{{"handler", key.first}, {"method", key.second}};
  };
  append_header(out, kLow, kLowHelp, "histogram");
  for (const auto& [key, histogram] : low) {
    histogram.append(out, kLow, kLowResolution, labels_of(key));
  }
  append_created(out, std::string(kLow), kLowHelp, low, labels_of);
}

void HttpMetrics::append_text(std::string& out) const {
  std::lock_guard lock(state_->mutex);
  state_->append_requests(out);
  State::append_sizes(out, "http_request_size_bytes",
                      "Content length of incoming requests by handler.", state_->request_sizes);
  State::append_sizes(out, "http_response_size_bytes",
                      "Content length of outgoing responses by handler.", state_->response_sizes);
  state_->append_durations(out);
}

}  // namespace octavo::observability
