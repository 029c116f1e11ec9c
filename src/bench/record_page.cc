#include "bench/record_page.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

/// A row of a page: a label and where its value stands; the first pointer that leads to one wins.
/// Without pointers it is for a person to fill in. A label alone that begins a section has "#".
struct Row {
  std::string_view label;
  std::array<std::string_view, 2> pointers = {};
};

constexpr auto kServingRows = std::to_array<Row>({
    {"# Server"},
    {"URL", {"/url"}},
    {"Version", {"/config/version", "/version"}},
    {"Git revision", {"/config/git_revision"}},
    {"Image digest", {"/config/image_digest"}},
    {"Command line", {"/config/command_line"}},
    {"Options that are not defaults", {"/config/non_default_args"}},
    {"# Model"},
    {"Model", {"/config/model/path", "/models/0/root"}},
    {"Revision", {"/config/model/revision"}},
    {"SHA-256 of the weights", {"/config/model/weights_sha256"}},
    {"Served names", {"/served_names"}},
    {"Architecture", {"/config/model/architecture"}},
    {"Dtype", {"/config/model/dtype"}},
    {"Quantisation", {"/config/model/weight_format"}},
    {"Bytes of weights", {"/config/model/weight_bytes"}},
    {"Context length", {"/config/model/max_model_len", "/models/0/max_model_len"}},
    {"# KV cache"},
    {"Block size", {"/config/cache/block_size", "/cache_config_info/block_size"}},
    {"Blocks", {"/config/cache/num_blocks", "/cache_config_info/num_gpu_blocks"}},
    {"Bytes", {"/config/cache/kv_cache_bytes", "/cache_config_info/kv_cache_memory_bytes"}},
    {"Dtype of the cache", {"/config/cache/kv_cache_dtype", "/cache_config_info/cache_dtype"}},
    {"Prefix caching",
     {"/config/cache/enable_prefix_caching", "/cache_config_info/enable_prefix_caching"}},
    {"# Batches"},
    {"Sequences at once", {"/config/scheduler/max_num_seqs"}},
    {"Tokens in a step", {"/config/scheduler/max_num_batched_tokens"}},
    {"Chunked prefill", {"/config/scheduler/enable_chunked_prefill"}},
    {"Policy", {"/config/scheduler/policy"}},
    {"Performance mode", {"/config/scheduler/performance_mode"}},
    {"# Device"},
    {"Parallelism", {"/config/parallel"}},
    {"Threads", {"/config/device/num_threads"}},
    {"Kernels", {"/config/device/kernels"}},
    {"CPU", {"/machine/cpu_model"}},
    {"CPUs", {"/machine/num_cpus"}},
    {"Memory, bytes", {"/machine/memory_bytes"}},
    {"Frequency governor", {"/machine/governor"}},
    {"Kernel", {"/machine/kernel"}},
    {"GPU, driver, memory, ECC", {"/gpu/gpus", "/gpu/reason"}},
    {"# Workload"},
    {"What it is for"},
    {"Lengths of prompts and answers"},
    {"Requests a second, at once"},
    {"Goals"},
});

constexpr auto kRunRows = std::to_array<Row>({
    {"# Run"},
    {"Date", {"/date"}},
    {"Question it answers"},
    {"Result file", {"/result_file"}},
    {"Client", {"/client/version"}},
    {"Client's git revision", {"/client/git_revision"}},
    {"Client's command line", {"/client/arguments"}},
    {"Client's share of a core", {"/client/cpu_share"}},
    {"# Workload"},
    {"Data set", {"/dataset/name"}},
    {"File", {"/dataset/path"}},
    {"Seed", {"/dataset/seed"}},
    {"SHA-256 of the prompts", {"/dataset/prompts_sha256"}},
    {"Requests", {"/load/num_prompts"}},
    {"Requests a second", {"/load/request_rate"}},
    {"Burstiness", {"/load/burstiness"}},
    {"At once", {"/load/max_concurrency"}},
    {"Ramp", {"/load/ramp_up_strategy"}},
    {"Warm-ups", {"/load/num_warmups"}},
    {"Prefix cache when it began", {"/prefix_cache/state"}},
    {"# Machine during the run (the client's)"},
    {"Load before", {"/noise/load1_before"}},
    {"Load after", {"/noise/load1_after"}},
    {"Stolen share of CPU time", {"/noise/steal_share"}},
    {"MHz before", {"/noise/mhz_before"}},
    {"MHz after", {"/noise/mhz_after"}},
    {"GPU clocks, temperature, use", {"/gpu_state"}},
    {"# Server over the run"},
    {"KV cache in use, peak", {"/kv_cache/peak_usage"}},
    {"Requests running, peak", {"/kv_cache/peak_running"}},
    {"Requests waiting, peak", {"/kv_cache/peak_waiting"}},
    {"Preemptions", {"/metrics_delta/vllm:num_preemptions_total"}},
    {"Prompt tokens", {"/metrics_delta/vllm:prompt_tokens_total"}},
    {"Generated tokens", {"/metrics_delta/vllm:generation_tokens_total"}},
    {"Prefix cache: tokens asked", {"/metrics_delta/vllm:prefix_cache_queries_total"}},
    {"Prefix cache: tokens found", {"/metrics_delta/vllm:prefix_cache_hits_total"}},
    {"Prefix cache: share found", {"/prefix_cache/hit_share"}},
    {"# Outcome"},
    {"Answered", {"/results/completed"}},
    {"Failed", {"/results/failed"}},
    {"Errors", {"/errors"}},
    {"Duration, s", {"/results/duration"}},
    {"Requests/s", {"/results/request_throughput"}},
    {"Output tokens/s", {"/results/output_throughput"}},
    {"Mean TTFT, ms", {"/results/mean_ttft_ms"}},
    {"Mean TPOT, ms", {"/results/mean_tpot_ms"}},
    {"Mean E2EL, ms", {"/results/mean_e2el_ms"}},
    {"What it shows, and what not"},
});

/// A value in a table cell: no newlines, bars escaped, at most a few hundred characters.
std::string cell(const Json& value) {
  constexpr size_t kMaxCell = 4000;
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char c : text.substr(0, kMaxCell)) {
    if (c == '|') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out;
}

std::string value_of(const Row& row, const Json& facts) {
  for (const std::string_view pointer : row.pointers) {
    if (pointer.empty() || !facts.is_object()) continue;
    const Json::json_pointer at{std::string(pointer)};
    if (facts.contains(at) && !facts[at].is_null()) return cell(facts[at]);
  }
  return {};
}

std::string rows_as_tables(std::span<const Row> rows, const Json& facts, std::string_view level) {
  std::string out;
  for (const Row& row : rows) {
    if (row.label.starts_with("# ")) {
      out += fmt::format("\n{} {}\n| | |\n|---|---|\n", level, row.label.substr(2));
      continue;
    }
    const std::string value = value_of(row, facts);
    out += fmt::format("| {} |{}{} |\n", row.label, value.empty() ? "" : " ", value);
  }
  return out;
}

}  // namespace

std::string serving_config_page(const Json& server) {
  return "# Serving configuration\n\nWhat a server runs with. `octavo config record --url URL` "
         "fills "
         "in what a running server tells; the rest is for a person. An empty cell is unknown.\n" +
         rows_as_tables(kServingRows, server, "##");
}

std::string run_record_page(const Json& record) {
  const Json server = record.is_object() ? record.value("server", Json()) : Json();
  return "# Record of a benchmark run\n\nThe conditions of one run, without which its figures "
         "cannot "
         "be compared. `octavo bench serve --save-result` writes it beside the result; the rest is "
         "for a person. An empty cell is unknown.\n" +
         rows_as_tables(kRunRows, record, "##") + "\n## Serving configuration\n" +
         rows_as_tables(kServingRows, server, "###");
}

}  // namespace octavo::bench
