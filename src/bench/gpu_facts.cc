#include "bench/gpu_facts.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFactKeys = std::to_array<std::string_view>({"name", "driver", "memory_mib", "ecc"});
constexpr auto kStateKeys = std::to_array<std::string_view>(
    {"sm_mhz", "memory_mhz", "temperature_c", "utilisation_percent"});

// The driver makes it; without it there is no use in asking, which takes a second.
constexpr const char* kDriverFile = "/proc/driver/nvidia/version";

std::optional<std::string> ask(const char* command) {
  constexpr size_t kMaxOutput = 64 << 10;
  std::FILE* pipe = ::popen(command, "re");
  if (pipe == nullptr) return std::nullopt;
  std::string out(kMaxOutput, '\0');
  out.resize(std::fread(out.data(), 1, out.size(), pipe));
  return ::pclose(pipe) == 0 ? std::optional(out) : std::nullopt;
}

bool has_driver() {
  std::error_code error;
  return std::filesystem::exists(kDriverFile, error);
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

Json value_of(std::string_view text) {
  if (text.empty() || text.starts_with('[')) return nullptr;  // [N/A], [Not Supported]
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return std::string(text);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    out.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

}  // namespace

nlohmann::ordered_json parse_gpu_table(std::string_view text,
                                       std::span<const std::string_view> keys) {
  Json out = Json::array();
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> values = split(line, ',');
    if (line.empty() || values.size() != keys.size()) break;
    Json gpu = Json::object();
    for (size_t i = 0; i < keys.size(); ++i) gpu[std::string(keys[i])] = value_of(values[i]);
    out.push_back(std::move(gpu));
  }
  return out;
}

nlohmann::ordered_json gpu_facts() {
  if (!has_driver()) return {{"gpus", nullptr}, {"reason", "no NVIDIA driver on this machine"}};
  const auto text =
      ask("timeout 10 nvidia-smi --query-gpu=name,driver_version,memory.total,ecc.mode.current "
          "--format=csv,noheader,nounits 2>/dev/null");
  if (!text) return {{"gpus", nullptr}, {"reason", "nvidia-smi did not answer"}};
  return {{"gpus", parse_gpu_table(*text, kFactKeys)}, {"reason", nullptr}};
}

nlohmann::ordered_json gpu_state_now() {
  if (!has_driver()) return nullptr;
  const auto text =
      ask("timeout 10 nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,utilization.gpu "
          "--format=csv,noheader,nounits 2>/dev/null");
  return text ? parse_gpu_table(*text, kStateKeys) : Json();
}

}  // namespace octavo::bench
