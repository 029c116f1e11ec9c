#include <algorithm>
#include <cstdlib>
#include <string>

#include "checkpoint/safetensors.h"
#include "model/test_checkpoint.h"
#include "model/weights/weight_source.h"

// A config.json up to the first zero byte, then a safetensors file: whatever they say, an error, or
// module "m" in blocks that lie inside what was made.

namespace {

using namespace octavo;

void take(const model::TestCheckpoint& checkpoint, const model::Quantization& plan, int64_t rows,
          int64_t cols) {
  static device::ThreadPool pool(1);
  const auto source =
      model::make_packed_source(model::make_checkpoint_source(checkpoint), plan, checkpoint, pool);
  const auto tensor = source->take_matrix({"m", rows, cols, model::MatrixUse::kLinear});
  (void)source->check_all_taken(1, false);
  if (!tensor.ok() || tensor->owned.size_bytes() == 0) return;
  if (tensor->owned.size_bytes() < size_t(rows) * kernels::row_bytes(tensor->format, cols)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint8_t* const zero = std::find(data, data + size, uint8_t{0});
  const std::string text(data, zero);
  if (zero == data + size || !checkpoint::parse_json_metadata(text, "config.json").ok()) return 0;
  const auto bytes = std::as_bytes(std::span(zero + 1, data + size));
  const auto contents = checkpoint::parse_safetensors(bytes, "fuzz.safetensors");
  if (!contents.ok()) return 0;
  model::TestCheckpoint checkpoint(text);
  for (const checkpoint::Tensor& tensor : contents->tensors) {
    checkpoint.add_raw(tensor.name, tensor.type, tensor.shape,
                       {tensor.data.begin(), tensor.data.end()});
  }
  const auto plan = model::plan_quantization("", model::DTypeChoice::kAuto, checkpoint);
  if (!plan.ok() || !plan->is_packed()) return 0;
  for (const int64_t rows : {16, 32, 33}) {
    for (const int64_t cols : {64, 128, 576}) take(checkpoint, *plan, rows, cols);
  }
  return 0;
}
