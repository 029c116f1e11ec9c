#pragma once

// A checkpoint in memory, for the tests of this room.

#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/memory.h"
#include "device/thread_pool.h"
#include "kernels/context.h"

namespace octavo::model {

/// Two threads and scratch, for the length of a test.
struct TestKernels {
  device::ThreadPool pool{2};
  device::Workspace workspace;
  kernels::KernelContext ctx{pool, workspace};
};

/// Config text and tensors as given; GGUF metadata is written as a flat JSON object.
class TestCheckpoint final : public checkpoint::Checkpoint {
 public:
  explicit TestCheckpoint(const std::string& config_text, bool is_gguf = false)
      : is_gguf_(is_gguf), config_(checkpoint::parse_json_metadata(config_text, "test").value()) {}

  /// Adds a tensor of F32 values; makes `has_weights` true.
  void add(std::string name, std::vector<int64_t> shape, std::vector<float> values) {
    const auto bytes = std::as_bytes(std::span(values));
    add_raw(std::move(name), checkpoint::TensorType::kF32, std::move(shape),
            {bytes.begin(), bytes.end()});
  }
  void add_raw(std::string name, checkpoint::TensorType type, std::vector<int64_t> shape,
               std::vector<std::byte> bytes) {
    bytes_.push_back(std::move(bytes));
    tensors_.push_back({std::move(name), type, std::move(shape), bytes_.back(), "test.file", 0});
  }
  void remove(std::string_view name) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.name == name; });
  }

  std::string_view path() const override { return "test"; }
  bool is_gguf() const override { return is_gguf_; }
  bool has_weights() const override { return !tensors_.empty(); }
  const checkpoint::Metadata& config() const override { return config_; }
  const checkpoint::Metadata& generation_config() const override { return none_; }
  const checkpoint::Tensor* find(std::string_view name) const override {
    for (const checkpoint::Tensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  const std::vector<checkpoint::Tensor>& tensors() const override { return tensors_; }
  Result<std::optional<std::string>> read_file(std::string_view) const override {
    return std::optional<std::string>{};
  }
  void drop_pages() const override {}

 private:
  bool is_gguf_;
  checkpoint::Metadata config_;
  checkpoint::Metadata none_;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<checkpoint::Tensor> tensors_;
};

}  // namespace octavo::model
