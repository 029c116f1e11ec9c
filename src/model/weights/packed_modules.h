#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/weights/weight_source.h"

namespace octavo::model {

/// The tensors of one quantised module [num_rows, num_cols], found and checked by their suffix.
/// What is looked at counts as taken. Errors name file and tensor.
class PackedModule {
 public:
  enum class Kind { kNone, kGptq, kAwq, kPackedInts, kInt8, kF8 };

  PackedModule(const MatrixRequest& request, const Quantization& plan,
               const checkpoint::Checkpoint& checkpoint, WeightSource& source,
               device::ThreadPool& pool)
      : request_(request), plan_(plan), checkpoint_(checkpoint), source_(source), pool_(pool) {}

  /// By which tensors there are; kNone: the module is not quantised.
  Kind kind() const;

  const MatrixRequest& request() const { return request_; }
  const Quantization& plan() const { return plan_; }
  device::ThreadPool& pool() const { return pool_; }
  int64_t num_rows() const { return request_.num_rows; }
  int64_t num_cols() const { return request_.num_cols; }

  /// The tensor `<module>.<suffix>`, or nullptr.
  const checkpoint::Tensor* find(std::string_view suffix) const;
  Result<const checkpoint::Tensor*> require(std::string_view suffix) const;
  /// The same of this type and shape.
  Result<const checkpoint::Tensor*> require(std::string_view suffix, checkpoint::TensorType type,
                                            std::initializer_list<int64_t> shape) const;
  /// Values of a float tensor, all of them finite.
  Result<std::vector<float>> read_floats(const checkpoint::Tensor& tensor) const;

  Error error(const checkpoint::Tensor& tensor, std::string_view what) const;

 private:
  std::string name_of(std::string_view suffix) const;

  const MatrixRequest& request_;
  const Quantization& plan_;
  const checkpoint::Checkpoint& checkpoint_;
  WeightSource& source_;
  device::ThreadPool& pool_;
};

/// Integers with scales and zero points: value = scale * (q - zero).
struct AffineMatrix {
  int64_t bits = 4;
  int64_t num_groups = 1;           // of columns, equal in size
  std::vector<float> scales = {};   // [num_rows, num_groups]
  std::vector<uint8_t> zeros = {};  // [num_rows, num_groups]
  /// The file's column that stands at k, where groups lie scattered; empty: k.
  std::vector<int32_t> col_order = {};
  /// Writes the q of rows [row, row + count) in the file's order of columns: [count, num_cols].
  /// `row` is a multiple of 16, `count` at most 16.
  std::function<void(int64_t row, int64_t count, uint8_t* q)> unpack = {};
};
/// Turns it into I4G* or I8G*, of the largest group that the file's groups allow.
Result<SourceTensor> pack_affine(const PackedModule& module, const checkpoint::Tensor& weight,
                                 AffineMatrix matrix);

/// Columns sorted by the group that `g_idx` gives each; empty where they are already. An error
/// unless every one of the groups has as many columns.
Result<std::vector<int32_t>> read_col_order(const PackedModule& module,
                                            const checkpoint::Tensor& g_idx, int64_t num_groups);

/// Element `index` of a tensor of I32.
uint32_t load_word(const checkpoint::Tensor& tensor, int64_t index);

// One reader for each kind; the layouts are described with them.
Result<SourceTensor> read_gptq(const PackedModule& module);
Result<SourceTensor> read_awq(const PackedModule& module);
Result<SourceTensor> read_packed_ints(const PackedModule& module);
Result<SourceTensor> read_int8(const PackedModule& module);
Result<SourceTensor> read_f8(const PackedModule& module);

}  // namespace octavo::model
