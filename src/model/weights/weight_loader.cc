#include "model/weights/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "device/roofs.h"

namespace octavo::model {
namespace {

/// "model.layers.{}.x" and 3 give "model.layers.3.x".
std::string with_layer(std::string_view pattern, int64_t layer) {
  const size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + 2));
}

/// A matrix of elements of type T on its other side.
template <class T>
void transpose(const std::byte* from, std::byte* to, int64_t num_rows, int64_t num_cols) {
  const auto* in = reinterpret_cast<const T*>(from);  // [num_cols, num_rows]
  auto* out = reinterpret_cast<T*>(to);               // [num_rows, num_cols]
  constexpr int64_t kTile = 32;                       // both sides of a tile stay in L1
  for (int64_t row0 = 0; row0 < num_rows; row0 += kTile) {
    for (int64_t col = 0; col < num_cols; ++col) {
      const int64_t end = std::min(row0 + kTile, num_rows);
      for (int64_t row = row0; row < end; ++row)
        out[row * num_cols + col] = in[col * num_rows + row];
    }
  }
}

}  // namespace

Result<std::string> WeightLoader::tensor_name(Target target, int part, int64_t layer,
                                              std::string_view suffix) const {
  for (const WeightName& row : context_.architecture.weight_names) {
    if (row.target != target || row.part != part) continue;
    return with_layer(context_.is_gguf ? row.gguf : row.hf, layer) + std::string(suffix);
  }
  return Error{Code::kInternal, fmt::format("{} has no name for weight {} part {}",
                                            context_.architecture.name, int(target), part)};
}

bool WeightLoader::is_fused(Target target) const {
  return std::ranges::any_of(context_.architecture.weight_names, [&](const WeightName& row) {
    return row.target == target && row.part == kFused;
  });
}

bool WeightLoader::is_transposed(Target target, int part) const {
  return !context_.is_gguf &&
         std::ranges::any_of(context_.architecture.weight_names, [&](const WeightName& row) {
           return row.target == target && row.part == part && row.hf_transposed;
         });
}

Result<SourceTensor> WeightLoader::take_matrix(Target target, int part, int64_t layer,
                                               int64_t num_rows, int64_t num_cols) {
  if (!is_transposed(target, part)) {
    OCTAVO_TRY(std::string module, tensor_name(target, part, layer, ""));
    return context_.source.take_matrix({std::move(module), num_rows, num_cols, use_of(target)});
  }
  OCTAVO_TRY(const std::string name, tensor_name(target, part, layer, ".weight"));
  const std::array<int64_t, 2> shape{num_cols, num_rows};
  OCTAVO_TRY(SourceTensor tensor, context_.source.take(name, shape, Fill::kRandom));
  if (is_quantised(tensor.format)) {
    return Error{Code::kUnsupported,
                 name + " is quantised along its outputs, which octavo cannot run"};
  }
  SourceTensor turned;
  turned.format = tensor.format;
  const size_t row_bytes = kernels::row_bytes(tensor.format, num_cols);
  OCTAVO_TRY(turned.owned, device::Buffer::create(size_t(num_rows) * row_bytes, true));
  turned.data = turned.owned.data();
  const bool is_f32 = tensor.format == kernels::WeightFormat::kF32;
  (is_f32 ? transpose<uint32_t> : transpose<uint16_t>)(tensor.data, turned.owned.data(), num_rows,
                                                       num_cols);
  return turned;
}

MatrixUse WeightLoader::use_of(Target target) const {
  if (target == Target::kLmHead) return MatrixUse::kHead;
  if (target != Target::kEmbedding) return MatrixUse::kLinear;
  return context_.config.tie_word_embeddings ? MatrixUse::kHead : MatrixUse::kTable;
}

std::vector<WeightLoader::FilePart> WeightLoader::file_parts(
    Target target, const std::vector<int64_t>& part_rows) const {
  if (is_fused(target)) {
    return {{kFused, std::accumulate(part_rows.begin(), part_rows.end(), int64_t{0})}};
  }
  std::vector<FilePart> parts;
  parts.reserve(part_rows.size());
  for (const int64_t num_rows : part_rows) parts.push_back({int(parts.size()), num_rows});
  return parts;
}

std::vector<int32_t> WeightLoader::row_order(Target target, int part, int64_t num_rows,
                                             std::span<const int32_t> rows) const {
  if (!rows.empty()) {  // of gate and up; one tensor may hold both
    const auto size = int64_t(rows.size());
    std::vector<int32_t> order;
    for (int64_t row = 0; row < num_rows; ++row) {
      order.push_back(int32_t(row / size * size) + rows[size_t(row % size)]);
    }
    return order;
  }
  // A family whose GGUF files interleave has its q and k apart there.
  const bool is_rotated = target == Target::kQkvProj && (part == 0 || part == 1);
  if (!context_.is_gguf || !context_.architecture.gguf_interleaves_rope || !is_rotated) return {};
  const int64_t head_dim = context_.config.head_dim;
  std::vector<int32_t> order(static_cast<size_t>(num_rows));
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t head = row / head_dim;
    const int64_t half = (row % head_dim) / (head_dim / 2);
    const int64_t pair = row % (head_dim / 2);
    order[size_t(row)] = int32_t(head * head_dim + 2 * pair + half);
  }
  return order;
}

Result<kernels::PackedMatrix> WeightLoader::pack(std::span<const kernels::WeightPart> parts,
                                                 int64_t num_cols, kernels::WeightFormat format) {
  const double start_s = device::now_seconds(/*cpu_time=*/false);
  auto matrix = kernels::PackedMatrix::create(kernels_, parts, num_cols, format,
                                              context_.dtype.arithmetic, &arena_);
  packing_s_ += device::now_seconds(/*cpu_time=*/false) - start_s;
  return matrix;
}

Result<kernels::PackedMatrix> WeightLoader::load_matrix(Target target, int64_t layer,
                                                        int64_t num_rows, int64_t num_cols) {
  OCTAVO_TRY(const SourceTensor tensor, take_matrix(target, 0, layer, num_rows, num_cols));
  const kernels::WeightPart part{tensor.data, tensor.format, num_rows, {}};
  OCTAVO_TRY(kernels::PackedMatrix matrix,
             pack({&part, 1}, num_cols, context_.dtype.packed_format(tensor.format)));
  if (target == Target::kEmbedding && !tensor.col_order.empty()) {
    return Error{Code::kUnsupported,
                 fmt::format("{}: the embedding has its columns in another order (act-order), "
                             "which octavo does not read",
                             context_.config.architecture)};
  }
  OCTAVO_TRY(matrix.set_col_order(tensor.col_order));
  return matrix;
}

Result<Linear> WeightLoader::load_linear(Target target, int64_t layer,
                                         std::vector<int64_t> part_rows, int64_t num_cols,
                                         bool has_bias, Split split,
                                         std::span<const int32_t> rows) {
  std::vector<SourceTensor> tensors;  // owns dummy data until it is packed
  std::vector<kernels::WeightPart> parts;
  for (const auto& [part, num_rows] : file_parts(target, part_rows)) {
    OCTAVO_TRY(SourceTensor tensor, take_matrix(target, part, layer, num_rows, num_cols));
    parts.push_back(
        {tensor.data, tensor.format, num_rows, row_order(target, part, num_rows, rows)});
    tensors.push_back(std::move(tensor));
  }
  const auto packed_format = [&](size_t i) {
    return context_.dtype.packed_format(parts[i].format);
  };
  std::vector<kernels::PackedMatrix> matrices;
  for (size_t begin = 0; begin < parts.size();) {
    size_t end = begin + 1;
    // Up must begin where a panel of rows does.
    const bool may_join =
        target != Target::kGateUpProj || parts[begin].num_rows % kernels::kRowAlignment == 0;
    while (may_join && end < parts.size() && packed_format(end) == packed_format(begin) &&
           tensors[end].col_order == tensors[begin].col_order) {
      ++end;
    }
    OCTAVO_TRY(kernels::PackedMatrix matrix,
               pack(std::span(parts).subspan(begin, end - begin), num_cols, packed_format(begin)));
    OCTAVO_TRY(matrix.set_col_order(std::move(tensors[begin].col_order)));
    bytes_by_format_[size_t(matrix.format())] += matrix.size_bytes();
    matrices.push_back(std::move(matrix));
    begin = end;
  }
  std::vector<float> bias;
  if (has_bias) {
    OCTAVO_TRY(bias, load_bias(target, layer, part_rows, rows));
  }
  return Linear(std::move(matrices), std::move(bias),
                LinearPlacement{split, context_.communicator});
}

Result<std::vector<float>> WeightLoader::load_bias(Target target, int64_t layer,
                                                   const std::vector<int64_t>& part_rows,
                                                   std::span<const int32_t> rows) {
  std::vector<float> bias;
  for (const auto& [part, num_rows] : file_parts(target, part_rows)) {
    OCTAVO_TRY(const std::string name, tensor_name(target, part, layer, ".bias"));
    const std::array<int64_t, 1> shape{num_rows};
    OCTAVO_TRY(const SourceTensor tensor, context_.source.take(name, shape, Fill::kRandom));
    OCTAVO_TRY(const std::vector<float> stored, to_f32(tensor, num_rows, name));
    const std::vector<int32_t> order = row_order(target, part, num_rows, rows);
    for (size_t row = 0; row < stored.size(); ++row) {
      bias.push_back(order.empty() ? stored[row] : stored[size_t(order[row])]);
    }
  }
  return bias;
}

Result<RmsNorm> WeightLoader::load_norm(Target target, int64_t layer, int64_t size) {
  OCTAVO_TRY(const std::string name, tensor_name(target, 0, layer, ".weight"));
  const std::array<int64_t, 1> shape{size};
  OCTAVO_TRY(const SourceTensor tensor, context_.source.take(name, shape, Fill::kOnes));
  OCTAVO_TRY(std::vector<float> weight, to_f32(tensor, size, name));
  return RmsNorm(std::move(weight), context_.config.norm_eps);
}

kernels::WeightFormat WeightLoader::main_format() const {
  const auto most = std::max_element(bytes_by_format_.begin(), bytes_by_format_.end());
  return kernels::WeightFormat(most - bytes_by_format_.begin());
}

}  // namespace octavo::model
