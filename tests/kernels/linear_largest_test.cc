#include "kernels/linear/linear_largest.h"

#include "kernels/rms_norm/rms_norm.h"
#include "linear_cases.h"

namespace octavo::kernels {
namespace {

class LinearLargest : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, LinearLargest, testing::ValuesIn(runnable_variants()),
                         variant_name);

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  WeightFormat format = WeightFormat::kF32;
  Arithmetic arithmetic = Arithmetic::kNative;
  int64_t vocab = 0, cols = 0, tokens = 0;
  float factor = 1.0f;
  int threads = 1;
  int64_t whole_every = 3;  // of the rows, which are written; 0: none
};

PackedMatrix pack(Machine& machine, const Case& c, const std::vector<std::byte>& bytes) {
  const WeightPart part{bytes.data(), c.format, c.vocab};
  return PackedMatrix::create(machine.context(), {&part, 1}, c.cols, c.format, c.arithmetic)
      .value();
}

/// Runs `linear_largest` beside `linear`, a multiplication and `scan_logits`, in no more scratch
/// than is said.
void expect_as_written(const Case& c, const std::vector<std::byte>& bytes,
                       const std::vector<float>& x, const RowNorm* norm = nullptr) {
  SCOPED_TRACE(std::string(name_of(c.format)) + " tokens " + std::to_string(c.tokens) +
               " threads " + std::to_string(c.threads));
  Machine machine(c.threads);
  const PackedMatrix weight = pack(machine, c, bytes);
  std::vector<float> logits(static_cast<size_t>(c.tokens * c.vocab));
  linear(machine.context(), logits.data(), c.vocab, x.data(), c.cols, c.tokens, weight, nullptr,
         Epilogue::kStore, norm);
  for (float& value : logits) value *= c.factor;

  device::ThreadPool pool(c.threads);
  device::Workspace workspace;
  workspace.reserve(linear_largest_workspace_bytes(weight, c.tokens, c.threads)).value();
  std::vector<float> whole(logits.size(), -7.0f);
  std::vector<float*> targets;
  for (int64_t t = 0; t < c.tokens; ++t) {
    const bool is_whole = c.whole_every > 0 && t % c.whole_every == 1;
    targets.push_back(is_whole ? &whole[static_cast<size_t>(t * c.vocab)] : nullptr);
  }
  const LogitsScan untouched{.max = 0.25f, .argmax = 77, .is_valid = false};
  std::vector<LogitsScan> largest(static_cast<size_t>(c.tokens), untouched);
  linear_largest({pool, workspace}, {targets, largest}, x.data(), c.cols, c.tokens, weight,
                 c.factor, norm);
  for (int64_t t = 0; t < c.tokens; ++t) {
    const auto at = static_cast<size_t>(t);
    const std::span<const float> row(&logits[at * static_cast<size_t>(c.vocab)],
                                     static_cast<size_t>(c.vocab));
    for (size_t i = 0; i < row.size(); ++i) {
      const float got = whole[at * row.size() + i];
      ASSERT_TRUE(same_bits(got, targets[at] != nullptr ? row[i] : -7.0f)) << t << " " << i;
    }
    const LogitsScan expected = targets[at] != nullptr ? untouched : scan_logits(row);
    ASSERT_EQ(largest[at].is_valid, expected.is_valid) << t;
    ASSERT_EQ(largest[at].argmax, expected.argmax) << t;
    if (expected.is_valid) {
      ASSERT_EQ(largest[at].max, expected.max) << t;
    }
  }
}

TEST_P(LinearLargest, HasTheBitsOfWrittenLogitsInEveryFormat) {
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (const int64_t tokens : {1, 3, 33}) {
        Numbers numbers(5);
        const Case c{.format = format,
                     .arithmetic = arithmetic,
                     .vocab = 1003,
                     .cols = whole_blocks(format, 64),
                     .tokens = tokens,
                     .threads = 2};
        expect_as_written(c, random_weight(format, c.vocab, c.cols, numbers),
                          numbers.values(static_cast<size_t>(c.cols * c.tokens)));
      }
    }
  }
}

/// Of rows with a norm the largest number is taken out before they are quantised.
TEST_P(LinearLargest, HasTheBitsOfWrittenLogitsWhereOneNumberIsLarge) {
  for (const WeightFormat format :
       {WeightFormat::kQ8_0, WeightFormat::kQ4_1, WeightFormat::kQ6_K, WeightFormat::kI4G64}) {
    for (const int64_t tokens : {1, 7, 40}) {
      Numbers numbers(5);
      const Case c{.format = format,
                   .vocab = 1003,
                   .cols = whole_blocks(format, 160),
                   .tokens = tokens,
                   .threads = 3};
      const auto bytes = random_weight(format, c.vocab, c.cols, numbers);
      std::vector<float> x = numbers.values(static_cast<size_t>(c.cols * c.tokens));
      for (int64_t t = 0; t < tokens; ++t) {
        if (t % 4 != 3) x[static_cast<size_t>(t * c.cols + t % 3 * 40)] = -90.0f;
      }
      const std::vector<float> weight(static_cast<size_t>(c.cols), 1.0f);
      const RowNorm norm{weight.data(), 1e-5f};
      expect_as_written(c, bytes, x, &norm);
    }
  }
}

TEST_P(LinearLargest, TakesManyRowsStripsThreadsAndFactors) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t tokens : {1, 2, 65, 700}) {
      for (const float factor : {1.0f, 0.3f}) {
        Numbers numbers(6);
        const Case c{.format = WeightFormat::kBF16,
                     .vocab = tokens > 65 ? 500 : 35000,
                     .cols = 5,
                     .tokens = tokens,
                     .factor = factor,
                     .threads = threads,
                     .whole_every = tokens == 65 ? 0 : 4};
        const std::vector<float> weight = numbers.values(static_cast<size_t>(c.cols));
        const RowNorm norm{weight.data(), 1e-5f};
        expect_as_written(c, random_weight(c.format, c.vocab, c.cols, numbers),
                          numbers.values(static_cast<size_t>(c.cols * c.tokens)),
                          factor == 1.0f ? &norm : nullptr);
      }
    }
  }
}

/// One column, so that a row's logits are x times these values.
std::vector<std::byte> column(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_P(LinearLargest, TheLowestIdWinsAmongEqualsOfAnyStripOrTask) {
  constexpr int64_t kVocab = 40000;  // several strips of a task even for one row
  for (const std::vector<size_t>& equals : std::vector<std::vector<size_t>>{
           {0, 39999}, {15, 16, 17}, {95, 96}, {20000, 32768, 39990}, {2, 3, 511, 12345}}) {
    for (const int threads : {1, 2}) {
      for (const int64_t tokens : {1, 40}) {
        std::vector<float> values(static_cast<size_t>(kVocab), -1.0f);
        for (const size_t id : equals) values[id] = 2.0f;
        const Case c{.vocab = kVocab, .cols = 1, .tokens = tokens, .threads = threads};
        std::vector<float> x(static_cast<size_t>(tokens), 1.5f);
        expect_as_written(c, column(values), x);
        x.assign(x.size(), 0.0f);  // zeros of both signs: all are equal
        expect_as_written(c, column(values), x);
      }
    }
  }
}

TEST_P(LinearLargest, RoundingOfTheFactorDecidesWhatIsEqual) {
  // The second is larger, until the factor rounds both to the same number.
  const float one = 1.0f + 0x1p-23f, two = 1.0f + 0x1p-22f;
  const Case c{.vocab = 200, .cols = 1, .tokens = 1, .factor = 0x1p-130f, .whole_every = 0};
  std::vector<float> values(200, 0.5f);
  values[7] = one;
  values[150] = two;
  expect_as_written(c, column(values), {1.0f});
}

TEST_P(LinearLargest, RowsThatAreNoDistributionAreInvalidWhereverTheFaultLies) {
  constexpr int64_t kVocab = 20000;
  const float nan = std::nanf("");
  for (const float fault : {nan, -nan, kInf}) {
    for (const size_t at : {size_t{0}, size_t{97}, size_t{9999}, size_t{19999}}) {
      for (const float rest : {0.5f, -kInf}) {
        std::vector<float> values(static_cast<size_t>(kVocab), rest);
        values[at] = fault;
        for (const int threads : {1, 2}) {
          const Case c{.vocab = kVocab, .cols = 1, .tokens = 5, .threads = threads};
          // The third row alone has what is wrong with its x, too.
          expect_as_written(c, column(values), {1.0f, 2.0f, nan, -1.0f, 1.0f});
        }
      }
    }
  }
}

TEST_P(LinearLargest, StripsOfMinusInfinityAloneAreNoFault) {
  constexpr int64_t kVocab = 40000;
  std::vector<float> values(static_cast<size_t>(kVocab), -kInf);
  for (const int threads : {1, 2}) {
    const Case c{.vocab = kVocab, .cols = 1, .tokens = 4, .threads = threads, .whole_every = 0};
    const std::vector<float> x = {1.0f, 2.0f, 3.0f, 0.5f};
    expect_as_written(c, column(values), x);  // invalid: nothing is left to choose
    for (const size_t at : {size_t{0}, size_t{33333}, size_t{39999}}) {
      values[at] = -3.0f;
      expect_as_written(c, column(values), x);
      values[at] = -kInf;
    }
  }
}

TEST_P(LinearLargest, DoesNothingWithoutRows) {
  Machine machine(2);
  Numbers numbers(1);
  const Case c{.format = WeightFormat::kF32, .vocab = 40, .cols = 3};
  const PackedMatrix weight = pack(machine, c, random_weight(c.format, c.vocab, c.cols, numbers));
  linear_largest(machine.context(), {}, nullptr, c.cols, 0, weight, 1.0f, nullptr);
  EXPECT_EQ(linear_largest_workspace_bytes(weight, 0, 2), size_t{0});
}

}  // namespace
}  // namespace octavo::kernels
