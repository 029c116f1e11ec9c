#include "bench/startup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/page_cache.h"

namespace octavo::bench {
namespace {

class NoEngine final : public OfflineEngine {
 public:
  const std::string& model() const override { return model_; }
  int64_t max_model_len() const override { return 1; }
  int64_t vocab_size() const override { return 1; }
  Result<OfflineRun> generate(std::span<const OfflineRequest>, int32_t) override {
    return OfflineRun{};
  }

 private:
  std::string model_ = "none";
};

struct Ran {
  int status = 0;
  std::string out;
  std::string err;
};

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

Ran run(OfflineEngineOpener open, std::vector<std::string> args) {
  Host host;
  host.environment = [](std::string_view) { return std::nullopt; };
  host.open_engine = std::move(open);
  host.list_model_files = [](config::Config) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{};
  };
  host.out = std::tmpfile();
  host.err = std::tmpfile();
  Ran ran;
  ran.status = run_startup(args, host);
  ran.out = text_of(host.out);
  ran.err = text_of(host.err);
  return ran;
}

TEST(Startup, EveryStartIsAProcessOfItsOwn) {
  const pid_t parent = ::getpid();
  const Ran ran = run(
      [parent](const config::Config&) -> Result<std::unique_ptr<OfflineEngine>> {
        static int starts_here = 0;  // stays 1 in each fresh process
        if (::getpid() == parent || ++starts_here != 1) return Error{Code::kInternal, "not fresh"};
        ::usleep(20000);
        return std::unique_ptr<OfflineEngine>(new NoEngine);
      },
      {"--num-iters-cold", "2", "--num-iters-warm", "2", "--num-iters-warmup", "0"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("COLD STARTUP:\nAvg startup time: 0.0"), std::string::npos) << ran.out;
}

TEST(Startup, AStartThatFailsOrDiesIsSaid) {
  const Ran failed = run(
      [](const config::Config&) -> Result<std::unique_ptr<OfflineEngine>> {
        return Error{Code::kInternal, std::string(2000, 'x') + "no memory"};
      },
      {});
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.err.find("octavo bench startup: error: xxx"), std::string::npos) << failed.err;
  const Ran died = run(
      [](const config::Config&) -> Result<std::unique_ptr<OfflineEngine>> {
        ::raise(SIGKILL);
        return Error{Code::kInternal, ""};
      },
      {});
  EXPECT_EQ(died.status, 1);
  EXPECT_NE(died.err.find("signal 9 (out of memory?)"), std::string::npos) << died.err;
  EXPECT_EQ(died.out.find("RESULTS"), std::string::npos);
}

TEST(Startup, PrintsAndSavesWhatTheOriginalDoes) {
  const StartupTimes times{{1.0, 2.0, 4.0}, {0.5}};
  const std::string rule(60, '=');
  const std::string text = format_startup(times);
  EXPECT_TRUE(text.starts_with("\n" + rule + "\nSTARTUP TIME BENCHMARK RESULTS\n" + rule +
                               "\n\nCOLD STARTUP:\nAvg startup time: 2.33 seconds\nAvg compilation "
                               "time: 0.00 seconds\nStartup time percentiles:\n  10%: 1.20 "
                               "seconds\n  25%: 1.50 seconds\n  50%: 2.00 seconds\n"))
      << text;
  EXPECT_TRUE(text.ends_with("  99%: 0.00 seconds\n" + rule + "\n"));
  const auto json = startup_json(times);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "avg_cold_startup_time", "cold_startup_times", "cold_startup_percentiles",
                      "avg_cold_compilation_time", "cold_compilation_times",
                      "cold_compilation_percentiles", "avg_warm_startup_time", "warm_startup_times",
                      "warm_startup_percentiles", "avg_warm_compilation_time",
                      "warm_compilation_times", "warm_compilation_percentiles"}));
  EXPECT_DOUBLE_EQ(json["cold_startup_percentiles"]["75"], 3.0);
  EXPECT_DOUBLE_EQ(json["avg_warm_startup_time"], 0.5);
}

TEST(PageCache, CountsFilesAndForgivesWhatCannotBeOpened) {
  const auto path =
      std::filesystem::temp_directory_path() / ("octavo_page_cache_" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(100000, 'x');
  const std::vector<std::string> paths{path.string(), "/nonexistent", "/"};
  const CachedFiles files = drop_from_page_cache(paths);
  std::filesystem::remove(path);
  EXPECT_EQ(files.num_files, 1);
  EXPECT_EQ(files.bytes, 100000);
  EXPECT_LE(files.cached_bytes, files.bytes);  // all of it on tmpfs
}

}  // namespace
}  // namespace octavo::bench
