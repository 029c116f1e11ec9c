#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor.h"

namespace octavo::checkpoint {

/// The tensors of a checkpoint, by name.
class TensorIndex {
 public:
  TensorIndex() = default;
  explicit TensorIndex(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
    for (size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
  }
  // The keys of `places_` point into `tensors_`; a moved vector keeps its elements in place.
  TensorIndex(TensorIndex&&) = default;
  TensorIndex& operator=(TensorIndex&&) = default;

  const Tensor* find(std::string_view name) const {
    const auto it = places_.find(name);
    return it == places_.end() ? nullptr : &tensors_[it->second];
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> places_;
};

}  // namespace octavo::checkpoint
