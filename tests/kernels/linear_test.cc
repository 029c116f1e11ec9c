#include "kernels/linear/linear.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "linear_cases.h"

namespace octavo::kernels {
namespace {

/// A packed random matrix with its file bytes.
struct Matrix {
  std::vector<std::byte> bytes;
  PackedMatrix packed;
};

Matrix make_matrix(Machine& machine, WeightFormat format, Arithmetic arithmetic, int64_t rows,
                   int64_t cols, uint64_t seed) {
  Numbers numbers(seed);
  Matrix matrix;
  matrix.bytes = random_weight(format, rows, cols, numbers);
  // The file's bytes may start anywhere.
  matrix.bytes.insert(matrix.bytes.begin(), std::byte{0});
  const WeightPart part{matrix.bytes.data() + 1, format, rows};
  matrix.packed =
      PackedMatrix::create(machine.context(), {&part, 1}, cols, format, arithmetic).value();
  return matrix;
}

class Linear : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, Linear, testing::ValuesIn(runnable_variants()), variant_name);

void expect_near_reference(WeightFormat format, Arithmetic arithmetic, int64_t rows, int64_t cols,
                           int64_t tokens) {
  SCOPED_TRACE(std::string(name_of(format)) + " " +
               (arithmetic == Arithmetic::kF32 ? "f32 " : "native ") + std::to_string(rows) + "x" +
               std::to_string(cols) + " tokens " + std::to_string(tokens));
  Machine machine(2);
  const Matrix matrix = make_matrix(machine, format, arithmetic, rows, cols, 7);
  Numbers numbers(11);
  const int64_t x_stride = cols + 3;
  const int64_t out_stride = rows + 5;
  Misaligned x(numbers.values(static_cast<size_t>(x_stride * tokens)));
  const Misaligned bias(numbers.values(static_cast<size_t>(rows)));
  Misaligned out(static_cast<size_t>(out_stride * tokens), 0.25f);
  linear(machine.context(), out.data(), out_stride, x.data(), x_stride, tokens, matrix.packed,
         bias.data(), Epilogue::kAdd);
  for (int64_t n = 0; n < rows; ++n) {
    const std::vector<double> w = widen_row(
        format, matrix.bytes.data() + 1 + static_cast<size_t>(n) * row_bytes(format, cols), cols);
    for (int64_t m = 0; m < tokens; ++m) {
      const Expected e = expect_product(format, arithmetic, x.data() + m * x_stride, w);
      // The bias and the residual round once each.
      const double value = e.value + bias.data()[n] + 0.25;
      ASSERT_NEAR(out.data()[m * out_stride + n], value,
                  e.tolerance + 0x1p-23 * (std::abs(value) + 2))
          << "row " << m << " column " << n;
    }
  }
  for (int64_t m = 0; m < tokens; ++m) {
    for (int64_t n = rows; n < out_stride; ++n) ASSERT_EQ(out.data()[m * out_stride + n], 0.25f);
  }
}

/// A norm on the way gives the bits of rms_norm before the product, in no more scratch than is
/// said.
TEST_P(Linear, NormsRowsOnTheirWay) {
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (const int64_t wanted_cols : {64, 576, 1120}) {  // less than a piece, more, several
        const int64_t cols = block_elements(format) == 1 ? wanted_cols + 1  // an odd end
                                                         : whole_blocks(format, wanted_cols);
        for (const int64_t tokens : {1, 40}) {
          SCOPED_TRACE(std::string(name_of(format)) + " cols " + std::to_string(cols));
          Machine machine(2);
          const Matrix matrix = make_matrix(machine, format, arithmetic, 33, cols, 7);
          Numbers numbers(3);
          const int64_t stride = cols + 5;
          const Misaligned x(numbers.values(static_cast<size_t>(stride * tokens)));
          const Misaligned weight(numbers.values(static_cast<size_t>(cols)));
          std::vector<float> normed(static_cast<size_t>(cols * tokens));
          rms_norm(machine.context(), normed.data(), cols, x.data(), stride, tokens, cols,
                   weight.data(), 1e-5f);
          std::vector<float> expected(static_cast<size_t>(33 * tokens)), out(expected);
          linear(machine.context(), expected.data(), 33, normed.data(), cols, tokens, matrix.packed,
                 nullptr, Epilogue::kStore);
          device::ThreadPool pool(2);
          device::Workspace workspace;
          workspace.reserve(linear_workspace_bytes(matrix.packed, tokens, 2)).value();
          const RowNorm norm{weight.data(), 1e-5f};
          linear({pool, workspace}, out.data(), 33, x.data(), stride, tokens, matrix.packed,
                 nullptr, Epilogue::kStore, &norm);
          for (size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(same_bits(out[i], expected[i])) << i;
        }
      }
    }
  }
}

TEST_P(Linear, IsNearTheReferenceInEveryFormatAndShape) {
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (const int64_t cols : {32, 64, 96, 224, 576}) {
        // Others have been tried with fewer.
        if (cols > 32 && whole_blocks(format, cols) == whole_blocks(format, cols - 32)) continue;
        for (const int64_t rows : {1, 15, 16, 17, 33, 80, 100}) {
          for (const int64_t tokens : {1, 3, 9}) {
            expect_near_reference(format, arithmetic, rows, whole_blocks(format, cols), tokens);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Linear, TakesAnyNumberOfColumnsInTheFloatFormats) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (int64_t cols = 1; cols <= 35; ++cols) {
        expect_near_reference(format, arithmetic, 21, cols, 5);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// More columns than pass at once: sums go from block to block, for few rows and for many.
TEST_P(Linear, FloatsAreNearTheReferenceInSeveralBlocksOfColumns) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (const int64_t cols : {1040, 2065}) {
        for (const int64_t tokens : {1, 8, 70}) {
          expect_near_reference(format, arithmetic, 50, cols, tokens);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Promise P1: a row alone, in any batch, with any number of threads, has the same bits.
/// Every height of every tile, both sides of where panels are unpacked first, more rows than a
/// chunk or a task has; the portable row's tiles are two rows high.
std::vector<int64_t> batch_sizes(bool generic) {
  if (generic) return {2, 3, 4, 5, 31, 33, 129, 300};
  std::vector<int64_t> sizes = {63, 64, 65, 100, 129, 300};
  for (int64_t tokens = 2; tokens <= 49; ++tokens) sizes.push_back(tokens);
  return sizes;
}

TEST_P(Linear, RowsDoNotDependOnTheBatchOrTheThreads) {
  constexpr int64_t kMaxTokens = 300;
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      Machine one(1);
      Machine two(2);
      Machine five(5);
      // More columns than pass at once, where there are such blocks; for floats also an odd end.
      const bool in_blocks = !is_block_format(format) || format >= WeightFormat::kQ5_0;
      const int64_t rows = 149;
      const int64_t wanted_cols = !in_blocks                       ? 576
                                  : block_elements(format) == 256  ? 640
                                  : is_block_format(format)        ? 1056
                                  : arithmetic == Arithmetic::kF32 ? 1056
                                                                   : 1057;
      const int64_t cols = whole_blocks(format, wanted_cols);
      const Matrix matrix = make_matrix(one, format, arithmetic, rows, cols, 3);
      Numbers numbers(5);
      const std::vector<float> x = numbers.values(static_cast<size_t>(kMaxTokens * cols));
      std::vector<float> alone(kMaxTokens * rows);
      for (int64_t m = 0; m < kMaxTokens; ++m) {
        linear(one.context(), &alone[static_cast<size_t>(m * rows)], rows,
               &x[static_cast<size_t>(m * cols)], cols, 1, matrix.packed, nullptr,
               Epilogue::kStore);
      }
      for (const int64_t tokens : batch_sizes(is_generic())) {
        for (Machine* machine : {&one, &two, &five}) {
          if (machine != &one && tokens % 3 != 0) continue;
          std::vector<float> out(static_cast<size_t>(tokens * rows));
          linear(machine->context(), out.data(), rows, x.data(), cols, tokens, matrix.packed,
                 nullptr, Epilogue::kStore);
          ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * 4), 0)
              << name_of(format) << " tokens " << tokens;
        }
      }
    }
  }
}

TEST_P(Linear, NonFiniteInputsSpoilOnlyTheirOwnRow) {
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      Machine machine(2);
      const int64_t rows = 40, cols = whole_blocks(format, 96);
      const Matrix matrix = make_matrix(machine, format, arithmetic, rows, cols, 13);
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(), 3e38f, 1e-42f}) {
        Numbers numbers(5);
        std::vector<float> x = numbers.values(static_cast<size_t>(7 * cols));
        std::vector<float> clean(7 * rows);
        std::vector<float> out(7 * rows);
        linear(machine.context(), clean.data(), rows, x.data(), cols, 7, matrix.packed, nullptr,
               Epilogue::kStore);
        x[static_cast<size_t>(3 * cols + 40)] = bad;
        linear(machine.context(), out.data(), rows, x.data(), cols, 7, matrix.packed, nullptr,
               Epilogue::kStore);
        for (size_t i = 0; i < out.size(); ++i) {
          if (i / rows != 3) {
            ASSERT_TRUE(same_bits(out[i], clean[i])) << i;
          }
          if (i / rows == 3 && !std::isfinite(bad)) {
            ASSERT_FALSE(std::isfinite(out[i])) << name_of(format);
          }
        }
      }
    }
  }
}

/// Blocks are quantised many at a time, in runs over rows or within one: each as if it were alone,
/// empty, tiny, huge and spoilt ones too.
TEST_P(Linear, ABlockIsQuantisedAsIfAlone) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kFactors[] = {0.0f, 1e-42f, 1e-36f, 1e30f, kInf, 1.0f, 1.0f, 1.0f};
  for (const WeightFormat format :
       {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ6_K}) {
    for (const int64_t wanted_cols : {32, 64, 160, 1120}) {
      Machine machine(2);
      const int64_t rows = 17, cols = whole_blocks(format, wanted_cols), tokens = 37;
      const Matrix matrix = make_matrix(machine, format, Arithmetic::kNative, rows, cols, 13);
      Numbers numbers(5);
      std::vector<float> x = numbers.values(static_cast<size_t>(tokens * cols));
      for (size_t i = 0; i < x.size(); ++i) x[i] *= kFactors[(i / 32 * 5 + i / 1024) % 8];
      std::vector<float> out(static_cast<size_t>(tokens * rows)), alone(rows);
      linear(machine.context(), out.data(), rows, x.data(), cols, tokens, matrix.packed, nullptr,
             Epilogue::kStore);
      for (int64_t t = 0; t < tokens; ++t) {
        linear(machine.context(), alone.data(), rows, x.data() + t * cols, cols, 1, matrix.packed,
               nullptr, Epilogue::kStore);
        for (int64_t i = 0; i < rows; ++i) {
          ASSERT_TRUE(
              same_bits(out[static_cast<size_t>(t * rows + i)], alone[static_cast<size_t>(i)]))
              << name_of(format) << " cols " << cols << " token " << t;
        }
      }
    }
  }
}

/// Gathered inside or before: the same bits, whatever the batch.
TEST_P(Linear, AColumnOrderGathersTheInput) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kQ4_0,
                                    WeightFormat::kI4G64, WeightFormat::kF8G32}) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      Machine machine(3);
      constexpr int64_t kRows = 40, kCols = 192, kStride = kCols + 3;
      Matrix matrix = make_matrix(machine, format, arithmetic, kRows, kCols, 3);
      std::vector<int32_t> order(kCols);
      for (int32_t k = 0; k < kCols; ++k) order[static_cast<size_t>(k)] = k * 7 % 192;
      for (const int64_t tokens : {1, 40, 200}) {
        Numbers numbers(5);
        const std::vector<float> x = numbers.values(static_cast<size_t>(kStride * tokens));
        std::vector<float> gathered(x.size());
        for (int64_t m = 0; m < tokens; ++m) {
          for (int64_t k = 0; k < kCols; ++k) {
            gathered[static_cast<size_t>(m * kStride + k)] =
                x[static_cast<size_t>(m * kStride + order[static_cast<size_t>(k)])];
          }
        }
        std::vector<float> out(static_cast<size_t>(kRows * tokens)), expected(out.size());
        linear(machine.context(), expected.data(), kRows, gathered.data(), kStride, tokens,
               matrix.packed, nullptr, Epilogue::kStore);
        matrix.packed.set_col_order(order).value();
        linear(machine.context(), out.data(), kRows, x.data(), kStride, tokens, matrix.packed,
               nullptr, Epilogue::kStore);
        (void)matrix.packed.take_col_order();
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0)
            << name_of(format) << " tokens " << tokens;
      }
      for (const std::vector<int32_t>& bad :
           {std::vector<int32_t>{0, 1}, std::vector<int32_t>(kCols),
            std::vector<int32_t>(kCols, 192), std::vector<int32_t>(kCols, -1)}) {
        EXPECT_FALSE(matrix.packed.set_col_order(bad).ok());
      }
    }
  }
}

TEST(PackedMatrix, ALargeMatrixIsItsPanelsWhateverTheTasksAre) {
  Machine machine(3);
  // Panels that do not divide a huge page; panels larger than one.
  struct Case {
    WeightFormat format;
    int64_t rows, cols;
  };
  for (const auto& [format, rows, cols] :
       {Case{WeightFormat::kQ4_0, 2053, 2080}, Case{WeightFormat::kBF16, 1003, 2049},
        Case{WeightFormat::kF32, 40, 40000}, Case{WeightFormat::kQ8_0, 496, 4096}}) {
    SCOPED_TRACE(name_of(format));
    Numbers numbers(5);
    const std::vector<std::byte> bytes = random_weight(format, rows, cols, numbers);
    const auto pack = [&](int64_t begin, int64_t count) {
      const WeightPart part{bytes.data() + static_cast<size_t>(begin) * row_bytes(format, cols),
                            format, count};
      return PackedMatrix::create(machine.context(), {&part, 1}, cols, format, Arithmetic::kNative)
          .value();
    };
    const PackedMatrix whole = pack(0, rows);
    ASSERT_GE(whole.size_bytes(), device::kHugePageBytes);
    size_t at = 0;
    for (int64_t row = 0; row < rows; row += kRowAlignment) {
      const PackedMatrix panel = pack(row, std::min(kRowAlignment, rows - row));
      ASSERT_EQ(std::memcmp(whole.data() + at, panel.data(), panel.size_bytes()), 0) << row;
      at += panel.size_bytes();
    }
    EXPECT_EQ(at, whole.size_bytes());
  }
}

TEST(PackedMatrix, StacksPartsAndReordersRows) {
  Machine machine(2);
  for (const WeightFormat format : kAllFormats) {
    Numbers numbers(2);
    const int64_t cols = whole_blocks(format, 64);
    const auto a = random_weight(format, 20, cols, numbers);
    const auto b = random_weight(format, 30, cols, numbers);
    std::vector<int32_t> order(30);
    for (int32_t i = 0; i < 30; ++i) order[static_cast<size_t>(i)] = i * 7 % 30;
    const WeightPart parts[] = {{a.data(), format, 20}, {b.data(), format, 30, order}};
    const auto packed =
        PackedMatrix::create(machine.context(), parts, cols, format, Arithmetic::kF32).value();
    EXPECT_EQ(packed.num_rows(), 50);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 50; ++i) ids.push_back(49 - i);
    std::vector<float> rows(static_cast<size_t>(50 * cols));
    embedding(machine.context(), rows.data(), ids.data(), 50, packed);
    for (int32_t i = 0; i < 50; ++i) {
      const int32_t row = ids[static_cast<size_t>(i)];
      const size_t bytes = row_bytes(format, cols);
      const std::byte* source =
          row < 20 ? a.data() + static_cast<size_t>(row) * bytes
                   : b.data() + static_cast<size_t>(order[static_cast<size_t>(row - 20)]) * bytes;
      const std::vector<double> expected = widen_row(format, source, cols);
      for (int64_t k = 0; k < cols; ++k) {
        // d * q + m is rounded to f32 once.
        ASSERT_EQ(rows[static_cast<size_t>(i * cols + k)],
                  static_cast<float>(expected[static_cast<size_t>(k)]))
            << name_of(format) << " row " << row << " column " << k;
      }
    }
  }
}

TEST(PackedMatrix, ConvertsBetweenTheFloatFormats) {
  Machine machine(1);
  Numbers numbers(4);
  const int64_t cols = 37;
  const auto a = random_weight(WeightFormat::kF32, 3, cols, numbers);
  const auto b = random_weight(WeightFormat::kF16, 4, cols, numbers);
  const auto c = random_weight(WeightFormat::kBF16, 5, cols, numbers);
  const WeightPart parts[] = {{a.data(), WeightFormat::kF32, 3},
                              {b.data(), WeightFormat::kF16, 4},
                              {c.data(), WeightFormat::kBF16, 5}};
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    const auto packed =
        PackedMatrix::create(machine.context(), parts, cols, format, Arithmetic::kNative).value();
    for (int32_t row = 0; row < 12; ++row) {
      std::vector<float> out(cols);
      embedding(machine.context(), out.data(), &row, 1, packed);
      const WeightPart& part = parts[row < 3 ? 0 : row < 7 ? 1 : 2];
      const int local = row < 3 ? row : row < 7 ? row - 3 : row - 7;
      for (int64_t k = 0; k < cols; ++k) {
        const float value = load_element(
            part.format, part.data + static_cast<size_t>(local) * row_bytes(part.format, cols), k);
        float expected = value;
        if (format == WeightFormat::kF16) expected = float_from_f16(f16_from_float(value));
        if (format == WeightFormat::kBF16) expected = float_from_bf16(bf16_from_float(value));
        ASSERT_EQ(out[static_cast<size_t>(k)], expected);
      }
    }
  }
}

TEST(PackedMatrix, RefusesWhatItCannotPack) {
  Machine machine(1);
  const std::vector<std::byte> bytes(4096);
  const auto code = [&](WeightPart part, int64_t cols, WeightFormat format) {
    const auto result =
        PackedMatrix::create(machine.context(), {&part, 1}, cols, format, Arithmetic::kNative);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Code::kInternal : result.error().code;
  };
  EXPECT_EQ(code({bytes.data(), WeightFormat::kQ4_0, 1}, 33, WeightFormat::kQ4_0),
            Code::kInvalidArgument);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kQ4_0, 1}, 0, WeightFormat::kQ4_0),
            Code::kInvalidArgument);
  for (const int64_t cols : {32, 128, 255, 288, 576}) {
    for (const WeightFormat format :
         {WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K}) {
      EXPECT_EQ(code({bytes.data(), format, 1}, cols, format), Code::kInvalidArgument);
    }
  }
  EXPECT_EQ(code({bytes.data(), WeightFormat::kQ5_1, 1}, 48, WeightFormat::kQ5_1),
            Code::kInvalidArgument);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kQ4_K, 1}, 256, WeightFormat::kQ5_K),
            Code::kUnsupported);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kQ4_0, 1}, 32, WeightFormat::kF32),
            Code::kUnsupported);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kF32, 1}, 32, WeightFormat::kQ8_0),
            Code::kUnsupported);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kF32, 2, {0}}, 32, WeightFormat::kF32),
            Code::kInvalidArgument);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kF32, 2, {0, 2}}, 32, WeightFormat::kF32),
            Code::kInvalidArgument);
  EXPECT_EQ(code({nullptr, WeightFormat::kF32, 2}, 32, WeightFormat::kF32), Code::kInvalidArgument);
  EXPECT_EQ(code({bytes.data(), WeightFormat::kF32, int64_t{1} << 60}, int64_t{1} << 40,
                 WeightFormat::kF32),
            Code::kInvalidArgument);
}

/// A file of tests/golden/gguf (tests run in the root of the sources).
template <class T>
std::vector<T> read_golden(const std::string& name) {
  std::ifstream file("tests/golden/gguf/" + name, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(bytes.empty()) << name;
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// The values of an implementation that is not ours: our reference, the embedding, and the product
/// with unit vectors, alone and many at once, give them all. As floats: only the sign of a zero may
/// differ.
TEST_P(Linear, DequantisesLikeTheGgufPackage) {
  Machine machine(1);
  for (const WeightFormat format : kAllFormats) {
    if (!is_block_format(format) || is_affine(format) || is_f8(format)) continue;
    SCOPED_TRACE(name_of(format));
    const int64_t cols = 2 * block_elements(format);
    const auto bytes = read_golden<std::byte>(std::string(name_of(format)) + ".blocks");
    const auto values = read_golden<float>(std::string(name_of(format)) + ".f32");
    const auto rows = static_cast<int64_t>(bytes.size() / row_bytes(format, cols));
    ASSERT_EQ(rows, 18);
    ASSERT_EQ(values.size(), static_cast<size_t>(rows * cols));
    const WeightPart part{bytes.data(), format, rows};
    const PackedMatrix packed =
        PackedMatrix::create(machine.context(), {&part, 1}, cols, format, Arithmetic::kF32).value();
    std::vector<float> units(static_cast<size_t>(cols * cols));
    for (int64_t k = 0; k < cols; ++k) units[static_cast<size_t>(k * cols + k)] = 1.0f;
    std::vector<float> products(static_cast<size_t>(cols * rows));
    linear(machine.context(), products.data(), rows, units.data(), cols, cols, packed, nullptr,
           Epilogue::kStore);
    for (int32_t n = 0; n < rows; ++n) {
      std::vector<float> row(static_cast<size_t>(cols));
      embedding(machine.context(), row.data(), &n, 1, packed);
      const auto reference =
          widen_row(format, bytes.data() + static_cast<size_t>(n) * row_bytes(format, cols), cols);
      for (int64_t k = 0; k < cols; ++k) {
        const float value = values[static_cast<size_t>(n * cols + k)];
        ASSERT_EQ(static_cast<float>(reference[static_cast<size_t>(k)]), value) << n << " " << k;
        ASSERT_EQ(row[static_cast<size_t>(k)], value) << n << " " << k;
        ASSERT_EQ(products[static_cast<size_t>(k * rows + n)], value) << n << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
