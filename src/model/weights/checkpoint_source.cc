#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "model/architectures/common.h"
#include "model/weights/dtype_plan.h"
#include "model/weights/manifest.h"
#include "model/weights/weight_source.h"

namespace octavo::model {
namespace {

/// The layer a tensor belongs to, or -1.
int64_t layer_of(std::string_view name) {
  for (const std::string_view prefix : {"model.layers.", "blk."}) {
    if (!name.starts_with(prefix)) continue;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size();
    int64_t layer = -1;
    const auto [rest, error] = std::from_chars(begin, end, layer);
    if (error == std::errc{} && rest != end && *rest == '.') return layer;
  }
  return -1;
}

/// Tensors that repeat what the config says, or are read elsewhere.
bool is_redundant(std::string_view name, bool tied) {
  return name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
         (tied && name == "lm_head.weight");
}

class CheckpointSource final : public WeightSource {
 public:
  explicit CheckpointSource(const checkpoint::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<SourceTensor> take(const std::string& name, std::span<const int64_t> shape,
                            Fill) override {
    const checkpoint::Tensor* tensor = checkpoint_.find(name);
    if (tensor == nullptr) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: tensor {} is missing", checkpoint_.path(), name)};
    }
    if (!std::ranges::equal(tensor->shape, shape)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: tensor {} has shape {}; the config asks for {}", tensor->file,
                               name, show_shape(tensor->shape), show_shape(shape))};
    }
    const std::optional<kernels::WeightFormat> format = format_of(tensor->type);
    if (!format) {
      return Error{Code::kUnsupported,
                   fmt::format("{}: tensor {} is stored as {}, which is no weight without more",
                               tensor->file, name, checkpoint::name_of(tensor->type))};
    }
    OCTAVO_TRY(check_size(*tensor, *format));
    mark_taken(*tensor);
    return SourceTensor{tensor->data.data(), *format, {}};
  }

  void mark_taken(const checkpoint::Tensor& tensor) override {
    if (!taken_.insert(tensor.name).second) return;
    manifest_.add(tensor.name, checkpoint::name_of(tensor.type), tensor.shape, tensor.data);
  }

  Status check_all_taken(int64_t num_layers, bool tied) override {
    std::string unused;
    int64_t num_unused = 0;
    constexpr int64_t kNamed = 8;
    for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
      if (taken_.contains(tensor.name) || is_redundant(tensor.name, tied)) continue;
      const int64_t layer = layer_of(tensor.name);
      if (layer >= 0 && layer < num_layers) {
        return Error{Code::kUnsupported,
                     fmt::format("{}: tensor {} has no place in this architecture", tensor.file,
                                 tensor.name)};
      }
      if (num_unused++ < kNamed) unused += (unused.empty() ? "" : ", ") + tensor.name;
    }
    if (num_unused > 0) {
      log::warning(log::Source::kEngineCore, "{}: {} tensors are not used: {}{}",
                   checkpoint_.path(), num_unused, unused, num_unused > kNamed ? ", ..." : "");
    }
    return {};
  }

  void drop_pages() override { checkpoint_.drop_pages(); }
  std::string hash() const override { return manifest_.hash(); }

 private:
  /// Packing reads by format and shape; what a file could get wrong is checked once more here.
  static Status check_size(const checkpoint::Tensor& tensor, kernels::WeightFormat format) {
    const int64_t num_cols = tensor.shape.back();
    const int64_t num_rows = tensor.shape.size() == 1 ? 1 : tensor.shape.front();
    const int64_t elements = kernels::block_elements(format);
    if (num_cols % elements != 0) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("{}: tensor {} is {}, but its rows of {} are no multiple of {}", tensor.file,
                      tensor.name, kernels::name_of(format), num_cols, elements)};
    }
    const size_t needed = size_t(num_rows) * kernels::row_bytes(format, num_cols);
    if (tensor.data.size() == needed) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: tensor {} has {} bytes at offset {}; its shape needs {}",
                             tensor.file, tensor.name, tensor.data.size(), tensor.offset, needed)};
  }

  const checkpoint::Checkpoint& checkpoint_;
  std::unordered_set<std::string> taken_;
  Manifest manifest_;
};

}  // namespace

std::unique_ptr<WeightSource> make_checkpoint_source(const checkpoint::Checkpoint& checkpoint) {
  return std::make_unique<CheckpointSource>(checkpoint);
}

}  // namespace octavo::model
