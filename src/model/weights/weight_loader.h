#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/architectures/architecture.h"
#include "model/layers/linear.h"
#include "model/layers/rms_norm.h"
#include "model/weights/dtype_plan.h"
#include "model/weights/weight_source.h"

namespace octavo::model {

/// Turns a family's tensors into packed layers: finds them by its table of names, checks shapes,
/// stacks parts, undoes GGUF's order of rotary rows, converts as `--dtype` asks.
class WeightLoader {
 public:
  struct Context {
    const Architecture& architecture;
    const DecoderConfig& config;
    DTypePlan dtype;
    WeightSource& source;
    bool is_gguf = false;
    Communicator* communicator = nullptr;
  };
  WeightLoader(Context context, const kernels::KernelContext& kernels)
      : context_(context), kernels_(kernels) {}

  /// One matrix of its own. `layer` is -1 outside the layers.
  Result<kernels::PackedMatrix> load_matrix(Target target, int64_t layer, int64_t num_rows,
                                            int64_t num_cols);
  /// Parts stacked in order, `part_rows` rows each. `rows`: row i of each part is the file's
  /// rows[i]; empty: i.
  Result<Linear> load_linear(Target target, int64_t layer, std::vector<int64_t> part_rows,
                             int64_t num_cols, bool has_bias, Split split,
                             std::span<const int32_t> rows = {});
  Result<RmsNorm> load_norm(Target target, int64_t layer, int64_t size);

  /// The format of most bytes of the linear layers so far.
  kernels::WeightFormat main_format() const;
  /// Seconds in which matrices were packed so far.
  double packing_s() const { return packing_s_; }

 private:
  Result<kernels::PackedMatrix> pack(std::span<const kernels::WeightPart> parts, int64_t num_cols,
                                     kernels::WeightFormat format);
  /// A matrix as the kernels read it, [num_rows, num_cols], whichever way the file has it.
  Result<SourceTensor> take_matrix(Target target, int part, int64_t layer, int64_t num_rows,
                                   int64_t num_cols);
  Result<std::string> tensor_name(Target target, int part, int64_t layer,
                                  std::string_view suffix) const;
  bool is_transposed(Target target, int part) const;
  MatrixUse use_of(Target target) const;
  /// Whether the family's files hold the parts of `target` in one tensor.
  bool is_fused(Target target) const;
  /// Parts as the files hold them: those of the model, or all of them in one (part kFused).
  struct FilePart {
    int part;
    int64_t num_rows;
  };
  std::vector<FilePart> file_parts(Target target, const std::vector<int64_t>& part_rows) const;
  /// Order of the rows that is asked for, or that turns interleaved rotary pairs into halves; empty
  /// where the file has them in order.
  std::vector<int32_t> row_order(Target target, int part, int64_t num_rows,
                                 std::span<const int32_t> rows) const;
  Result<std::vector<float>> load_bias(Target target, int64_t layer,
                                       const std::vector<int64_t>& part_rows,
                                       std::span<const int32_t> rows);

  Context context_;
  const kernels::KernelContext& kernels_;
  device::Arena arena_;  // of all matrices
  std::array<size_t, kernels::kWeightFormatCount> bytes_by_format_{};
  double packing_s_ = 0;
};

}  // namespace octavo::model
