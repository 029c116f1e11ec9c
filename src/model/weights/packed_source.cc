#include <fmt/format.h>

#include <algorithm>

#include "model/weights/packed_modules.h"
#include "model/weights/weight_source.h"

namespace octavo::model {
namespace {

bool is_all_zero(const checkpoint::Tensor& tensor) {
  return std::ranges::all_of(tensor.data, [](std::byte byte) { return byte == std::byte{}; });
}

/// Reads the modules that a checkpoint has quantised, whichever those are: what a module's tensors
/// say counts, not the lists of modules in config.json.
class PackedSource final : public WeightSource {
 public:
  PackedSource(std::unique_ptr<WeightSource> inner, const Quantization& plan,
               const checkpoint::Checkpoint& checkpoint, device::ThreadPool& pool)
      : inner_(std::move(inner)), plan_(plan), checkpoint_(checkpoint), pool_(pool) {}

  Result<SourceTensor> take(const std::string& name, std::span<const int64_t> shape,
                            Fill fill) override {
    return inner_->take(name, shape, fill);
  }

  Result<SourceTensor> take_matrix(const MatrixRequest& request) override {
    PackedModule module(request, plan_, checkpoint_, *inner_, pool_);
    switch (module.kind()) {
      case PackedModule::Kind::kNone:
        return inner_->take_matrix(request);
      case PackedModule::Kind::kGptq:
        return read_gptq(module);
      case PackedModule::Kind::kAwq:
        return read_awq(module);
      case PackedModule::Kind::kPackedInts:
        return read_packed_ints(module);
      case PackedModule::Kind::kInt8:
        return read_int8(module);
      case PackedModule::Kind::kF8:
        return read_f8(module);
    }
    return Error{Code::kInternal, "no such kind of module"};
  }

  void mark_taken(const checkpoint::Tensor& tensor) override { inner_->mark_taken(tensor); }

  Status check_all_taken(int64_t num_layers, bool tied) override {
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
      // AutoGPTQ writes a bias for every module, zeros where the model has none.
      if (plan_.method == QuantMethod::kGptq && tensor.name.ends_with(".bias") &&
          is_all_zero(tensor)) {
        inner_->mark_taken(tensor);
      }
    }
    return inner_->check_all_taken(num_layers, tied);
  }

  void drop_pages() override { inner_->drop_pages(); }
  std::string hash() const override { return inner_->hash(); }

 private:
  std::unique_ptr<WeightSource> inner_;
  Quantization plan_;
  const checkpoint::Checkpoint& checkpoint_;
  device::ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<WeightSource> make_packed_source(std::unique_ptr<WeightSource> inner,
                                                 const Quantization& plan,
                                                 const checkpoint::Checkpoint& checkpoint,
                                                 device::ThreadPool& pool) {
  return std::make_unique<PackedSource>(std::move(inner), plan, checkpoint, pool);
}

}  // namespace octavo::model
