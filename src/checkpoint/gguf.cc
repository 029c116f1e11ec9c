#include "checkpoint/gguf.h"

#include <array>
#include <unordered_set>

#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_reader.h"
#include "checkpoint/layout.h"
#include "checkpoint/quote.h"

namespace octavo::checkpoint {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;  // limit we chose; files use 32
constexpr uint64_t kMaxNameBytes = 64;       // GGML_MAX_NAME
// Least bytes of one entry on disk: a huge count is refused before anything is allocated for it.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct GgmlType {
  uint32_t number;
  std::string_view name;
};

// enum ggml_type of ggml.h.
constexpr auto kGgmlTypes = std::to_array<GgmlType>({
    {0, "F32"},     {1, "F16"},    {2, "Q4_0"},     {3, "Q4_1"},    {6, "Q5_0"},     {7, "Q5_1"},
    {8, "Q8_0"},    {9, "Q8_1"},   {10, "Q2_K"},    {11, "Q3_K"},   {12, "Q4_K"},    {13, "Q5_K"},
    {14, "Q6_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {30, "BF16"},    {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"},
});

std::string ggml_name(uint32_t number) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.number == number) return std::string(type.name);
  }
  return fmt::format("number {}", number);
}

struct ReadableType {
  uint32_t number;
  TensorType type;
};
constexpr auto kReadableTypes = std::to_array<ReadableType>({
    {0, TensorType::kF32},
    {1, TensorType::kF16},
    {30, TensorType::kBF16},
    {8, TensorType::kQ8_0},
    {2, TensorType::kQ4_0},
    {3, TensorType::kQ4_1},
    {6, TensorType::kQ5_0},
    {7, TensorType::kQ5_1},
    {12, TensorType::kQ4_K},
    {13, TensorType::kQ5_K},
    {14, TensorType::kQ6_K},
});

std::optional<TensorType> readable_type(uint32_t number) {
  for (const ReadableType& row : kReadableTypes) {
    if (row.number == number) return row.type;
  }
  return std::nullopt;
}

/// "F32, F16, ... and Q6_K"
std::string readable_names() {
  std::string names;
  for (size_t i = 0; i < kReadableTypes.size(); ++i) {
    if (i > 0) names += i + 1 == kReadableTypes.size() ? " and " : ", ";
    names += name_of(kReadableTypes[i].type);
  }
  return names;
}

/// A tensor as its info block describes it; `relative` counts from the data section.
struct TensorInfo {
  Tensor tensor;
  uint64_t relative = 0;
  uint64_t size_bytes = 0;
  uint64_t info_offset = 0;
};

Result<std::vector<int64_t>> read_shape(ByteReader& in, std::string_view what) {
  const uint64_t offset = in.offset();
  OCTAVO_TRY(const uint32_t num_dims, in.read<uint32_t>(what));
  if (num_dims == 0 || num_dims > kMaxDims) {
    return in.error("{} at offset {} has {} dimensions, allowed are 1 to {}", what, offset,
                    num_dims, kMaxDims);
  }
  // The file lists the innermost dimension first.
  std::vector<int64_t> shape(num_dims);
  for (size_t i = num_dims; i-- > 0;) {
    OCTAVO_TRY(shape[i], in.read<int64_t>(what));
    if (shape[i] <= 0) {
      return in.error("{} at offset {} has the dimension {}", what, in.offset() - sizeof(int64_t),
                      static_cast<uint64_t>(shape[i]));
    }
  }
  return shape;
}

Result<TensorInfo> read_tensor_info(ByteReader& in) {
  TensorInfo info;
  info.info_offset = in.offset();
  OCTAVO_TRY(const std::string_view name, in.read_string("tensor name"));
  if (name.empty() || name.size() >= kMaxNameBytes) {
    return in.error("tensor name {} at offset {} has {} bytes, allowed are 1 to {}", quote(name),
                    info.info_offset, name.size(), kMaxNameBytes - 1);
  }
  info.tensor.name = name;
  const std::string what = "tensor " + quote(name);
  OCTAVO_TRY(info.tensor.shape, read_shape(in, what));
  OCTAVO_TRY(const uint32_t number, in.read<uint32_t>(what));
  OCTAVO_TRY(info.relative, in.read<uint64_t>(what));
  const auto type = readable_type(number);
  if (!type) {
    return in.unsupported("{} at offset {} has type {}, which cannot be read; {} can", what,
                          info.info_offset, ggml_name(number), readable_names());
  }
  info.tensor.type = *type;
  const auto size_bytes = size_bytes_of(*type, info.tensor.shape);
  if (!size_bytes) {
    return in.error("{} at offset {}: shape [{}] is too large or no whole blocks of {}", what,
                    info.info_offset, fmt::join(info.tensor.shape, ", "), name_of(*type));
  }
  info.size_bytes = *size_bytes;
  return info;
}

Result<uint64_t> alignment_of(const MetadataObject& metadata, const ByteReader& in) {
  const auto it = metadata.find("general.alignment");
  if (it == metadata.end()) return kDefaultAlignment;
  const auto value = it->second.as_int();
  if (!value || *value < 1 || static_cast<uint64_t>(*value) > kMaxAlignment ||
      (*value & (*value - 1)) != 0) {
    return in.error(
        "metadata 'general.alignment' (before offset {}) is {}, allowed are powers of two up to {}",
        in.offset(), value ? std::to_string(*value) : "no integer", kMaxAlignment);
  }
  return static_cast<uint64_t>(*value);
}

/// Turns relative into absolute places and checks that they lie in the file.
Status place_tensor(const ByteReader& in, std::span<const std::byte> file, uint64_t data_offset,
                    uint64_t alignment, TensorInfo& info) {
  const std::string what = "tensor " + quote(info.tensor.name);
  if (info.relative % alignment != 0) {
    return in.error("{} at offset {}: its data offset {} is no multiple of the alignment {}", what,
                    info.info_offset, info.relative, alignment);
  }
  const uint64_t available = file.size() - data_offset;
  if (info.relative > available || info.size_bytes > available - info.relative) {
    return in.error("{}: {} bytes at offset {} + {} lie beyond the end of the file at {}", what,
                    info.size_bytes, data_offset, info.relative, file.size());
  }
  info.tensor.offset = data_offset + info.relative;
  info.tensor.data = file.subspan(info.tensor.offset, info.size_bytes);
  info.tensor.file = in.name();
  return {};
}

struct Header {
  uint64_t num_tensors = 0;
  uint64_t num_pairs = 0;
};

Result<Header> read_header(ByteReader& in, std::span<const std::byte> file) {
  if (!has_gguf_magic(file)) return in.error("no GGUF magic at offset 0");
  OCTAVO_TRY([[maybe_unused]] const uint32_t magic, in.read<uint32_t>("the magic"));
  OCTAVO_TRY(const uint32_t version, in.read<uint32_t>("the version"));
  if (version != 0 && (version & 0xffff) == 0) {
    return in.unsupported(
        "a big-endian GGUF file (version field {:#010x} at offset 4) cannot be read", version);
  }
  if (version != 2 && version != 3) {
    return in.unsupported("GGUF version {} at offset 4 cannot be read; 2 and 3 can", version);
  }
  Header header;
  OCTAVO_TRY(header.num_tensors, in.read<uint64_t>("the tensor count"));
  OCTAVO_TRY(header.num_pairs, in.read<uint64_t>("the metadata count"));
  if (header.num_tensors > in.num_remaining() / kMinTensorInfoBytes) {
    return in.error("{} tensors (count at offset 8) do not fit a file of {} bytes",
                    header.num_tensors, file.size());
  }
  if (header.num_pairs > in.num_remaining() / kMinPairBytes) {
    return in.error("{} metadata entries (count at offset 16) do not fit a file of {} bytes",
                    header.num_pairs, file.size());
  }
  return header;
}

Result<std::vector<Tensor>> read_tensors(ByteReader& in, std::span<const std::byte> file,
                                         uint64_t count, uint64_t alignment) {
  std::vector<TensorInfo> infos;
  infos.reserve(count);
  std::unordered_set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    OCTAVO_TRY(TensorInfo info, read_tensor_info(in));
    infos.push_back(std::move(info));
    if (!names.insert(infos.back().tensor.name).second) {
      return in.error("tensor {} at offset {} stands there twice", quote(infos.back().tensor.name),
                      infos.back().info_offset);
    }
  }
  const uint64_t data_offset = (in.offset() + alignment - 1) / alignment * alignment;
  if (data_offset > file.size() && count != 0) return in.truncated("the padding before the data");
  std::vector<Tensor> tensors;
  tensors.reserve(count);
  for (TensorInfo& info : infos) {
    OCTAVO_TRY(place_tensor(in, file, data_offset, alignment, info));
    tensors.push_back(std::move(info.tensor));
  }
  OCTAVO_TRY(sort_and_check_overlap(tensors, in.name()));
  return tensors;
}

}  // namespace

bool has_gguf_magic(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<GgufContents> parse_gguf(std::span<const std::byte> file, std::string_view name,
                                bool with_tensors) {
  ByteReader in(file, name);
  OCTAVO_TRY(const Header header, read_header(in, file));
  OCTAVO_TRY(MetadataObject metadata, read_gguf_metadata(in, header.num_pairs));
  OCTAVO_TRY(const uint64_t alignment, alignment_of(metadata, in));
  GgufContents contents;
  contents.metadata = Metadata(std::make_shared<MetadataObject>(std::move(metadata)));
  if (with_tensors) {
    OCTAVO_TRY(contents.tensors, read_tensors(in, file, header.num_tensors, alignment));
  }
  return contents;
}

}  // namespace octavo::checkpoint
