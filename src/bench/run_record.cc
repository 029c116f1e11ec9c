#include "bench/run_record.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/gpu_facts.h"
#include "client/metrics_text.h"
#include "client/wait.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxAnswer = 16 << 20;
constexpr const char* kPrefixQueries = "vllm:prefix_cache_queries_total";
constexpr const char* kPrefixHits = "vllm:prefix_cache_hits_total";

std::optional<std::string> get(const Server& server, const std::string& path) {
  client::ClientOptions options;
  options.total_timeout_s = 60;
  options.verify_tls = server.verify_tls;
  const auto answer =
      client::fetch(server.base.origin, {"GET", server.base.path + path, server.headers, ""},
                    options, kMaxAnswer);
  if (!answer.ok() || answer->head.status != 200 || answer->is_truncated) return std::nullopt;
  return answer->body;
}

Json get_object(const Server& server, const std::string& path) {
  const auto body = get(server, path);
  Json value = body ? Json::parse(*body, nullptr, false) : Json();
  return value.is_object() ? value : Json();
}

/// The labels of a series as an object: a="b",c="d".
Json labels_as_json(std::string_view labels) {
  Json out = Json::object();
  while (!labels.empty()) {
    const size_t equals = labels.find("=\"");
    if (equals == std::string_view::npos) break;
    const std::string key(labels.substr(0, equals));
    std::string value;
    size_t i = equals + 2;
    for (; i < labels.size() && labels[i] != '"'; ++i) {
      if (labels[i] == '\\' && i + 1 < labels.size()) ++i;
      value += labels[i];
    }
    out[key] = value;
    labels.remove_prefix(std::min(i + 1, labels.size()));
    if (labels.starts_with(',')) labels.remove_prefix(1);
  }
  return out;
}

/// The value behind `key` and a colon in a file of such lines; every one that is there.
std::vector<std::string> values_of(const char* path, std::string_view key) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    out.push_back(begin == std::string::npos ? "" : line.substr(begin));
  }
  return out;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Json machine_facts() {
  Json out = Json::object();
  const auto models = values_of("/proc/cpuinfo", "model name");
  out["cpu_model"] = models.empty() ? Json() : Json(models[0]);
  out["num_cpus"] = ::sysconf(_SC_NPROCESSORS_ONLN);
  out["memory_bytes"] = int64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::string governor;
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> governor;
  out["governor"] = governor.empty() ? Json() : Json(governor);
  utsname kernel{};
  out["kernel"] = ::uname(&kernel) == 0 ? Json(kernel.release) : Json();
  return out;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// octavo's configuration; asked again while the hash of the weights is being computed.
Json config_of(const Server& server, double max_wait_s, const std::function<void()>& on_wait) {
  using Clock = std::chrono::steady_clock;
  constexpr timespec kPause{0, 200'000'000};
  const Json::json_pointer state("/model/weights_sha256_state");
  const auto end = Clock::now() + std::chrono::duration<double>(max_wait_s);
  for (bool has_told = false;; has_told = true) {
    Json config = get_object(server, "/octavo/config");
    const bool is_computing =
        config.is_object() && config.contains(state) && config[state] == "computing";
    if (!is_computing || Clock::now() >= end) return config;
    if (!has_told) on_wait();
    ::nanosleep(&kPause, nullptr);
  }
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::optional<std::string> read_metrics(const Server& server) { return get(server, "/metrics"); }

Result<nlohmann::ordered_json> collect_server_facts(const Server& server, double max_wait_s,
                                                    const std::function<void()>& on_wait) {
  OCTAVO_TRY(const std::vector<ServedModel> served, list_models(server));
  Json out = Json::object();
  const client::Origin& origin = server.base.origin;
  out["url"] = fmt::format("{}://{}{}", origin.is_tls ? "https" : "http", origin.host_header(),
                           server.base.path);
  const Json version = get_object(server, "/version");
  out["version"] = version.is_object() ? version.value("version", Json()) : Json();
  Json names = Json::array();
  for (const ServedModel& model : served) names.push_back(model.id);
  out["served_names"] = std::move(names);
  Json models = Json::array();
  const Json list = get_object(server, "/v1/models");
  if (list.is_object() && list.contains("data") && list["data"].is_array()) {
    for (const Json& entry : list["data"]) {
      if (!entry.is_object()) continue;
      models.push_back({{"id", entry.value("id", Json())},
                        {"root", entry.value("root", Json())},
                        {"max_model_len", entry.value("max_model_len", Json())}});
    }
  }
  out["models"] = std::move(models);
  out["config"] = config_of(server, max_wait_s, on_wait);
  out["cache_config_info"] = nullptr;
  if (const auto metrics = read_metrics(server)) {
    client::for_each_sample(*metrics, [&](const client::MetricSample& sample) {
      if (sample.name == "vllm:cache_config_info") {
        out["cache_config_info"] = labels_as_json(sample.labels);
      }
    });
  }
  const bool is_here = is_loopback(origin.host);
  out["machine"] = is_here ? machine_facts() : Json();
  out["gpu"] = is_here ? gpu_facts()
                       : Json{{"gpus", nullptr}, {"reason", "the server is on another machine"}};
  return out;
}

nlohmann::ordered_json counter_gains(const std::optional<std::string>& before,
                                     const std::optional<std::string>& after) {
  constexpr auto kCounters = std::to_array<std::string_view>(
      {"vllm:num_preemptions_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
       kPrefixQueries, kPrefixHits, "vllm:request_success_total"});
  if (!before || !after) return nullptr;
  const auto sums = [&](const std::string& text) {
    std::map<std::string_view, double> out;
    client::for_each_sample(text, [&](const client::MetricSample& sample) {
      for (const std::string_view name : kCounters) {
        if (sample.name == name) out[name] += sample.value;
      }
    });
    return out;
  };
  const auto old = sums(*before);
  const auto now = sums(*after);
  Json out = Json::object();
  for (const std::string_view name : kCounters) {
    const auto end = now.find(name);
    if (end == now.end()) continue;  // missing, not zero
    const auto start = old.find(name);
    out[std::string(name)] = end->second - (start == old.end() ? 0 : start->second);
  }
  return out;
}

nlohmann::ordered_json describe_prefix_cache(const nlohmann::ordered_json& server,
                                             const std::optional<std::string>& metrics_before,
                                             const nlohmann::ordered_json& gains) {
  const auto value_at = [&](const char* pointer) {
    const Json::json_pointer at(pointer);
    return server.is_object() && server.contains(at) ? server[at] : Json();
  };
  const Json ours = value_at("/config/cache/enable_prefix_caching");
  const Json theirs = value_at("/cache_config_info/enable_prefix_caching");
  Json state = nullptr;
  if (ours == false || theirs == "False") {
    state = "off";
  } else if (metrics_before) {
    std::optional<double> queries;
    client::for_each_sample(*metrics_before, [&](const client::MetricSample& sample) {
      if (sample.name == kPrefixQueries) queries = queries.value_or(0) + sample.value;
    });
    if (queries) state = *queries > 0 ? "warm" : "cold";
  }
  Json share = nullptr;
  if (gains.is_object() && gains.contains(kPrefixQueries) && gains.contains(kPrefixHits)) {
    const double asked = gains[kPrefixQueries].get<double>();
    if (asked > 0) share = gains[kPrefixHits].get<double>() / asked;
  }
  return {{"state", std::move(state)}, {"hit_share", std::move(share)}};
}

NoiseReading read_noise() {
  NoiseReading out;
  std::string text;
  std::ifstream("/proc/loadavg") >> text;
  out.load1 = number_of(text);
  double sum = 0;
  const auto frequencies = values_of("/proc/cpuinfo", "cpu MHz");
  for (const std::string& value : frequencies) sum += number_of(value).value_or(0);
  if (!frequencies.empty()) out.mhz = sum / double(frequencies.size());
  std::ifstream stat("/proc/stat");
  std::array<double, 8> ticks{};  // user nice system idle iowait irq softirq steal
  if (stat >> text && text == "cpu") {
    double total = 0;
    for (double& value : ticks) {
      stat >> value;
      total += value;
    }
    if (stat) {
      const auto per_second = double(::sysconf(_SC_CLK_TCK));
      out.total_s = total / per_second;
      out.steal_s = ticks[7] / per_second;
    }
  }
  return out;
}

nlohmann::ordered_json describe_noise(const NoiseReading& before, const NoiseReading& after) {
  Json share = nullptr;
  if (before.total_s && after.total_s && *after.total_s > *before.total_s) {
    share = (*after.steal_s - *before.steal_s) / (*after.total_s - *before.total_s);
  }
  return {{"load1_before", or_null(before.load1)},
          {"load1_after", or_null(after.load1)},
          {"steal_share", share},
          {"mhz_before", or_null(before.mhz)},
          {"mhz_after", or_null(after.mhz)}};
}

std::string hash_prompts(std::span<const SampleRequest> requests) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  const auto add = [&](std::string_view text) {
    EVP_DigestUpdate(context, text.data(), text.size());
  };
  for (const SampleRequest& request : requests) {
    for (const std::string& prompt : request.prompts)
      add(fmt::format("{}:{}\n", prompt.size(), prompt));
    for (const int64_t id : request.token_ids) add(fmt::format("{},", id));
    add(fmt::format(";{}\n", request.output_len));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context, digest.data(), &size);
  EVP_MD_CTX_free(context);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

nlohmann::ordered_json count_errors(std::span<const Outcome> outcomes) {
  constexpr size_t kMaxKinds = 20;
  constexpr size_t kMaxText = 200;
  std::map<std::string, int64_t> counts;
  for (const Outcome& outcome : outcomes) {
    if (outcome.success) continue;
    const std::string text = outcome.error.substr(0, kMaxText);
    if (counts.size() < kMaxKinds || counts.contains(text)) ++counts[text];
  }
  Json out = Json::object();
  for (const auto& [text, count] : counts) out[text] = count;
  return out;
}

}  // namespace octavo::bench
