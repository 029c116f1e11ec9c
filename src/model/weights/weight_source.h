#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/memory.h"
#include "device/thread_pool.h"
#include "kernels/linear/linear.h"
#include "model/weights/quantization.h"

namespace octavo::model {

/// A tensor as it lies in its file (or in `owned`), row-major.
struct SourceTensor {
  const std::byte* data = nullptr;
  kernels::WeightFormat format = kernels::WeightFormat::kF32;
  device::Buffer owned;
  /// Column k of a matrix is multiplied with input col_order[k]; empty: with input k.
  std::vector<int32_t> col_order = {};
};

/// What dummy weights of a tensor look like; files ignore it.
enum class Fill { kRandom, kOnes };

/// What a matrix is for: a layer's product, the product of the logits, or rows that are only
/// looked up.
enum class MatrixUse { kLinear, kHead, kTable };

/// A matrix [num_rows, num_cols] of the module `module` ("model.layers.0.mlp.up_proj").
struct MatrixRequest {
  std::string module;
  int64_t num_rows = 0;
  int64_t num_cols = 0;
  MatrixUse use = MatrixUse::kLinear;
};

/// Where weights come from. Remembers what was taken: for the hash, and to find what was not.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Error with file and tensor when it is missing or has another shape.
  virtual Result<SourceTensor> take(const std::string& name, std::span<const int64_t> shape,
                                    Fill fill) = 0;
  /// The same for a matrix, in whatever form the source has it: "<module>.weight", or what a
  /// quantised checkpoint holds instead.
  virtual Result<SourceTensor> take_matrix(const MatrixRequest& request);
  /// A tensor of the file that was read in another way.
  virtual void mark_taken(const checkpoint::Tensor&) {}
  /// Tensors of the file that nobody took: an error inside one of the `num_layers` layers (the
  /// model would compute something else without them), elsewhere a warning that names them.
  virtual Status check_all_taken(int64_t num_layers, bool tied) = 0;
  /// Packed tensors need their pages no more.
  virtual void drop_pages() {}

  /// SHA-256 over name, type, shape, size and some values of every tensor taken, hex.
  virtual std::string hash() const = 0;
};

std::unique_ptr<WeightSource> make_checkpoint_source(const checkpoint::Checkpoint& checkpoint);
/// `--load-format dummy`: values uniform with standard deviation 0.02 that depend on seed, tensor
/// name and place alone; `format` is F32 or BF16.
std::unique_ptr<WeightSource> make_dummy_source(uint64_t seed, kernels::WeightFormat format,
                                                device::ThreadPool& pool);

/// A checkpoint whose own method is gptq, awq, compressed-tensors or fp8; `inner` gives what is not
/// quantised, and remembers.
std::unique_ptr<WeightSource> make_packed_source(std::unique_ptr<WeightSource> inner,
                                                 const Quantization& plan,
                                                 const checkpoint::Checkpoint& checkpoint,
                                                 device::ThreadPool& pool);
/// `--quantization` of an unquantised checkpoint: packs the matrices that `inner` gives.
std::unique_ptr<WeightSource> make_online_source(std::unique_ptr<WeightSource> inner,
                                                 const Quantization& plan,
                                                 device::ThreadPool& pool);

/// Values of an unquantised tensor as f32.
Result<std::vector<float>> to_f32(const SourceTensor& tensor, int64_t count,
                                  const std::string& name);

}  // namespace octavo::model
