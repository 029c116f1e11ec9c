#include "bench/datasets.h"

#include <fmt/format.h>

namespace octavo::bench {

std::string_view dataset_choices() {
  return "random random-rerank sharegpt custom prefix_repetition burstgpt spec_bench timed_trace";
}

Result<std::vector<SampleRequest>> sample_requests(const DatasetOptions& options,
                                                   const TextModel* model, GlobalRandom& random,
                                                   std::vector<std::string>& notes) {
  const bool is_synthetic =
      options.name.starts_with("random") || options.name == "prefix_repetition";
  if (is_synthetic && !options.path.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("Cannot use '{}' dataset with --dataset-path. Please specify the "
                             "appropriate --dataset-name for your dataset file: {}",
                             options.name, options.path)};
  }
  if (!is_synthetic && options.path.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--dataset-name {} needs --dataset-path", options.name)};
  }
  if (options.name == "custom") return sample_custom(options, model, random);
  if (options.name == "spec_bench") return sample_spec_bench(options, model, random);
  if (model == nullptr) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--dataset-name {} needs a tokenizer", options.name)};
  }
  if (options.num_prompts < 1) {
    return Error{Code::kInvalidArgument, "--num-prompts must be at least 1"};
  }
  if (options.name == "random") return sample_random(options, *model, notes);
  if (options.name == "random-rerank") return sample_random_rerank(options, *model, notes);
  if (options.name == "prefix_repetition") {
    return sample_prefix_repetition(options, *model, random, notes);
  }
  if (options.name == "sharegpt") return sample_sharegpt(options, *model, random);
  if (options.name == "burstgpt") return sample_burstgpt(options, *model);
  if (options.name == "timed_trace") return sample_timed_trace(options, *model, random);
  return Error{Code::kInvalidArgument, fmt::format("Unknown dataset: {}", options.name)};
}

}  // namespace octavo::bench
