#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

/// Sorts `tensors` by offset and checks that no two share a byte of file `name`.
Status sort_and_check_overlap(std::vector<Tensor>& tensors, std::string_view name);

}  // namespace octavo::checkpoint
