#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bench/datasets.h"
#include "bench/offline_command.h"

namespace octavo::bench {
namespace {

using config::OptionKind;

constexpr config::Option refused(std::string_view name, OptionKind kind, std::string_view value,
                                 std::string_view reason) {
  return {name, kind, value, reason, {}, 0, false};
}

constexpr std::string_view kSets =
    "sharegpt random burstgpt hf prefix_repetition custom spec_bench speed_bench";
constexpr std::string_view kNoLora = "octavo loads no LoRA adapters.";
constexpr std::string_view kNoHf = "It belongs to --backend hf, which runs another engine.";
constexpr std::string_view kNoAudio = "octavo bench gives the engine text only.";

constexpr auto kFlags = std::to_array<config::Option>({
    {"backend", OptionKind::kText, "vllm", "vllm, or vllm-chat: through the chat template."},
    {"dataset-name", OptionKind::kText, "sharegpt", "Where prompts come from."},
    {"dataset-path", OptionKind::kText, "", "File of the data set; without one: random."},
    {"input-len", OptionKind::kInt, "", "Of no effect on random prompts, as in vLLM."},
    {"output-len", OptionKind::kInt, "",
     "Output length instead of the set's (sharegpt, hf, custom)."},
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
    {"no-oversample", OptionKind::kSwitch, "", "Do not repeat rows when there are too few."},
    {"skip-chat-template", OptionKind::kSwitch, "",
     "Take the prompts of hf and custom as they are."},
    {"enable-multimodal-chat", OptionKind::kSwitch, "", "Accepted; prompts have no media."},
    {"custom-output-len", OptionKind::kInt, "256", "Output length of custom; -1: the file's."},
    {"hf-name", OptionKind::kText, "", "The set's name on the hub; default: the end of the path."},
    {"hf-subset", OptionKind::kText, "", "Folder of the set's subset."},
    {"hf-split", OptionKind::kText, "", "Split whose files are read."},
    {"async-engine", OptionKind::kSwitch, "", "Count the tokens that were asked for."},
    {"prequeue-requests", OptionKind::kSwitch, "", "Accepted; all are tokenised and queued first."},
    {"disable-detokenize", OptionKind::kSwitch, "", "Do not turn tokens into text."},
    refused("lora-path", OptionKind::kText, "", kNoLora),
    refused("lora-assignment", OptionKind::kText, "random", kNoLora),
    refused("profile", OptionKind::kSwitch, "",
            "octavo writes no traces; octavo bench roofline shows where the time goes."),
    refused("hf-max-batch-size", OptionKind::kInt, "", kNoHf),
    refused("hf-enable-torch-compile", OptionKind::kSwitch, "", kNoHf),
    refused("asr-min-audio-len-sec", OptionKind::kFloat, "0.0", kNoAudio),
    refused("asr-max-audio-len-sec", OptionKind::kFloat, "inf", kNoAudio),
});

DatasetOptions dataset_of(const config::CommandLine& line, const Host& host, int64_t seed,
                          int64_t num_prompts) {
  DatasetOptions options;
  options.name = line.text("dataset-name");
  options.path = line.text("dataset-path");
  if (options.path.empty() && options.name != "prefix_repetition" && options.name != "random") {
    fmt::print(host.out, "When dataset path is not set, it will default to random dataset\n");
    options.name = "random";
  }
  if (line.is_given("hf-subset") || line.is_given("hf-split")) {
    if (options.name != "hf") {
      fmt::print(host.err,
                 "octavo bench throughput: warning: --hf-subset and --hf-split are of "
                 "--dataset-name hf\n");
    }
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
  options.no_oversample = line.flag("no-oversample");
  // vllm-chat puts every prompt through the template: not twice.
  options.skip_chat_template =
      line.flag("skip-chat-template") || line.text("backend") == "vllm-chat";
  options.hf_name = line.text("hf-name");
  options.hf_subset = line.text("hf-subset");
  options.hf_split = line.text("hf-split");
  options.custom_output_len = line.integer("custom-output-len");
  if (line.has("output-len")) {
    options.sharegpt_output_len = options.hf_output_len = options.custom_output_len =
        options.spec_bench_output_len = options.speed_bench_output_len = line.integer("output-len");
  }
  options.prefix_repetition_prefix_len = line.integer("prefix-repetition-prefix-len");
  options.prefix_repetition_suffix_len = line.integer("prefix-repetition-suffix-len");
  options.prefix_repetition_num_prefixes = line.integer("prefix-repetition-num-prefixes");
  options.prefix_repetition_output_len = line.integer("prefix-repetition-output-len");
  return options;
}

/// The ids of a prompt as the backend makes them.
Result<std::vector<int64_t>> encode(const SampleRequest& sample, const TextModel& text,
                                    bool is_chat) {
  if (!sample.token_ids.empty()) return sample.token_ids;
  if (!is_chat) return text.encode(sample.prompts.front(), true);
  if (!text.render_chat) {
    return Error{Code::kInvalidArgument,
                 "--backend vllm-chat: the model has no chat template; use --backend vllm"};
  }
  OCTAVO_TRY(const std::string prompt, text.render_chat({{"user", sample.prompts.front()}}, {}));
  return text.encode(prompt, false);
}

/// Draws the requests and tokenises them.
Result<std::vector<OfflineRequest>> draw(const DatasetOptions& options, const TextModel& text,
                                         const OfflineCommand& command, const Host& host) {
  const bool is_chat = command.line.text("backend") == "vllm-chat";
  const int64_t max_model_len = command.engine->max_model_len();
  GlobalRandom random(options.seed);
  std::vector<std::string> notes;
  OCTAVO_TRY(const auto samples, sample_requests(options, &text, random, notes));
  for (const std::string& note : notes) fmt::print(host.out, "{}\n", note);
  std::vector<OfflineRequest> requests;
  for (const SampleRequest& sample : samples) {
    OCTAVO_TRY(const std::vector<int64_t> ids, encode(sample, text, is_chat));
    OfflineRequest& request = requests.emplace_back();
    request.prompt.assign(ids.begin(), ids.end());
    request.max_tokens = sample.output_len;
    request.ids_only = command.line.flag("disable-detokenize");
    const int64_t tokens = static_cast<int64_t>(ids.size()) + sample.output_len;
    if (tokens > max_model_len) {
      return Error{Code::kInvalidArgument,
                   fmt::format("a request has {} tokens, its answer included, but max_model_len is "
                               "{}; choose shorter prompts or raise --max-model-len",
                               tokens, max_model_len)};
    }
  }
  return requests;
}

Status check_options(const config::CommandLine& line, config::Config&) {
  const auto invalid = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message)};
  };
  const std::string& backend = line.text("backend");
  if (backend == "hf" || backend == "mii") {
    return invalid(fmt::format("argument --backend: not '{}': it is another engine", backend));
  }
  if (backend != "vllm" && backend != "vllm-chat") {
    return invalid(fmt::format(
        "argument --backend: invalid choice: '{}' (choose from vllm, vllm-chat)", backend));
  }
  if (line.flag("prequeue-requests") && line.flag("async-engine")) {
    return invalid("--prequeue-requests is not supported with --async-engine");
  }
  if (line.integer("num-prompts") < 1 || line.integer("num-prompts") > 10'000'000 ||
      line.integer("n") < 1) {
    return invalid("--num-prompts and --n must be at least 1");
  }
  return check_dataset_name(line.text("dataset-name"), kSets);
}

/// What an asynchronous run counts: the lengths that were asked for, whatever was made.
void count_as_asked(std::span<const OfflineRequest> requests, OfflineRun& run) {
  run.num_prompt_tokens = run.num_output_tokens = 0;
  for (const OfflineRequest& request : requests) {
    run.num_prompt_tokens += static_cast<int64_t>(request.prompt.size());
    run.num_output_tokens += request.max_tokens;
  }
}

Result<OfflineRun> measure(OfflineCommand& command, const Host& host) {
  const config::CommandLine& line = command.line;
  const int64_t seed = command.config.engine.model.seed;
  const std::string& tokenizer = command.config.engine.model.tokenizer;
  OCTAVO_TRY(const TextModel text,
             host.load_text_model(tokenizer.empty() ? command.engine->model() : tokenizer));
  const auto n = static_cast<int32_t>(line.integer("n"));
  const DatasetOptions options = dataset_of(line, host, seed, line.integer("num-prompts"));
  OCTAVO_TRY(const auto requests, draw(options, text, command, host));
  if (line.integer("num-warmups") > 0) {
    DatasetOptions warm = options;
    warm.num_prompts = line.integer("num-warmups");
    warm.seed = options.seed + 1;
    OCTAVO_TRY(const auto before, draw(warm, text, command, host));
    OCTAVO_TRY(command.engine->generate(before, n));
  }
  OCTAVO_TRY(OfflineRun run, command.engine->generate(requests, n));
  if (line.flag("async-engine")) count_as_asked(requests, run);
  return run;
}

}  // namespace

int run_throughput(std::span<const std::string> args, const Host& host) {
  int exit_code = 0;
  auto command = open_offline("throughput", kFlags, args, host, check_options, exit_code);
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
