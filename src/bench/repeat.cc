#include "bench/repeat.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "bench/compare_command.h"
#include "bench/serve.h"
#include "bench/serve_flags.h"
#include "config/command_line.h"

namespace octavo::bench {
namespace {

using config::CommandLine;
using config::Option;
using enum config::OptionKind;
namespace fs = std::filesystem;

constexpr int kUsageError = 2;
constexpr int kFailed = 1;
constexpr int64_t kMaxRounds = 200;
constexpr const char* kUsage = "usage: octavo bench repeat --against URL [-n ROUNDS] [options]";

constexpr auto kOwnFlags = std::to_array<Option>({
    {"against", kText, "", "URL of server B; A is the one that --base-url names."},
    {"rounds", kInt, "5", "Measured rounds; each server once in a round.", {}, 'n'},
    {"warm-up-rounds", kInt, "1", "Rounds before them that are thrown away."},
    {"same-seed", kSwitch, "", "Send the same prompts in every round."},
    {"variable", kRepeat, "", "What else than the server may differ, as in `bench compare`."},
    {"min-effect", kFloat, "1.0", "Percent; a smaller difference is never a verdict."},
});

/// Own options first, then all of `bench serve`.
const std::vector<Option>& flags() {
  static const std::vector<Option> all = [] {
    std::vector<Option> out(kOwnFlags.begin(), kOwnFlags.end());
    out.insert(out.end(), serve_flags().begin(), serve_flags().end());
    return out;
  }();
  return all;
}

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

struct RepeatOptions {
  ServeOptions serve;  // of side A
  client::Url against;
  int64_t rounds = 5;
  int64_t warm_up_rounds = 1;
  bool keeps_seed = false;
  CompareOptions compare;
  fs::path folder;
};

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &parts)};
}

Result<RepeatOptions> read_options(CommandLine line, const Host& host) {
  RepeatOptions options;
  if (!line.has("against")) return invalid("--against must name the other server");
  OCTAVO_TRY(options.against, client::parse_url(line.text("against")));
  options.rounds = line.integer("rounds");
  options.warm_up_rounds = line.integer("warm-up-rounds");
  if (options.rounds < 1 || options.rounds > kMaxRounds) {
    return invalid(fmt::format("--rounds must be from 1 to {}", kMaxRounds));
  }
  if (options.warm_up_rounds < 0 || options.warm_up_rounds > kMaxRounds) {
    return invalid(fmt::format("--warm-up-rounds must be from 0 to {}", kMaxRounds));
  }
  for (const char* name : {"result-filename", "append-result"}) {
    if (line.is_given(name)) {
      return invalid(fmt::format("--{} is of no use: every run has a file of its own", name));
    }
  }
  options.keeps_seed = line.flag("same-seed");
  OCTAVO_TRY(options.compare, read_compare_options(line));
  options.compare.variables.insert(options.compare.variables.begin(), "server");
  options.folder = line.has("result-dir") ? fs::path(line.text("result-dir"))
                                          : fs::path("octavo-repeat-" + local_time());
  std::random_device device;
  OCTAVO_TRY(options.serve, read_serve_options(std::move(line), host.environment,
                                               fmt::format("bench-{:08x}-", device())));
  return options;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// One session, run by run.
class Session {
 public:
  Session(RepeatOptions options, std::string arguments, const Host& host)
      : options_(std::move(options)), arguments_(std::move(arguments)), host_(host) {
    std::random_device device;
    id_ = fmt::format("{}-{:08x}", local_time(), device());
  }

  Status run() {
    OCTAVO_TRY(make_folders());
    say("Server A: {}", url_of(options_.serve.base));
    say("Server B: {}", url_of(options_.against));
    say("Runs are saved in {}", options_.folder.string());
    for (int64_t round = 1 - options_.warm_up_rounds; round <= options_.rounds; ++round) {
      // A B, B A, A B, ...: what drifts steadily then favours neither.
      const bool starts_with_a = (round & 1) == 1;
      OCTAVO_TRY(make_run(round, starts_with_a, 1));
      OCTAVO_TRY(make_run(round, !starts_with_a, 2));
    }
    return {};
  }

  Result<Comparison> compare() const {
    std::vector<RunSet> sides(2);
    OCTAVO_TRY(sides[0], load_runs(folder_of(true).string()));
    OCTAVO_TRY(sides[1], load_runs(folder_of(false).string()));
    return compare_runs(sides, options_.compare);
  }

  const fs::path& folder() const { return options_.folder; }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    fmt::print(host_.out, text, std::forward<Args>(args)...);
    std::fputc('\n', host_.out);
    std::fflush(host_.out);
  }

  static std::string url_of(const client::Url& url) {
    return fmt::format("{}://{}{}", url.origin.is_tls ? "https" : "http", url.origin.host_header(),
                       url.path);
  }

  fs::path folder_of(bool is_a) const { return options_.folder / (is_a ? "a" : "b"); }

  /// A folder that holds runs of another session would spoil both.
  Status make_folders() const {
    for (const bool is_a : {true, false}) {
      std::error_code error;
      fs::create_directories(folder_of(is_a), error);
      if (error) {
        return Error{Code::kUnavailable, fmt::format("cannot make the folder {}: {}",
                                                     folder_of(is_a).string(), error.message())};
      }
      if (!fs::is_empty(folder_of(is_a), error) || error) {
        return Error{Code::kUnavailable, fmt::format("{} is not empty; name another --result-dir",
                                                     folder_of(is_a).string())};
      }
    }
    return {};
  }

  /// Rounds from 1 on are measured and saved, those before are warm-ups.
  Status make_run(int64_t round, bool is_a, int64_t place) {
    const bool is_warm_up = round < 1;
    const std::string name = is_warm_up ? fmt::format("warm-up-{}", options_.warm_up_rounds + round)
                                        : fmt::format("round-{:03}", round);
    ServeOptions serve = options_.serve;
    if (!is_a) serve.base = options_.against;
    // Every round has its own prompts, or prefix caches would answer from the second on. Warm-ups
    // take those behind the last round.
    const int64_t shift = is_warm_up ? options_.rounds - round : round - 1;
    if (!options_.keeps_seed) serve.seed += uint32_t(shift);
    serve.dataset.seed = serve.seed;
    serve.saves = !is_warm_up;
    serve.result_dir = folder_of(is_a).string();
    serve.result_filename = name + ".json";
    serve.session = {id_, round, is_a ? "A" : "B", place};
    const fs::path log_path = folder_of(is_a) / (name + ".txt");
    const std::unique_ptr<std::FILE, CloseFile> log(std::fopen(log_path.c_str(), "w"));
    if (log == nullptr) {
      return Error{Code::kUnavailable, fmt::format("cannot write {}", log_path.string())};
    }
    Host host = host_;
    host.out = log.get();
    auto report = make_serve_run(std::move(serve), arguments_, host);
    const std::string title = fmt::format("{}, {}", name, is_a ? "A" : "B");
    if (!report.ok()) {
      return Error{report.error().code, fmt::format("{}: {}", title, report.error().message)};
    }
    describe(title, report->metrics);
    return {};
  }

  void describe(const std::string& title, const ServeMetrics& m) {
    const std::string latency =
        m.is_pooling ? fmt::format("median E2EL {:.2f} ms", m.e2el.median * 1000)
                     : fmt::format("{:.2f} tok/s, median TTFT {:.2f} ms, median TPOT {:.2f} ms",
                                   m.output_throughput, m.ttft.median * 1000, m.tpot.median * 1000);
    say("{}: {:.2f} s, {} answered, {} failed, {:.2f} req/s, {}", title, m.duration_s, m.completed,
        m.failed, m.request_throughput, latency);
  }

  const RepeatOptions options_;
  const std::string arguments_;
  const Host& host_;
  std::string id_;
};

int finish(const Session& session, const Host& host,
           const std::function<int(const std::string&, int)>& complain) {
  const auto comparison = session.compare();
  if (!comparison.ok()) return complain(comparison.error().message, kFailed);
  fmt::print(host.out, "\n");
  const auto file = [&](const char* name) { return (session.folder() / name).string(); };
  const Status status = publish_comparison(
      *comparison, {file("report.md"), file("report.json"), file("report.html")}, host.out);
  if (!status.ok()) return complain(status.error().message, kFailed);
  if (!comparison->is_refused()) return 0;
  return complain("not compared: the runs differ in more than the server", kFailed);
}

}  // namespace

int run_repeat(std::span<const std::string> args, const Host& host) {
  const auto complain = [&](const std::string& why, int status) {
    if (status == kUsageError) fmt::print(host.err, "{}\n", kUsage);
    fmt::print(host.err, "octavo bench repeat: error: {}\n", why);
    return status;
  };
  auto line = CommandLine::read(flags(), args);
  if (!line.ok()) return complain(line.error().message, kUsageError);
  if (line->wants_help()) {
    fmt::print(host.out,
               "{}\n\nSends the same load to two servers in alternation, saves every run and "
               "compares them.\n\noptions:\n{}",
               kUsage, config::describe_options(flags()));
    return 0;
  }
  std::string arguments = line->as_namespace();
  auto options = read_options(std::move(*line), host);
  if (!options.ok()) return complain(options.error().message, kUsageError);
  Session session(std::move(*options), std::move(arguments), host);
  const Status status = session.run();
  if (status.ok()) return finish(session, host, complain);
  return complain(fmt::format("{}; the runs so far are in {}", status.error().message,
                              session.folder().string()),
                  kFailed);
}

}  // namespace octavo::bench
