#pragma once

#include "base/result.h"
#include "model/activations.h"
#include "model/forward_batch.h"

namespace octavo::model {

/// What a batch is held against.
struct BatchBounds {
  StepLimits limits;
  int64_t vocab_size = 0;
  int64_t num_blocks = 0;
  int64_t block_size = 0;
  int64_t num_kv_groups = 1;
  int64_t num_adapters = 0;
};

/// Everything the kernels take on trust: sizes agree, nothing exceeds what was reserved, every id,
/// slot and block lies within its table, positions are those of the last tokens of each sequence,
/// logits rows ascend. kInternal saying what is wrong, without token ids; kInvalidArgument for a
/// token outside the vocabulary.
Status check_batch(const ForwardBatch& batch, const BatchBounds& bounds);

}  // namespace octavo::model
