#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/linear/convert.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_params.h"

namespace octavo::kernels {
namespace {

static_assert(static_cast<int>(WeightFormat::kQ5_0) == kIndexQ5_0 &&
              static_cast<int>(WeightFormat::kQ6_K) == kIndexQ6_K &&
              static_cast<int>(WeightFormat::kI4G32) == kIndexI4G32 &&
              static_cast<int>(WeightFormat::kI8G32) == kIndexI8G32 &&
              static_cast<int>(WeightFormat::kF8G32) == kIndexF8G32 &&
              kWeightFormatCount == kNumWeightFormats);

struct FormatInfo {
  std::string_view name;
  int64_t elements;  // of a block
  size_t bytes;
};
// In the order of WeightFormat; block sizes of GGUF's formats: ggml-common.h.
constexpr FormatInfo kFormats[] = {
    {"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},     {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
    {"Q4_K", 256, 144},   {"Q5_K", 256, 176},  {"Q6_K", 256, 210}, {"I4G32", 32, 22},
    {"I4G64", 64, 38},    {"I4G128", 128, 70}, {"I8G32", 32, 38},  {"I8G64", 64, 70},
    {"I8G128", 128, 134}, {"F8G32", 32, 36},   {"F8G64", 64, 68},  {"F8G128", 128, 132},
};
static_assert(std::size(kFormats) == kWeightFormatCount);

const FormatInfo& info_of(WeightFormat format) { return kFormats[static_cast<size_t>(format)]; }

bool is_block_format(WeightFormat format) { return block_elements(format) > 1; }

/// What a task packs. Of a large matrix it is a huge page: two threads that touch one at the same
/// time would both clear all of it, and the clearing takes as long as the packing.
constexpr size_t kSmallTaskBytes = size_t{256} << 10;

/// Bytes of one row in a panel, K padded as the kernels need it.
size_t packed_row_bytes(WeightFormat format, int64_t num_cols) {
  return row_bytes(format, format == WeightFormat::kBF16 ? (num_cols + 1) / 2 * 2 : num_cols);
}

/// The sixteen source rows of a panel; nullptr is padding.
struct PanelRows {
  const std::byte* data[kPanelRows] = {};
  WeightFormat format[kPanelRows] = {};
};

using FourWords = uint32_t __attribute__((vector_size(16)));

/// Four words of each of four rows: word i of row r goes to out + 4 * kPanelRows * i + 4 * r.
void transpose_four(std::byte* out, const std::byte* const* rows, size_t at) {
  FourWords a, b, c, d;
  std::memcpy(&a, rows[0] + at, 16);
  std::memcpy(&b, rows[1] + at, 16);
  std::memcpy(&c, rows[2] + at, 16);
  std::memcpy(&d, rows[3] + at, 16);
  const FourWords ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const FourWords ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourWords cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const FourWords words[4] = {
      __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
      __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
  for (size_t i = 0; i < 4; ++i) std::memcpy(out + 4 * i * kPanelRows, &words[i], 16);
}

/// 4-byte words of 16 rows side by side: the transposition all block formats and bf16 share.
void interleave_words(std::byte* out, const std::byte* const* rows, size_t num_words) {
  // A cache line of four rows at a time: rows of 4 KiB lie in one set of L1, which 16 would evict.
  constexpr size_t kLineWords = 16;
  const size_t whole = num_words / 4 * 4;
  for (size_t line = 0; line < whole; line += kLineWords) {
    const size_t end = std::min(line + kLineWords, whole);
    for (int r = 0; r < kPanelRows; r += 4) {
      for (size_t w = line; w < end; w += 4) {
        transpose_four(out + 4 * (w * kPanelRows + static_cast<size_t>(r)), rows + r, 4 * w);
      }
    }
  }
  for (size_t w = whole; w < num_words; ++w) {
    for (int r = 0; r < kPanelRows; ++r) {
      std::memcpy(out + 4 * (w * kPanelRows + static_cast<size_t>(r)), rows[r] + 4 * w, 4);
    }
  }
}

/// Blocks of `scales` 16-bit numbers and `words` words of quants; `flip` makes s8 quants u8.
template <size_t kScales, size_t kWords, bool kFlip>
void pack_blocks(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  constexpr size_t kFileBytes = 2 * kScales + 4 * kWords;
  static constexpr std::byte kZeros[kFileBytes] = {};
  for (int64_t b = 0; b < num_cols / kQuantBlock; ++b) {
    const std::byte* quants[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* const block =
          rows.data[r] == nullptr ? kZeros : rows.data[r] + static_cast<size_t>(b) * kFileBytes;
      for (size_t s = 0; s < kScales; ++s) {
        std::memcpy(out + (s * kPanelRows + static_cast<size_t>(r)) * 2, block + 2 * s, 2);
      }
      quants[r] = block + 2 * kScales;
    }
    out += 2 * kScales * kPanelRows;
    interleave_words(out, quants, kWords);
    if constexpr (kFlip) {
      for (size_t i = 0; i < 4 * kWords * kPanelRows; ++i) out[i] ^= std::byte{0x80};
    }
    out += 4 * kWords * kPanelRows;
  }
}

/// The blocks of 16 rows from `block` on; padding is zeros.
struct BlockRows {
  const std::byte* row[kPanelRows];

  template <size_t kFileBytes>
  static BlockRows of(const PanelRows& rows, int64_t block) {
    static constexpr std::byte kZeros[kFileBytes] = {};
    BlockRows blocks;
    for (int r = 0; r < kPanelRows; ++r) {
      blocks.row[r] =
          rows.data[r] == nullptr ? kZeros : rows.data[r] + static_cast<size_t>(block) * kFileBytes;
    }
    return blocks;
  }

  /// 16-bit numbers at `at`, side by side. Returns the end of what was written.
  std::byte* halves(std::byte* out, size_t at) const {
    for (int64_t r = 0; r < kPanelRows; ++r) std::memcpy(out + 2 * r, row[r] + at, 2);
    return out + int64_t{2} * kPanelRows;
  }
  /// Pairs of bytes at `at`.
  std::byte* byte_pairs(std::byte* out, size_t at, size_t count) const {
    for (size_t i = 0; i < count; ++i) out = halves(out, at + 2 * i);
    return out;
  }
  std::byte* words(std::byte* out, size_t at, size_t count) const {
    const std::byte* from[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) from[r] = row[r] + at;
    interleave_words(out, from, count);
    return out + int64_t{4} * kPanelRows * count;
  }
};

/// Bit i of the file (the fifth bit of element i = 4g + j) goes to bit 8j + g.
uint32_t spread_fifth_bits(uint32_t bits) {
  uint32_t spread = 0;
  for (uint32_t g = 0; g < 8; ++g) {
    // The product has four copies of the nibble, 7 bits apart: bit j of copy j is bit 8j.
    spread |= ((bits >> (4 * g) & 15) * 0x00204081u & 0x01010101u) << g;
  }
  return spread;
}

template <size_t kScales>
void pack_q5(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  for (int64_t b = 0; b < num_cols / kQuantBlock; ++b) {
    const BlockRows blocks = BlockRows::of<2 * kScales + 4 + 16>(rows, b);
    for (size_t s = 0; s < kScales; ++s) out = blocks.halves(out, 2 * s);
    for (int r = 0; r < kPanelRows; ++r, out += 4) {
      uint32_t bits;
      std::memcpy(&bits, blocks.row[r] + 2 * kScales, 4);
      bits = spread_fifth_bits(bits);
      std::memcpy(out, &bits, 4);
    }
    out = blocks.words(out, 2 * kScales + 4, 4);
  }
}

/// Q4_K and Q5_K: d, dmin, then words in the file's order.
template <size_t kWords>
void pack_q45k(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  for (int64_t b = 0; b < num_cols / kSuperBlock; ++b) {
    const BlockRows blocks = BlockRows::of<4 + 4 * kWords>(rows, b);
    out = blocks.halves(out, 0);
    out = blocks.halves(out, 2);
    out = blocks.words(out, 4, kWords);
  }
}

/// The file has low nibbles (128 bytes), upper bits (64), scales (16), d.
void pack_q6k(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  for (int64_t b = 0; b < num_cols / kSuperBlock; ++b) {
    const BlockRows blocks = BlockRows::of<210>(rows, b);
    out = blocks.halves(out, 208);
    out = blocks.words(out, 192, 4);
    out = blocks.words(out, 0, 48);
  }
}

/// A group: d, z, words of quants.
template <size_t kWords, int64_t kGroup>
void pack_affine(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  for (int64_t b = 0; b < num_cols / kGroup; ++b) {
    const BlockRows blocks = BlockRows::of<6 + 4 * kWords>(rows, b);
    out = blocks.words(out, 0, 1);
    out = blocks.halves(out, 4);
    out = blocks.words(out, 6, kWords);
  }
}

/// A group: d, codes.
template <int64_t kGroup>
void pack_f8(std::byte* out, const PanelRows& rows, int64_t num_cols) {
  for (int64_t b = 0; b < num_cols / kGroup; ++b) {
    const BlockRows blocks = BlockRows::of<4 + kGroup>(rows, b);
    out = blocks.words(out, 0, 1);
    out = blocks.byte_pairs(out, 4, kGroup / 2);
  }
}

/// Rows whose elements keep their format: F32 word by word, BF16 in pairs.
void pack_words(std::byte* out, const PanelRows& rows, int64_t num_cols, WeightFormat format) {
  const std::byte* sources[kPanelRows];
  const std::vector<std::byte> zeros(row_bytes(format, num_cols));
  for (int r = 0; r < kPanelRows; ++r) {
    sources[r] = rows.data[r] == nullptr ? zeros.data() : rows.data[r];
  }
  const size_t words = zeros.size() / 4;
  interleave_words(out, sources, words);
  if (zeros.size() % 4 != 0) {  // BF16 with an odd last column
    out += words * 4 * kPanelRows;
    for (int64_t r = 0; r < kPanelRows; ++r) std::memcpy(out + 4 * r, sources[r] + 4 * words, 2);
  }
}

/// F16, and every conversion between the three float formats.
void pack_converted(std::byte* out, const PanelRows& rows, int64_t num_cols, WeightFormat format) {
  for (int r = 0; r < kPanelRows; ++r) {
    if (rows.data[r] == nullptr) continue;  // the buffer is zero
    for (int64_t k = 0; k < num_cols; ++k) {
      const float value = load_element(rows.format[r], rows.data[r], k);
      std::byte* to = out;
      switch (format) {
        case WeightFormat::kF32:
          std::memcpy(to + (k * kPanelRows + r) * 4, &value, 4);
          break;
        case WeightFormat::kF16: {
          const uint16_t half = f16_from_float(value);
          std::memcpy(to + (k * kPanelRows + r) * 2, &half, 2);
          break;
        }
        default: {
          const uint16_t half = bf16_from_float(value);
          std::memcpy(to + ((k / 2 * kPanelRows + r) * 2 + k % 2) * 2, &half, 2);
        }
      }
    }
  }
}

void pack_panel(std::byte* out, const PanelRows& rows, int64_t num_cols, WeightFormat format) {
  bool same = true;
  for (int r = 0; r < kPanelRows; ++r) {
    same = same && (rows.data[r] == nullptr || rows.format[r] == format);
  }
  switch (format) {
    case WeightFormat::kQ8_0:
      return pack_blocks<1, 8, true>(out, rows, num_cols);
    case WeightFormat::kQ4_0:
      return pack_blocks<1, 4, false>(out, rows, num_cols);
    case WeightFormat::kQ4_1:
      return pack_blocks<2, 4, false>(out, rows, num_cols);
    case WeightFormat::kQ5_0:
      return pack_q5<1>(out, rows, num_cols);
    case WeightFormat::kQ5_1:
      return pack_q5<2>(out, rows, num_cols);
    case WeightFormat::kQ4_K:
      return pack_q45k<3 + 32>(out, rows, num_cols);
    case WeightFormat::kQ5_K:
      return pack_q45k<3 + 8 + 32>(out, rows, num_cols);
    case WeightFormat::kQ6_K:
      return pack_q6k(out, rows, num_cols);
    case WeightFormat::kI4G32:
      return pack_affine<4, 32>(out, rows, num_cols);
    case WeightFormat::kI4G64:
      return pack_affine<8, 64>(out, rows, num_cols);
    case WeightFormat::kI4G128:
      return pack_affine<16, 128>(out, rows, num_cols);
    case WeightFormat::kI8G32:
      return pack_affine<8, 32>(out, rows, num_cols);
    case WeightFormat::kI8G64:
      return pack_affine<16, 64>(out, rows, num_cols);
    case WeightFormat::kI8G128:
      return pack_affine<32, 128>(out, rows, num_cols);
    case WeightFormat::kF8G32:
      return pack_f8<32>(out, rows, num_cols);
    case WeightFormat::kF8G64:
      return pack_f8<64>(out, rows, num_cols);
    case WeightFormat::kF8G128:
      return pack_f8<128>(out, rows, num_cols);
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      if (same) return pack_words(out, rows, num_cols, format);
      [[fallthrough]];
    default:
      return pack_converted(out, rows, num_cols, format);
  }
}

Status check_parts(std::span<const WeightPart> parts, int64_t num_cols, WeightFormat format) {
  if (num_cols <= 0 || num_cols % block_elements(format) != 0) {
    return Error{Code::kInvalidArgument,
                 "a " + std::string(name_of(format)) + " matrix cannot have " +
                     std::to_string(num_cols) + " columns" +
                     (is_block_format(format)
                          ? "; they must be a multiple of " + std::to_string(block_elements(format))
                          : "")};
  }
  for (const WeightPart& part : parts) {
    const bool convertible = !is_block_format(part.format) && !is_block_format(format);
    if (part.format != format && !convertible) {
      return Error{Code::kUnsupported, "cannot convert weights from " +
                                           std::string(name_of(part.format)) + " to " +
                                           std::string(name_of(format))};
    }
    if (part.num_rows < 0 || (part.num_rows > 0 && part.data == nullptr)) {
      return Error{Code::kInvalidArgument, "a weight part has no data"};
    }
    if (part.row_order.empty()) continue;
    if (static_cast<int64_t>(part.row_order.size()) != part.num_rows) {
      return Error{Code::kInvalidArgument, "row_order does not name every row of a weight part"};
    }
    for (const int32_t row : part.row_order) {
      if (row < 0 || row >= part.num_rows) {
        return Error{Code::kInvalidArgument, "row_order names a row that a weight part lacks"};
      }
    }
  }
  return {};
}

/// Finds source rows by their packed index.
class RowTable {
 public:
  RowTable(std::span<const WeightPart> parts, int64_t num_cols)
      : parts_(parts), num_cols_(num_cols) {}

  PanelRows panel(int64_t index) const {
    PanelRows rows;
    int64_t row = index * kPanelRows;
    int64_t part_begin = 0;
    int r = 0;
    for (const WeightPart& part : parts_) {
      for (; r < kPanelRows && row < part_begin + part.num_rows; ++row, ++r) {
        const auto local = static_cast<size_t>(row - part_begin);
        const size_t source =
            part.row_order.empty() ? local : static_cast<size_t>(part.row_order[local]);
        rows.data[r] = part.data + source * row_bytes(part.format, num_cols_);
        rows.format[r] = part.format;
      }
      part_begin += part.num_rows;
    }
    return rows;
  }

 private:
  std::span<const WeightPart> parts_;
  int64_t num_cols_;
};

}  // namespace

Status PackedMatrix::set_col_order(std::vector<int32_t> col_order) {
  std::vector<bool> seen(static_cast<size_t>(num_cols_));
  bool is_permutation = col_order.empty() || static_cast<int64_t>(col_order.size()) == num_cols_;
  for (const int32_t col : col_order) {
    is_permutation =
        is_permutation && col >= 0 && col < num_cols_ && !seen[static_cast<size_t>(col)];
    if (!is_permutation) break;
    seen[static_cast<size_t>(col)] = true;
  }
  if (!is_permutation) {
    return Error{Code::kInvalidArgument, "col_order does not name every column of a matrix once"};
  }
  col_order_ = std::move(col_order);
  return {};
}

std::string_view name_of(WeightFormat format) { return info_of(format).name; }

int64_t block_elements(WeightFormat format) { return info_of(format).elements; }

size_t row_bytes(WeightFormat format, int64_t num_cols) {
  const FormatInfo& info = info_of(format);
  return static_cast<size_t>(num_cols / info.elements) * info.bytes;
}

Result<PackedMatrix> PackedMatrix::create(const KernelContext& ctx,
                                          std::span<const WeightPart> parts, int64_t num_cols,
                                          WeightFormat format, Arithmetic arithmetic,
                                          device::Arena* arena) {
  OCTAVO_TRY(check_parts(parts, num_cols, format));
  PackedMatrix matrix;
  matrix.num_cols_ = num_cols;
  matrix.format_ = format;
  matrix.arithmetic_ = arithmetic;
  for (const WeightPart& part : parts) {
    if (__builtin_add_overflow(matrix.num_rows_, part.num_rows, &matrix.num_rows_) ||
        matrix.num_rows_ > INT64_MAX - kPanelRows) {
      return Error{Code::kInvalidArgument, "a weight matrix has too many rows"};
    }
  }
  const int64_t num_panels = (matrix.num_rows_ + kPanelRows - 1) / kPanelRows;
  size_t panel_bytes = 0;
  size_t total_bytes = 0;
  if (num_cols > (int64_t{1} << 48) ||
      __builtin_mul_overflow(packed_row_bytes(format, num_cols), size_t{kPanelRows},
                             &panel_bytes) ||
      __builtin_mul_overflow(panel_bytes, static_cast<size_t>(num_panels), &total_bytes)) {
    return Error{Code::kInvalidArgument, "a weight matrix is too large"};
  }
  OCTAVO_TRY(matrix.buffer_, arena != nullptr
                                 ? arena->take(total_bytes)
                                 : device::Buffer::create(total_bytes, /*huge_pages=*/true));
  const RowTable table(parts, num_cols);
  std::byte* const out = matrix.buffer_.data();
  const size_t task_bytes =
      total_bytes < device::kHugePageBytes ? kSmallTaskBytes : device::kHugePageBytes;
  // The panels that begin in a task's bytes.
  const auto first_panel = [&](int64_t task) {
    const size_t panels = (static_cast<size_t>(task) * task_bytes + panel_bytes - 1) / panel_bytes;
    return std::min(static_cast<int64_t>(panels), num_panels);
  };
  const auto num_tasks = static_cast<int64_t>((total_bytes + task_bytes - 1) / task_bytes);
  ctx.pool.parallel_for(num_tasks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = first_panel(begin); panel < first_panel(end); ++panel) {
      pack_panel(out + static_cast<size_t>(panel) * panel_bytes, table.panel(panel), num_cols,
                 format);
    }
  });
  return matrix;
}

}  // namespace octavo::kernels
