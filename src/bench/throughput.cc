#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bench/datasets.h"
#include "bench/offline_command.h"

namespace octavo::bench {
namespace {

using config::OptionKind;

constexpr config::Option later(std::string_view name, OptionKind kind, std::string_view value) {
  return {name, kind, value, "", {}, 0, false};
}

constexpr auto kFlags = std::to_array<config::Option>({
    {"backend", OptionKind::kChoice, "vllm", "The engine.", "vllm"},
    {"dataset-name", OptionKind::kChoice, "sharegpt", "Where prompts come from.",
     "sharegpt random burstgpt prefix_repetition"},
    {"dataset-path", OptionKind::kText, "", "File of the data set; without one: random."},
    {"input-len", OptionKind::kInt, "", "Of no effect on random prompts, as in vLLM."},
    {"output-len", OptionKind::kInt, "", "Output length instead of the file's (sharegpt)."},
    {"prefix-len", OptionKind::kInt, "0", "Of no effect on random prompts, as in vLLM."},
    {"n", OptionKind::kInt, "1", "Answers to a prompt."},
    {"num-prompts", OptionKind::kInt, "1000", "Prompts."},
    {"num-warmups", OptionKind::kInt, "0", "Prompts before, not counted."},
    {"output-json", OptionKind::kText, "", "File of the result."},
    {"random-input-len", OptionKind::kInt, "1024", "Tokens of a random prompt."},
    {"random-output-len", OptionKind::kInt, "128", "Tokens of its answer."},
    {"random-prefix-len", OptionKind::kInt, "0", "Tokens that all random prompts share."},
    {"random-range-ratio", OptionKind::kFloat, "0.0", "Spread of lengths."},
    {"prefix-repetition-prefix-len", OptionKind::kInt, "256", "Tokens of a shared prefix."},
    {"prefix-repetition-suffix-len", OptionKind::kInt, "256", "Tokens after it."},
    {"prefix-repetition-num-prefixes", OptionKind::kInt, "10", "Different prefixes."},
    {"prefix-repetition-output-len", OptionKind::kInt, "128", "Tokens of an answer."},
    later("async-engine", OptionKind::kSwitch, ""),
    later("prequeue-requests", OptionKind::kSwitch, ""),
    later("disable-detokenize", OptionKind::kSwitch, ""),
    later("lora-path", OptionKind::kText, ""),
    later("lora-assignment", OptionKind::kText, "random"),
    later("profile", OptionKind::kSwitch, ""),
});

void keep(config::Config&) {}

DatasetOptions dataset_of(const config::CommandLine& line, const Host& host, int64_t seed,
                          int64_t num_prompts) {
  DatasetOptions options;
  options.name = line.text("dataset-name");
  options.path = line.text("dataset-path");
  if (options.path.empty() && options.name != "prefix_repetition" && options.name != "random") {
    fmt::print(host.out, "When dataset path is not set, it will default to random dataset\n");
    options.name = "random";
  }
  if (options.name == "random" &&
      (line.is_given("input-len") || line.is_given("output-len") || line.is_given("prefix-len"))) {
    fmt::print(host.err,
               "octavo bench throughput: warning: random prompts take their lengths from "
               "--random-input-len, --random-output-len and --random-prefix-len\n");
  }
  options.num_prompts = num_prompts;
  options.seed = static_cast<uint32_t>(seed);
  options.random_input_len = line.integer("random-input-len");
  options.random_output_len = line.integer("random-output-len");
  options.random_prefix_len = line.integer("random-prefix-len");
  options.random_input_range_ratio = options.random_output_range_ratio =
      line.real("random-range-ratio");
  if (line.has("output-len")) options.sharegpt_output_len = line.integer("output-len");
  options.prefix_repetition_prefix_len = line.integer("prefix-repetition-prefix-len");
  options.prefix_repetition_suffix_len = line.integer("prefix-repetition-suffix-len");
  options.prefix_repetition_num_prefixes = line.integer("prefix-repetition-num-prefixes");
  options.prefix_repetition_output_len = line.integer("prefix-repetition-output-len");
  return options;
}

/// Draws the requests and tokenises them.
Result<std::vector<OfflineRequest>> draw(const DatasetOptions& options, const TextModel& text,
                                         const OfflineEngine& engine, const Host& host) {
  GlobalRandom random(options.seed);
  std::vector<std::string> notes;
  OCTAVO_TRY(const auto samples, sample_requests(options, &text, random, notes));
  for (const std::string& note : notes) fmt::print(host.out, "{}\n", note);
  std::vector<OfflineRequest> requests;
  for (const SampleRequest& sample : samples) {
    const std::vector<int64_t> ids =
        sample.token_ids.empty() ? text.encode(sample.prompts.front(), true) : sample.token_ids;
    OfflineRequest& request = requests.emplace_back();
    request.prompt.assign(ids.begin(), ids.end());
    request.max_tokens = sample.output_len;
    const int64_t tokens = static_cast<int64_t>(ids.size()) + sample.output_len;
    if (tokens > engine.max_model_len()) {
      return Error{Code::kInvalidArgument,
                   fmt::format("a request has {} tokens, its answer included, but max_model_len is "
                               "{}; choose shorter prompts or raise --max-model-len",
                               tokens, engine.max_model_len())};
    }
  }
  return requests;
}

Result<OfflineRun> measure(OfflineCommand& command, const Host& host) {
  const config::CommandLine& line = command.line;
  const int64_t seed = command.config.engine.model.seed;
  const std::string& tokenizer = command.config.engine.model.tokenizer;
  OCTAVO_TRY(const TextModel text,
             host.load_text_model(tokenizer.empty() ? command.engine->model() : tokenizer));
  const auto n = static_cast<int32_t>(line.integer("n"));
  if (line.integer("num-prompts") < 1 || line.integer("num-prompts") > 10'000'000 || n < 1) {
    return Error{Code::kInvalidArgument, "--num-prompts and --n must be at least 1"};
  }
  const DatasetOptions options = dataset_of(line, host, seed, line.integer("num-prompts"));
  OCTAVO_TRY(const auto requests, draw(options, text, *command.engine, host));
  if (line.integer("num-warmups") > 0) {
    DatasetOptions warm = options;
    warm.num_prompts = line.integer("num-warmups");
    warm.seed = options.seed + 1;
    OCTAVO_TRY(const auto before, draw(warm, text, *command.engine, host));
    OCTAVO_TRY(command.engine->generate(before, n));
  }
  return command.engine->generate(requests, n);
}

}  // namespace

int run_throughput(std::span<const std::string> args, const Host& host) {
  int exit_code = 0;
  auto command = open_offline("throughput", kFlags, args, host, keep, exit_code);
  if (!command) return exit_code;
  const auto run = measure(*command, host);
  if (!run.ok()) {
    fmt::print(host.err, "octavo bench throughput: error: {}\n", run.error().message);
    return 1;
  }
  const auto num_requests = command->line.integer("num-prompts");
  const double total = static_cast<double>(run->num_prompt_tokens + run->num_output_tokens);
  fmt::print(host.out,
             "Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n"
             "Total num prompt tokens:  {}\nTotal num output tokens:  {}\n",
             static_cast<double>(num_requests) / run->seconds, total / run->seconds,
             static_cast<double>(run->num_output_tokens) / run->seconds, run->num_prompt_tokens,
             run->num_output_tokens);
  const std::string& path = command->line.text("output-json");
  if (path.empty()) return 0;
  const nlohmann::ordered_json result{
      {"model_id", command->engine->model()},
      {"elapsed_time", run->seconds},
      {"num_requests", num_requests},
      {"total_num_tokens", run->num_prompt_tokens + run->num_output_tokens},
      {"requests_per_second", static_cast<double>(num_requests) / run->seconds},
      {"tokens_per_second", total / run->seconds}};
  return write_json(path, result.dump(4), host);
}

}  // namespace octavo::bench
