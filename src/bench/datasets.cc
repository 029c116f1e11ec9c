#include "bench/datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace octavo::bench {

std::string_view dataset_choices() {
  return "random random-rerank sharegpt custom prefix_repetition burstgpt spec_bench timed_trace "
         "speed_bench hf";
}

Status check_dataset_name(std::string_view name, std::string_view choices) {
  struct Refusal {
    std::string_view name;
    std::string_view reason;
  };
  constexpr auto kRefused = std::to_array<Refusal>({
      {"random-mm", "its requests carry images and videos; octavo bench sends text only"},
      {"custom_image", "its requests carry images; octavo bench sends text only"},
      {"custom_audio", "its requests carry audio; octavo bench sends text only"},
  });
  std::vector<std::string_view> known;
  for (size_t begin = 0; begin < choices.size();) {
    const size_t end = std::min(choices.find(' ', begin), choices.size());
    known.push_back(choices.substr(begin, end - begin));
    if (known.back() == name) return {};
    begin = end + 1;
  }
  const auto refused = std::ranges::find(kRefused, name, &Refusal::name);
  return Error{Code::kInvalidArgument,
               refused != kRefused.end()
                   ? fmt::format("argument --dataset-name: not '{}': {}", name, refused->reason)
                   : fmt::format("argument --dataset-name: invalid choice: '{}' (choose from {})",
                                 name, fmt::join(known, ", "))};
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
  if (options.num_prompts < 1 && options.name != "speed_bench") {
    return Error{Code::kInvalidArgument, "--num-prompts must be at least 1"};
  }
  if (options.name == "random") return sample_random(options, *model, notes);
  if (options.name == "random-rerank") return sample_random_rerank(options, *model, notes);
  if (options.name == "prefix_repetition") {
    return sample_prefix_repetition(options, *model, random, notes);
  }
  if (options.name == "sharegpt") return sample_sharegpt(options, *model, random);
  if (options.name == "speed_bench") return sample_speed_bench(options, *model, random);
  if (options.name == "hf") return sample_hub(options, *model, random);
  if (options.name == "burstgpt") return sample_burstgpt(options, *model);
  if (options.name == "timed_trace") return sample_timed_trace(options, *model, random);
  return Error{Code::kInvalidArgument, fmt::format("Unknown dataset: {}", options.name)};
}

}  // namespace octavo::bench
