#include <atomic>

#include "base/log.h"
#include "model/weights/dtype_plan.h"
#include "model/weights/manifest.h"
#include "model/weights/quantize.h"
#include "model/weights/weight_source.h"

namespace octavo::model {
namespace {

using kernels::WeightFormat;

/// Which format a matrix gets; nullopt: it stays as it is. The head is every token's last product
/// and takes half of a small model's bytes: in 8 bits where the others have 4, and as it is for fp8
/// (so has vLLM). A table that only gives rows stays as it is.
std::optional<WeightFormat> format_for(QuantMethod method, MatrixUse use, int64_t num_cols) {
  const int64_t group = group_of(num_cols);
  if (group == 0 || use == MatrixUse::kTable) return std::nullopt;
  switch (method) {
    case QuantMethod::kOnlineInt8:
      return WeightFormat::kQ8_0;
    case QuantMethod::kOnlineQ4:
      return use == MatrixUse::kHead ? WeightFormat::kQ8_0 : WeightFormat::kQ4_1;
    default:
      break;
  }
  if (use == MatrixUse::kHead) return std::nullopt;
  return group == 128  ? WeightFormat::kF8G128
         : group == 64 ? WeightFormat::kF8G64
                       : WeightFormat::kF8G32;
}

class OnlineSource final : public WeightSource {
 public:
  OnlineSource(std::unique_ptr<WeightSource> inner, const Quantization& plan,
               device::ThreadPool& pool)
      : inner_(std::move(inner)), plan_(plan), pool_(pool) {}

  Result<SourceTensor> take(const std::string& name, std::span<const int64_t> shape,
                            Fill fill) override {
    return inner_->take(name, shape, fill);
  }
  Result<SourceTensor> take_matrix(const MatrixRequest& request) override {
    OCTAVO_TRY(SourceTensor tensor, inner_->take_matrix(request));
    const auto format = format_for(plan_.method, request.use, request.num_cols);
    if (!format) {
      if (group_of(request.num_cols) == 0) {
        log::warning(log::Source::kEngineCore,
                     "{} is not packed: its rows of {} are no multiple of 32", request.module,
                     request.num_cols);
      }
      return tensor;
    }
    return quantise(tensor, request.num_rows, request.num_cols, *format, request.module, pool_);
  }
  Status check_all_taken(int64_t num_layers, bool tied) override {
    return inner_->check_all_taken(num_layers, tied);
  }
  void drop_pages() override { inner_->drop_pages(); }
  std::string hash() const override {
    Manifest manifest;  // other weights, so other blocks of the cache
    manifest.add(inner_->hash(), plan_.name(), {}, {});
    return manifest.hash();
  }

 private:
  std::unique_ptr<WeightSource> inner_;
  Quantization plan_;
  device::ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<WeightSource> make_online_source(std::unique_ptr<WeightSource> inner,
                                                 const Quantization& plan,
                                                 device::ThreadPool& pool) {
  return std::make_unique<OnlineSource>(std::move(inner), plan, pool);
}

}  // namespace octavo::model
