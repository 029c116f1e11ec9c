#include "cli/collect_env.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <simdjson.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/version.hpp>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "config/version.h"
#include "device/machine.h"
#include "device/thread_plan.h"

namespace octavo::cli {
namespace {

constexpr const char* kNothing = "Could not collect";

/// What a command of this machine prints, without the last newline; nullopt if it fails. The
/// commands are constants of this file.
std::optional<std::string> output_of(const char* command) {
  constexpr size_t kMaxOutput = 64 << 10;
  std::FILE* pipe = ::popen(fmt::format("timeout 10 {} 2>/dev/null", command).c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string out(kMaxOutput, '\0');
  out.resize(std::fread(out.data(), 1, out.size(), pipe));
  if (::pclose(pipe) != 0) return std::nullopt;
  while (out.ends_with('\n')) out.pop_back();
  return out.empty() ? std::nullopt : std::optional(out);
}

std::string first_line_of(const char* command) {
  const std::string text = output_of(command).value_or(kNothing);
  return text.substr(0, text.find('\n'));
}

std::string os_name() {
  std::ifstream file("/etc/os-release");
  std::string name = kNothing;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    name = line.substr(kKey.size());
    std::erase(name, '"');
  }
  utsname machine{};
  if (::uname(&machine) == 0) name += fmt::format(" ({})", machine.machine);
  return name;
}

std::string platform() {
  utsname machine{};
  if (::uname(&machine) != 0) return kNothing;
  return fmt::format("{}-{}-{}-with-glibc{}", machine.sysname, machine.release, machine.machine,
                     ::gnu_get_libc_version());
}

class Report {
 public:
  explicit Report(std::FILE* out) : out_(out) {}
  void section(std::string_view title) {
    constexpr std::string_view kRule = "==============================";
    fmt::print(out_, "{}{}\n{:^{}}\n{}\n", is_first_ ? "" : "\n", kRule, title, kRule.size(),
               kRule);
    is_first_ = false;
  }
  void row(std::string_view name, std::string_view value) {
    fmt::print(out_, "{:<28} : {}\n", name, value.empty() ? kNothing : value);
  }
  void text(std::string_view lines) { fmt::print(out_, "{}\n", lines); }

 private:
  std::FILE* const out_;
  bool is_first_ = true;
};

void print_system(Report& report) {
  report.section("System Info");
  report.row("OS", os_name());
  report.row("GCC version", first_line_of("gcc --version"));
  report.row("Clang version", first_line_of("clang --version"));
  report.row("CMake version", first_line_of("cmake --version"));
  report.row("Libc version", fmt::format("glibc-{}", ::gnu_get_libc_version()));
  report.section("PyTorch Info");
  report.row("PyTorch version", "N/A (octavo does not use PyTorch)");
  report.section("Python Environment");
  report.row("Python version", first_line_of("python3 --version"));
  report.row("Python platform", platform());
}

void print_devices(Report& report) {
  report.section("GPU info");
  report.row("GPU models and configuration",
             output_of("nvidia-smi --query-gpu=name,memory.total --format=csv,noheader")
                 .value_or(kNothing));
  report.row("Nvidia driver version",
             first_line_of("nvidia-smi --query-gpu=driver_version --format=csv,noheader"));
  report.section("CPU Info");
  report.text(output_of("lscpu").value_or(kNothing));
  const auto threads = device::plan_threads({});
  report.row("Threads octavo would use", std::to_string(threads.ok() ? threads->num_threads : 1));
  report.row("Memory limit (MiB)", std::to_string(device::memory_limit_bytes() >> 20));
  report.row("Memory available (MiB)", std::to_string(device::available_memory_bytes() >> 20));
}

void print_versions(Report& report) {
  report.section("Versions of relevant libraries");
  report.text(fmt::format("boost=={}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                          BOOST_VERSION % 100));
  report.text(fmt::format("fmt=={}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                          FMT_VERSION % 100));
  report.text(fmt::format("nlohmann-json=={}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                          NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH));
  report.text(fmt::format("openssl=={}", ::OpenSSL_version(OPENSSL_VERSION_STRING)));
  report.text(fmt::format("simdjson=={}", SIMDJSON_STRINGIFY(SIMDJSON_VERSION)));
  report.section("vLLM Info");
  report.row("vLLM Version", fmt::format("octavo {} (serves vLLM's interface)", config::version()));
  report.row("vLLM Build Flags",
             fmt::format("g++ {}, x86-64 with AVX2 and AVX-512 variants", __VERSION__));
}

/// Whether a variable belongs into a report: it steers a part of serving and is no secret.
bool is_reported(std::string_view name) {
  constexpr auto kPrefixes = std::to_array<std::string_view>(
      {"VLLM_", "OCTAVO_", "CUDA", "CUBLAS", "CUDNN", "NCCL", "NVIDIA", "OMP_", "MKL_", "TORCH",
       "HF_HUB_OFFLINE", "LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_"});
  constexpr auto kSecrets = std::to_array<std::string_view>(
      {"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "ACCESS"});
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return upper.starts_with(prefix); }) &&
         std::ranges::none_of(kSecrets, [&](auto word) { return upper.find(word) != upper.npos; });
}

void print_variables(const Host& host, Report& report) {
  report.section("Environment Variables");
  std::vector<std::string> names = host.variable_names;
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!is_reported(name)) continue;
    report.text(fmt::format("{}={}", name, host.environment(name).value_or("")));
  }
}

}  // namespace

int run_collect_env(std::span<const std::string> args, const Host& host) {
  if (!args.empty()) {
    const bool wants_help = args[0] == "-h" || args[0] == "--help";
    fmt::print(wants_help ? host.out : host.err, "usage: octavo collect-env\n");
    if (wants_help) return 0;
    fmt::print(host.err, "octavo collect-env: error: unrecognized arguments: {}\n", args[0]);
    return 2;
  }
  Report report(host.out);
  print_system(report);
  std::fflush(host.out);
  print_devices(report);
  print_versions(report);
  print_variables(host, report);
  return 0;
}

}  // namespace octavo::cli
