// Data sets made of random tokens: random, random-rerank, prefix_repetition.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/datasets.h"

namespace octavo::bench {
namespace {

using Ids = std::vector<int64_t>;
using DrawIds = std::function<Ids(size_t count)>;

constexpr int64_t kMaxLength = 10'000'000;

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

struct StableText {
  std::string text;
  Ids ids;
  int64_t mismatch = 0;  // ids too many, or too few if negative
};

/// Decodes and re-encodes until the text has `length` tokens, cutting or adding random ids; gives
/// up after ten corrections. Text is what is sent, and not every sequence of ids survives as text.
StableText make_length_stable(const TextModel& model, Ids ids, size_t length, const DrawIds& draw) {
  constexpr int kMaxCorrections = 10;
  StableText out;
  for (int corrections = 0;; ++corrections) {
    out.text = model.decode(ids);
    ids = model.encode(out.text, false);
    if (ids.size() == length || corrections == kMaxCorrections) break;
    if (ids.size() > length) {
      ids.resize(length);
    } else {
      const Ids extra = draw(length - ids.size());
      ids.insert(ids.end(), extra.begin(), extra.end());
    }
  }
  out.mismatch = int64_t(ids.size()) - int64_t(length);
  out.ids = std::move(ids);
  return out;
}

void note_mismatch(int64_t total, std::vector<std::string>& notes) {
  if (total == 0) return;
  notes.push_back(
      fmt::format("Across all generated prompts, there were {} {} tokens than expected after "
                  "decoding and re-encoding.",
                  std::abs(total), total > 0 ? "more" : "fewer"));
}

/// Closed interval of lengths around a mean.
struct LengthRange {
  int64_t low = 0;
  int64_t high = 0;
};

LengthRange around(int64_t length, double ratio) {
  return {int64_t(std::floor(double(length) * (1 - ratio))),
          int64_t(std::ceil(double(length) * (1 + ratio)))};
}

/// Per-request lengths and offsets, drawn in this order.
struct Drawn {
  Ids input_lens;
  Ids output_lens;
  Ids offsets;
};

Drawn draw_lengths(const DatasetOptions& options, const TextModel& model, NumpyGenerator& random,
                   size_t count, int64_t input_len, int64_t output_len) {
  const int64_t inner = std::max<int64_t>(0, input_len - model.num_special_tokens_to_add);
  const LengthRange input = around(inner, options.random_input_range_ratio);
  LengthRange output = around(output_len, options.random_output_range_ratio);
  output.low = std::max<int64_t>(output.low, 1);
  output.high = std::max<int64_t>(output.high, 1);
  Drawn drawn;
  drawn.input_lens = random.integers(input.low, input.high + 1, count);
  drawn.output_lens = random.integers(output.low, output.high + 1, count);
  drawn.offsets = random.integers(0, model.vocab_size, count);
  return drawn;
}

/// `length` allowed ids in a row, from a place that depends on the offset and the request's index.
void append_run(const TextModel& model, int64_t offset, size_t index, int64_t length, Ids& ids) {
  for (int64_t j = 0; j < length; ++j) {
    ids.push_back(model.allowed[(size_t(offset) + index + size_t(j)) % model.allowed.size()]);
  }
}

Status check_ranges(const DatasetOptions& options) {
  for (const double ratio : {options.random_input_range_ratio, options.random_output_range_ratio}) {
    if (!(ratio >= 0 && ratio < 1)) return invalid("--random-range-ratio must be in [0, 1)");
  }
  for (const int64_t length :
       {options.random_input_len, options.random_output_len, options.random_prefix_len}) {
    if (length < 0 || length > kMaxLength) {
      return invalid(fmt::format("lengths of random prompts must be from 0 to {}", kMaxLength));
    }
  }
  if (options.random_batch_size < 1) return invalid("--random-batch-size must be at least 1");
  return {};
}

/// Several texts in one request, as embedding servers take them.
std::vector<SampleRequest> pack(std::vector<SampleRequest> requests,
                                const DatasetOptions& options) {
  const auto size = size_t(options.random_batch_size);
  if (size == 1) return requests;
  std::vector<SampleRequest> out;
  for (size_t begin = 0; begin < requests.size(); begin += size) {
    SampleRequest batch;
    batch.request_id = options.request_id_prefix + std::to_string(begin / size);
    for (size_t i = begin; i < std::min(begin + size, requests.size()); ++i) {
      batch.prompts.push_back(std::move(requests[i].prompts[0]));
      batch.prompt_len += requests[i].prompt_len;
    }
    out.push_back(std::move(batch));
  }
  return out;
}

}  // namespace

Samples sample_random(const DatasetOptions& options, const TextModel& model,
                      std::vector<std::string>& notes) {
  OCTAVO_TRY(check_ranges(options));
  const int64_t inner =
      std::max<int64_t>(0, options.random_input_len - model.num_special_tokens_to_add);
  if (options.random_prefix_len + around(inner, options.random_input_range_ratio).low < 1) {
    return invalid(
        fmt::format("--random-input-len is too small: with {} special tokens of the tokenizer and "
                    "input range ratio {} a prompt could be empty",
                    model.num_special_tokens_to_add, options.random_input_range_ratio));
  }
  NumpyGenerator random(options.seed);
  const DrawIds draw = [&](size_t count) { return random.integers(0, model.vocab_size, count); };
  const auto count = size_t(options.num_prompts);
  const Drawn drawn = draw_lengths(options, model, random, count, options.random_input_len,
                                   options.random_output_len);
  Ids prefix;
  if (options.random_prefix_len > 0) {
    const auto prefix_len = size_t(options.random_prefix_len);
    for (const int64_t place : random.integers(0, int64_t(model.allowed.size()), prefix_len)) {
      prefix.push_back(model.allowed[size_t(place)]);
    }
    prefix = make_length_stable(model, std::move(prefix), prefix_len, draw).ids;
  }
  std::vector<SampleRequest> requests;
  int64_t mismatch = 0;
  for (size_t i = 0; i < count; ++i) {
    Ids ids = prefix;
    append_run(model, drawn.offsets[i], i, drawn.input_lens[i], ids);
    const auto length = size_t(options.random_prefix_len + drawn.input_lens[i]);
    StableText stable = make_length_stable(model, std::move(ids), length, draw);
    mismatch += stable.mismatch;
    SampleRequest request;
    request.prompts = {std::move(stable.text)};
    request.prompt_len = int64_t(stable.ids.size());
    request.output_len = drawn.output_lens[i];
    request.request_id = options.request_id_prefix + std::to_string(i);
    requests.push_back(std::move(request));
  }
  note_mismatch(mismatch, notes);
  return pack(std::move(requests), options);
}

Samples sample_random_rerank(const DatasetOptions& options, const TextModel& model,
                             std::vector<std::string>& notes) {
  OCTAVO_TRY(check_ranges(options));
  const int64_t separators = options.is_reranker ? 1 : 0;
  int64_t count = options.num_prompts;
  int64_t batch_size = options.random_batch_size;
  if (!options.is_reranker && (--count < 1 || --batch_size < 1)) {
    return invalid("--no-reranker needs --num-prompts and --random-batch-size above 1");
  }
  NumpyGenerator random(options.seed);
  const DrawIds draw = [&](size_t n) { return random.integers(0, model.vocab_size, n); };
  const int64_t query_mean =
      options.is_reranker ? options.random_input_len / 2 - separators : options.random_input_len;
  const Drawn query_drawn = draw_lengths(options, model, random, 1, query_mean, 0);
  const int64_t query_len = query_drawn.input_lens[0];
  const int64_t document_mean = options.is_reranker
                                    ? options.random_input_len - query_len - separators
                                    : options.random_input_len;
  const Drawn drawn = draw_lengths(options, model, random, size_t(count), document_mean, 0);
  int64_t mismatch = 0;
  const auto make = [&](int64_t offset, size_t index, int64_t length) {
    Ids ids;
    append_run(model, offset, index, length, ids);
    StableText stable = make_length_stable(model, std::move(ids), size_t(length), draw);
    mismatch += stable.mismatch;
    return stable;
  };
  const StableText query = make(query_drawn.offsets[0], 0, query_len);
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    if (i % batch_size == 0) {
      SampleRequest request;
      request.prompts = {query.text};
      request.prompt_len = options.is_reranker ? 0 : int64_t(query.ids.size());
      request.request_id = options.request_id_prefix + std::to_string(i / batch_size);
      requests.push_back(std::move(request));
    }
    StableText document =
        make(drawn.offsets[size_t(i)], size_t(i) + 1, drawn.input_lens[size_t(i)]);
    SampleRequest& request = requests.back();
    request.prompt_len += int64_t(document.ids.size());
    if (options.is_reranker) request.prompt_len += int64_t(query.ids.size()) + separators;
    request.prompts.push_back(std::move(document.text));
  }
  note_mismatch(mismatch, notes);
  return requests;
}

Samples sample_prefix_repetition(const DatasetOptions& options, const TextModel& model,
                                 GlobalRandom& random, std::vector<std::string>& notes) {
  const int64_t num_prefixes = options.prefix_repetition_num_prefixes;
  const int64_t prefix_len = options.prefix_repetition_prefix_len;
  const int64_t suffix_len = options.prefix_repetition_suffix_len;
  if (num_prefixes < 1 || options.num_prompts / num_prefixes == 0) {
    return invalid(
        fmt::format("num_requests ({}) must be greater than or equal to num_prefixes ({})",
                    options.num_prompts, num_prefixes));
  }
  if (prefix_len < 0 || suffix_len < 0 || prefix_len + suffix_len < 1 ||
      std::max(prefix_len, suffix_len) > kMaxLength) {
    return invalid(
        "the lengths of --prefix-repetition-prefix-len and -suffix-len are out of range");
  }
  random = GlobalRandom(options.seed);
  const DrawIds draw = [&](size_t count) {
    return random.numpy.randint(0, model.vocab_size, count);
  };
  int64_t mismatch = 0;
  const auto make = [&](int64_t length) {
    StableText stable = make_length_stable(model, draw(size_t(length)), size_t(length), draw);
    mismatch += stable.mismatch;
    return stable.ids;
  };
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < num_prefixes; ++i) {
    const Ids prefix = make(prefix_len);
    for (int64_t j = 0; j < options.num_prompts / num_prefixes; ++j) {
      Ids ids = prefix;
      const Ids suffix = make(suffix_len);
      ids.insert(ids.end(), suffix.begin(), suffix.end());
      SampleRequest request;
      request.prompts = {model.decode(ids)};
      request.prompt_len = int64_t(ids.size());
      request.output_len = options.prefix_repetition_output_len;
      requests.push_back(std::move(request));
    }
  }
  note_mismatch(mismatch, notes);
  if (!options.disable_shuffle) random.python.shuffle(requests);
  return requests;
}

}  // namespace octavo::bench
