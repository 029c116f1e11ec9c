#include "kernels/linear/taken_out.h"

#include "kernels/rms_norm/rms_norm.h"
#include "linear_cases.h"

namespace octavo::kernels {
namespace {

/// Rows with a norm, of which the largest number may be taken out.
class TakenOutOfRows : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, TakenOutOfRows, testing::ValuesIn(runnable_variants()),
                         variant_name);

struct Matrix {
  std::vector<std::byte> bytes;
  PackedMatrix packed;
};

Matrix make_matrix(Machine& machine, WeightFormat format, int64_t rows, int64_t cols) {
  Numbers numbers(7);
  Matrix matrix{random_weight(format, rows, cols, numbers), {}};
  const WeightPart part{matrix.bytes.data(), format, rows};
  matrix.packed =
      PackedMatrix::create(machine.context(), {&part, 1}, cols, format, Arithmetic::kNative)
          .value();
  return matrix;
}

bool is_quantised(WeightFormat format) { return is_block_format(format) && !is_f8(format); }

/// A norm that leaves rows about as they are.
struct UnitNorm {
  explicit UnitNorm(int64_t cols) : weight(static_cast<size_t>(cols), 1.0f) {}
  RowNorm norm() const { return {weight.data(), 1e-5f}; }
  std::vector<float> weight;
};

/// One channel a thousand times the others. The bound is that of the others alone: half a step of
/// each block, as if its largest number had not been there.
void expect_near_exact_sums(WeightFormat format, int64_t cols, int64_t tokens, int64_t channel) {
  SCOPED_TRACE(std::string(name_of(format)) + " cols " + std::to_string(cols) + " tokens " +
               std::to_string(tokens) + " channel " + std::to_string(channel));
  constexpr int64_t kRows = 39;
  Machine machine(2);
  const Matrix matrix = make_matrix(machine, format, kRows, cols);
  Numbers numbers(11);
  std::vector<float> x = numbers.values(static_cast<size_t>(cols * tokens));
  for (int64_t t = 0; t < tokens; ++t) {
    x[static_cast<size_t>(t * cols + (t % 5 == 4 ? (channel + 37) % cols : channel))] =
        t % 2 == 0 ? 1000.0f : -1500.0f;
  }
  const UnitNorm unit(cols);
  const RowNorm norm = unit.norm();
  std::vector<float> normed(x.size()), out(static_cast<size_t>(kRows * tokens), 0.25f);
  rms_norm(machine.context(), normed.data(), cols, x.data(), cols, tokens, cols, norm.weight,
           norm.eps);
  const std::vector<float> bias = numbers.values(kRows, 0.01f);
  linear(machine.context(), out.data(), kRows, x.data(), cols, tokens, matrix.packed, bias.data(),
         Epilogue::kAdd, &norm);
  for (int64_t n = 0; n < kRows; ++n) {
    const std::vector<double> w = widen_row(
        format, matrix.bytes.data() + static_cast<size_t>(n) * row_bytes(format, cols), cols);
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<float> rest(normed.begin() + t * cols, normed.begin() + (t + 1) * cols);
      const auto largest = std::max_element(
          rest.begin(), rest.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
      const double value = *largest;
      const double product = value * w[static_cast<size_t>(largest - rest.begin())];
      *largest = 0;
      const Expected e = expect_product(format, Arithmetic::kNative, rest.data(), w);
      const double expected = e.value + product + bias[static_cast<size_t>(n)] + 0.25;
      // The product rounds a few times, of d * q and m each.
      const double magnitude = std::abs(value) * (block_elements(format) == 256 ? 9 : 4);
      ASSERT_NEAR(out[static_cast<size_t>(t * kRows + n)], expected,
                  e.tolerance + 0x1p-22 * (magnitude + std::abs(expected) + 2))
          << "row " << t << " column " << n;
    }
  }
}

TEST_P(TakenOutOfRows, ALargeChannelCostsTheOthersNoPrecision) {
  for (const WeightFormat format : kAllFormats) {
    if (!is_quantised(format)) continue;
    for (const int64_t wanted : {160, 576, 1120}) {
      const int64_t cols = whole_blocks(format, wanted);
      for (const int64_t tokens : {1, 2, 7, 40}) {
        // Every byte of a word, both nibbles and halves, first and last blocks.
        for (const int64_t channel : {int64_t{0}, int64_t{1}, int64_t{18}, int64_t{47},
                                      int64_t{101}, cols - 50, cols - 1}) {
          if (is_generic() && (tokens == 7 || wanted == 1120)) continue;
          expect_near_exact_sums(format, cols, tokens, channel);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Rows with one large channel, the same or another each, with two, with none, and such as have
/// nothing to take out: not finite, empty, tiny, all equal.
std::vector<float> mixed_rows(int64_t cols, int64_t tokens) {
  Numbers numbers(5);
  std::vector<float> x = numbers.values(static_cast<size_t>(cols * tokens));
  for (int64_t t = 0; t < tokens; ++t) {
    float* const row = &x[static_cast<size_t>(t * cols)];
    if (t % 4 != 3) row[cols / 2 + 3] = -70.0f;
    if (t % 4 == 1) row[t * 37 % cols] = 90.0f;
    if (t % 4 == 2) row[cols / 2 + 3 + t % 3] = 90.0f;
    if (t % 13 == 5) row[t % cols] = std::numeric_limits<float>::quiet_NaN();
    if (t % 13 == 6) row[t % cols] = std::numeric_limits<float>::infinity();
    if (t % 13 == 7) std::fill_n(row, cols, 0.0f);
    if (t % 13 == 8) std::fill_n(row, cols, -2.0f);
    if (t % 13 == 9) {
      for (int64_t k = 0; k < cols; ++k) row[k] *= 1e-30f;
    }
  }
  return x;
}

TEST_P(TakenOutOfRows, RowsDoNotDependOnTheBatchOrTheThreads) {
  constexpr int64_t kMostTokens = 130, kRows = 101;
  for (const WeightFormat format : kAllFormats) {
    if (!is_quantised(format)) continue;
    for (const int64_t wanted : {160, 1120}) {
      const int64_t cols = whole_blocks(format, wanted);
      Machine one(1), three(3);
      const Matrix matrix = make_matrix(one, format, kRows, cols);
      const std::vector<float> x = mixed_rows(cols, kMostTokens);
      const UnitNorm unit(cols);
      const RowNorm norm = unit.norm();
      std::vector<float> alone(kMostTokens * kRows), out(alone.size());
      for (int64_t t = 0; t < kMostTokens; ++t) {
        linear(one.context(), &alone[static_cast<size_t>(t * kRows)], kRows,
               &x[static_cast<size_t>(t * cols)], cols, 1, matrix.packed, nullptr, Epilogue::kStore,
               &norm);
      }
      for (const int64_t tokens : {2, 3, 4, 5, 6, 7, 8, 13, 31, 32, 33, 65, 130}) {
        if (is_generic() && tokens > 33) continue;
        for (Machine* machine : {&one, &three}) {
          for (const int64_t first : {int64_t{0}, kMostTokens - tokens}) {
            linear(machine->context(), out.data(), kRows, &x[static_cast<size_t>(first * cols)],
                   cols, tokens, matrix.packed, nullptr, Epilogue::kStore, &norm);
            ASSERT_EQ(std::memcmp(out.data(), &alone[static_cast<size_t>(first * kRows)],
                                  static_cast<size_t>(tokens * kRows) * 4),
                      0)
                << name_of(format) << " cols " << cols << " tokens " << tokens;
          }
        }
      }
    }
  }
}

/// Such rows have the bits that they have without a norm on the way: nothing is taken out.
TEST_P(TakenOutOfRows, WhatIsNotFiniteOrEvenStaysAsItIs) {
  for (const WeightFormat format :
       {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kQ6_K, WeightFormat::kI4G64}) {
    const int64_t rows = 20, cols = whole_blocks(format, 192), tokens = 130;
    Machine machine(2);
    const Matrix matrix = make_matrix(machine, format, rows, cols);
    const std::vector<float> x = mixed_rows(cols, tokens);
    const UnitNorm unit(cols);
    const RowNorm norm = unit.norm();
    std::vector<float> normed(x.size()), out(static_cast<size_t>(rows * tokens)), plain(out.size());
    rms_norm(machine.context(), normed.data(), cols, x.data(), cols, tokens, cols, norm.weight,
             norm.eps);
    linear(machine.context(), out.data(), rows, x.data(), cols, tokens, matrix.packed, nullptr,
           Epilogue::kStore, &norm);
    linear(machine.context(), plain.data(), rows, normed.data(), cols, tokens, matrix.packed,
           nullptr, Epilogue::kStore);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto at = static_cast<size_t>(t * rows);
      const bool same = std::memcmp(&out[at], &plain[at], rows * sizeof(float)) == 0;
      const bool untouched = (t % 13 >= 5 && t % 13 <= 8) || t % 4 == 3;
      EXPECT_EQ(same, untouched) << name_of(format) << " row " << t;
      if (t % 13 == 5 || t % 13 == 6) {
        EXPECT_FALSE(std::isfinite(out[at])) << t;
      }
    }
  }
}

TEST(NumberColumns, NumbersEachColumnOnce) {
  const std::vector<int32_t> wanted = {-1, 7, 7, 3, 7, -1, 3, 0, 9, 9, 0, 7};
  std::vector<TakenOut> taken;
  for (const int32_t column : wanted) taken.push_back({2.0f, column});
  const auto num_rows = static_cast<int64_t>(wanted.size());
  std::vector<int32_t> columns(wanted.size() + 1, -5), places(10, 99);
  const TakenColumns found =
      number_columns(taken.data(), num_rows, columns.data(), places.data(), 10);
  ASSERT_EQ(found.count, 5);
  EXPECT_EQ(found.rows, taken.data());
  EXPECT_EQ(found.columns, columns.data());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) {
      EXPECT_EQ(taken[i].slot, 0);
      EXPECT_TRUE(same_bits(taken[i].value, 0.0f));
    } else {
      EXPECT_EQ(columns[static_cast<size_t>(taken[i].slot)], wanted[i]) << i;
      EXPECT_EQ(taken[i].value, 2.0f);
    }
  }
}

TEST(NumberColumns, SaysThatNothingWasTakenOut) {
  std::vector<TakenOut> taken(3, TakenOut{2.0f, -1});
  std::vector<int32_t> columns(4, -5), places(10, 99);
  EXPECT_EQ(number_columns(taken.data(), 3, columns.data(), places.data(), 10).rows, nullptr);
  for (const TakenOut& of_row : taken) {
    EXPECT_EQ(of_row.slot, 0);
    EXPECT_TRUE(same_bits(of_row.value, 0.0f));
  }
}

}  // namespace
}  // namespace octavo::kernels
