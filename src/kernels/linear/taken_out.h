#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear_params.h"

// A norm leaves one channel tens of times as large as the others. Rounded with its block of 32 it
// makes most of the error of a product; so the largest number of such a row is taken out before its
// block is quantised, and the sums start from its product with its column of the weights, in f32.
// Whether and where is a function of the row alone (promise P1).

namespace octavo::kernels {

/// The block that the largest number of a quantised row is to be taken out of: its largest
/// magnitude is more than three times the blocks' mean. -1: none, as in any row that is not finite.
/// Rows of fewer than four blocks have none.
int64_t block_with_too_much(const std::byte* records, size_t record_bytes, int64_t num_blocks);

/// Copies a block of 32 columns without its largest number, which is returned with its column (of
/// the block) as the slot.
TakenOut take_out_largest(float* rest, const float* x);

/// Gives all columns that were taken out, found in `slot`, places in `columns` [num_rows + 1], from
/// 1 on; rows without one get 0. Returns what is then known, without rows if nothing was taken out
/// of any. `places`: [num_cols], working memory.
TakenColumns number_columns(TakenOut* taken, int64_t num_rows, int32_t* columns, int32_t* places,
                            int64_t num_cols);

}  // namespace octavo::kernels
