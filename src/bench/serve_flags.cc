#include "bench/serve_flags.h"

#include <array>

namespace octavo::bench {
namespace {

using config::Option;
using enum config::OptionKind;

/// An option of vLLM's that has no meaning here, and why.
constexpr Option refused(std::string_view name, config::OptionKind kind,
                         std::string_view default_text, std::string_view reason) {
  return {name, kind, default_text, reason, {}, 0, false};
}

constexpr std::string_view kNoMedia =
    "Of random-mm, whose requests carry images and videos; octavo bench sends text only.";
constexpr std::string_view kNoAudio =
    "Of speech sets, whose requests carry audio; octavo bench sends text only.";
constexpr std::string_view kNoBlazedit =
    "Of Blazedit, whose prompts octavo does not carry; use --dataset-name custom.";

constexpr auto kFlags = std::to_array<Option>({
    // Target and payload.
    {"backend", kText, "openai", "Which API is asked."},
    {"base-url", kText, "", "Server URL; replaces host and port."},
    {"host", kText, "127.0.0.1", "Host of the server."},
    {"port", kInt, "8000", "Port of the server."},
    {"endpoint", kText, "/v1/completions", "Path of the API; must suit the backend."},
    {"model", kText, "", "Model name in requests; default: the server's first model."},
    {"served-model-name", kText, "", "Name to send instead of the model's."},
    {"tokenizer", kText, "", "Folder or GGUF file of the tokenizer; default: the model."},
    {"tokenizer-mode", kChoice, "auto", "Kind of tokenizer.", "auto hf"},
    {"trust-remote-code", kSwitch, "", "Accepted; no code is ever run."},
    {"skip-tokenizer-init", kSwitch, "", "Do without a tokenizer (custom, spec_bench)."},
    {"header", kList, "", "KEY=VALUE headers of every request.", {}, 0, true, true},
    {"extra-body", kJson, "", "Fields merged into every request."},
    {"temperature", kFloat, "", "Sampling temperature."},
    {"top-p", kFloat, "", "Top-p."},
    {"top-k", kInt, "", "Top-k."},
    {"min-p", kFloat, "", "Min-p."},
    {"frequency-penalty", kFloat, "", "Frequency penalty."},
    {"presence-penalty", kFloat, "", "Presence penalty."},
    {"repetition-penalty", kFloat, "", "Repetition penalty."},
    {"logprobs", kInt, "", "Log probabilities per token, completions only."},
    {"ignore-eos", kSwitch, "", "Generate up to the length asked for."},
    {"use-beam-search", kSwitch, "", "Accepted; these payloads do not use it."},
    {"chat-template-kwargs", kJson, "", "Arguments of the chat template (custom, speed_bench)."},
    {"lora-modules", kList, "", "Adapter names to send requests to."},
    {"lora-assignment", kChoice, "random", "How adapters are chosen.", "random round-robin"},
    {"insecure", kSwitch, "", "Do not check TLS certificates."},
    // Load shape.
    {"num-prompts", kInt, "1000", "Requests."},
    {"request-rate", kFloat, "inf", "Requests a second; inf sends all at once."},
    {"burstiness", kFloat, "1.0", "Shape of the gamma-distributed gaps; 1 is Poisson."},
    {"max-concurrency", kInt, "", "Requests under way at most."},
    {"ramp-up-strategy", kChoice, "", "How the rate grows.", "linear exponential"},
    {"ramp-up-start-rps", kInt, "", "Rate at the start of the ramp."},
    {"ramp-up-end-rps", kInt, "", "Rate at its end."},
    {"num-warmups", kInt, "0", "Requests before the measured ones."},
    {"ready-check-timeout-sec", kInt, "0", "Wait so long for the server; 0 does not ask."},
    {"probe-request-rate", kFloat, "0.0", "One-token probes a second beside the load."},
    {"self-timed", kBool, "", "Use the trace's times (timed_trace, where it is on)."},
    {"seed", kInt, "0", "Seed of everything random."},
    {"request-id-prefix", kText, "", "Prefix of x-request-id; default: bench-<8 hex>-."},
    {"profile", kSwitch, "", "Start the server's profiler for the run, /start_profile."},
    // Reporting.
    {"percentile-metrics", kText, "", "Of ttft,tpot,itl,e2el and the client's queue times."},
    {"metric-percentiles", kText, "99", "Percentiles, separated by commas."},
    {"goodput", kList, "", "Limits NAME:MS of a good request (ttft, tpot, e2el)."},
    {"save-result", kSwitch, "", "Write the result as JSON."},
    {"save-detailed", kSwitch, "", "With the lists per request."},
    {"append-result", kSwitch, "", "Append it to the file."},
    {"result-dir", kText, "", "Folder of the file."},
    {"result-filename", kText, "", "Name of the file."},
    {"label", kText, "", "Prefix of the file's name; default: the backend."},
    {"metadata", kList, "", "KEY=VALUE pairs kept in the result."},
    {"disable-tqdm", kSwitch, "", "No progress bar."},
    {"plot-timeline", kSwitch, "", "Write every request over time as NAME.timeline.html."},
    {"timeline-itl-thresholds", kText, "25,50", "Milliseconds at which its colours change."},
    {"plot-dataset-stats", kSwitch, "", "Write the lengths as NAME.dataset_stats.html."},
    // Data sets.
    {"dataset-name", kText, "random", "Where prompts come from."},
    {"dataset-path", kText, "", "File of the data set."},
    {"input-len", kInt, "", "Input length of random prompts."},
    {"output-len", kInt, "", "Output length of any data set."},
    {"no-oversample", kSwitch, "", "Do not repeat rows when there are too few."},
    {"skip-chat-template", kSwitch, "", "Send prompts as they are."},
    {"disable-shuffle", kSwitch, "", "Keep the order of the file."},
    {"enable-multimodal-chat", kSwitch, "", "Accepted; text goes out as openai-chat sends it."},
    {"no-stream", kSwitch, "", "Shuffle all rows of an hf set, not a buffer of 1,000."},
    {"random-input-len", kInt, "1024", "Tokens of a random prompt."},
    {"random-output-len", kInt, "128", "Tokens of its answer."},
    {"random-prefix-len", kInt, "0", "Tokens that all random prompts share."},
    {"random-range-ratio", kText, "0.0", "Spread of lengths: r or {\"input\":r,\"output\":r}."},
    {"random-batch-size", kInt, "1", "Texts in one request (pooling)."},
    {"no-reranker", kSwitch, "", "The model scores by embeddings (random-rerank)."},
    {"sharegpt-output-len", kInt, "", "Output length instead of the file's."},
    {"custom-output-len", kInt, "256", "Output length; -1 takes the file's."},
    {"custom-ensure-client-side-data", kSwitch, "", "Accepted; prompts hold no links to media."},
    {"prefix-repetition-prefix-len", kInt, "256", "Tokens of a shared prefix."},
    {"prefix-repetition-suffix-len", kInt, "256", "Tokens after it."},
    {"prefix-repetition-num-prefixes", kInt, "10", "Different prefixes."},
    {"prefix-repetition-output-len", kInt, "128", "Tokens of an answer."},
    {"spec-bench-output-len", kInt, "256", "Tokens of an answer."},
    {"spec-bench-category", kText, "", "Only this category."},
    {"timed-trace-chunk-hash-size", kInt, "16", "Tokens that one hash stands for."},
    {"timed-trace-sec-multiplier", kFloat, "1", "Seconds in one unit of time."},
    {"timed-trace-label-timestamp", kText, "timestamp", "Field of the time."},
    {"timed-trace-label-input-length", kText, "input_length", "Field of the input length."},
    {"timed-trace-label-output-length", kText, "output_length", "Field of the output length."},
    {"timed-trace-label-hash-ids", kText, "hash_ids", "Field of the hashes."},
    {"hf-subset", kText, "", "Folder of the set's subset; gsm8k: main if there is one."},
    {"hf-split", kText, "", "Split whose files are read; default: vLLM's for the set."},
    {"hf-name", kText, "", "The set's name on the hub; default: the end of --dataset-path."},
    {"hf-output-len", kInt, "", "Tokens of an answer; default: the set's."},
    {"speed-bench-dataset-subset", kChoice, "qualitative", "Which file of the folder.",
     "qualitative throughput_1k throughput_2k throughput_8k throughput_16k throughput_32k"},
    {"speed-bench-output-len", kInt, "4096", "Tokens of an answer."},
    {"speed-bench-category", kText, "", "Only this category."},
    refused("random-mm-base-items-per-request", kInt, "1", kNoMedia),
    refused("random-mm-num-mm-items-range-ratio", kFloat, "0.0", kNoMedia),
    refused("random-mm-limit-mm-per-prompt", kText, "", kNoMedia),
    refused("random-mm-bucket-config", kText, "", kNoMedia),
    refused("asr-max-audio-len-sec", kFloat, "inf", kNoAudio),
    refused("asr-min-audio-len-sec", kFloat, "0.0", kNoAudio),
    refused("blazedit-min-distance", kFloat, "0.0", kNoBlazedit),
    refused("blazedit-max-distance", kFloat, "1.0", kNoBlazedit),
    refused("bfcl-categories", kList, "",
            "Of BFCL, whose requests carry tool definitions; octavo bench sends text only."),
});

}  // namespace

std::span<const config::Option> serve_flags() { return kFlags; }

}  // namespace octavo::bench
