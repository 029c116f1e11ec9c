#include "checkpoint/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/quote.h"

namespace octavo::checkpoint {

Status sort_and_check_overlap(std::vector<Tensor>& tensors, std::string_view name) {
  // Empty tensors first, so that one that lies on the border of another is no overlap.
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.data.size() < b.data.size();
  });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& previous = tensors[i - 1];
    const Tensor& tensor = tensors[i];
    if (previous.offset + previous.data.size() > tensor.offset) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("{}: tensor {} at offset {} overlaps tensor {} at offset {}", name,
                      quote(tensor.name), tensor.offset, quote(previous.name), previous.offset)};
    }
  }
  return {};
}

}  // namespace octavo::checkpoint
