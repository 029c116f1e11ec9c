#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/numpy_random.h"
#include "bench/outcome.h"
#include "bench/python_random.h"
#include "bench/text_model.h"

namespace octavo::bench {

/// The two process-wide generators of a Python program, seeded alike. Data sets reseed and use them
/// as the original does, and what is drawn later (gaps, LoRA names) goes on from there.
struct GlobalRandom {
  explicit GlobalRandom(uint32_t seed) : python(seed), numpy(seed) {}
  PythonRandom python;
  NumpyLegacy numpy;
};

/// Options of all data sets; each reads its own part.
struct DatasetOptions {
  std::string name;
  std::string path;
  int64_t num_prompts = 1000;
  uint32_t seed = 0;
  std::string request_id_prefix;
  bool no_oversample = false;
  bool disable_shuffle = false;
  bool skip_chat_template = false;
  std::string chat_template_kwargs;  // JSON object or empty

  int64_t random_input_len = 1024;
  int64_t random_output_len = 128;
  int64_t random_prefix_len = 0;
  double random_input_range_ratio = 0;
  double random_output_range_ratio = 0;
  int64_t random_batch_size = 1;
  bool is_reranker = true;

  int64_t sharegpt_output_len = 0;  // 0: from the file
  int64_t custom_output_len = 256;  // -1: from the file
  int64_t spec_bench_output_len = 256;
  std::string spec_bench_category;  // empty: all
  std::string speed_bench_subset = "qualitative";
  int64_t speed_bench_output_len = 4096;
  std::string speed_bench_category;  // empty: all

  std::string hf_name;  // on the hub; empty: the end of the path
  std::string hf_subset;
  std::string hf_split;
  int64_t hf_output_len = 0;  // 0: the set's own
  bool hf_streams = true;     // shuffles as vLLM does while it streams the set

  int64_t prefix_repetition_prefix_len = 256;
  int64_t prefix_repetition_suffix_len = 256;
  int64_t prefix_repetition_num_prefixes = 10;
  int64_t prefix_repetition_output_len = 128;

  int64_t trace_chunk_size = 16;
  double trace_sec_multiplier = 1;
  std::string trace_label_timestamp = "timestamp";
  std::string trace_label_input_length = "input_length";
  std::string trace_label_output_length = "output_length";
  std::string trace_label_hash_ids = "hash_ids";
};

/// Names of the data sets that are built, separated by spaces.
std::string_view dataset_choices();
/// Error: not among `choices` (separated by spaces); says why if it is one of vLLM's.
Status check_dataset_name(std::string_view name, std::string_view choices);

/// Draws the requests. `model` may be nullptr (no tokenizer) for custom and spec_bench only. The
/// same seed gives the same prompts as vLLM's `bench serve`, but for timed_trace, whose blocks
/// depend on Python's per-process string hash there. `notes` collects lines for the user.
Result<std::vector<SampleRequest>> sample_requests(const DatasetOptions& options,
                                                   const TextModel* model, GlobalRandom& random,
                                                   std::vector<std::string>& notes);

// The parts, each in its own file.
using Samples = Result<std::vector<SampleRequest>>;
Samples sample_random(const DatasetOptions& options, const TextModel& model,
                      std::vector<std::string>& notes);
Samples sample_random_rerank(const DatasetOptions& options, const TextModel& model,
                             std::vector<std::string>& notes);
Samples sample_prefix_repetition(const DatasetOptions& options, const TextModel& model,
                                 GlobalRandom& random, std::vector<std::string>& notes);
Samples sample_sharegpt(const DatasetOptions& options, const TextModel& model,
                        GlobalRandom& random);
Samples sample_custom(const DatasetOptions& options, const TextModel* model, GlobalRandom& random);
Samples sample_spec_bench(const DatasetOptions& options, const TextModel* model,
                          GlobalRandom& random);
Samples sample_speed_bench(const DatasetOptions& options, const TextModel& model,
                           GlobalRandom& random);
Samples sample_hub(const DatasetOptions& options, const TextModel& model, GlobalRandom& random);
Samples sample_burstgpt(const DatasetOptions& options, const TextModel& model);
Samples sample_timed_trace(const DatasetOptions& options, const TextModel& model,
                           GlobalRandom& random);

}  // namespace octavo::bench
