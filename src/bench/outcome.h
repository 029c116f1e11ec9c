#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octavo::bench {

/// One request of a data set.
struct SampleRequest {
  std::vector<std::string> prompts;  // one text; several for embeddings in batches and reranking
  std::vector<int64_t> token_ids;    // instead of a text: a prompt that is tokenised already
  int64_t prompt_len = 0;            // tokens
  int64_t output_len = 0;            // tokens asked for
  std::string request_id;
  std::string model;                  // instead of the run's model (LoRA); usually empty
  std::optional<double> timestamp_s;  // when it is sent, if the data set says so
};

/// What became of one request. Times in seconds; `start_s` on the monotonic clock.
struct Outcome {
  bool success = false;
  std::string error;
  std::string generated_text;
  int64_t prompt_len = 0;
  int64_t output_tokens = 0;  // as the server counted, 0 = it did not say
  int64_t num_input_sequences = 1;
  double start_s = 0;         // just before the request was sent
  double ttft_s = 0;          // to the first chunk with a token
  double latency_s = 0;       // to the last chunk with a token
  double client_queue_s = 0;  // between its turn and `start_s`
  std::vector<double> itl_s;  // gaps between chunks; a chunk may carry several tokens
  std::optional<double> server_queue_s;
  std::optional<double> server_ttft_s;
};

}  // namespace octavo::bench
