#include "kernels/linear/gated_linear.h"

#include "kernels/silu_and_mul/silu_and_mul.h"
#include "linear_cases.h"

namespace octavo::kernels {
namespace {

class GatedLinear : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, GatedLinear, testing::ValuesIn(runnable_variants()),
                         variant_name);

PackedMatrix pack_random(Machine& machine, WeightFormat format, Arithmetic arithmetic, int64_t rows,
                         int64_t cols, uint64_t seed) {
  Numbers numbers(seed);
  const std::vector<std::byte> bytes = random_weight(format, rows, cols, numbers);
  const WeightPart part{bytes.data(), format, rows};
  return PackedMatrix::create(machine.context(), {&part, 1}, cols, format, arithmetic).value();
}

struct Case {
  WeightFormat gate_up, next;
  Arithmetic arithmetic;
  int64_t size, cols, tokens;
};

/// Step by step: two products, silu, the next product.
std::vector<float> in_steps(Machine& machine, const WeightRows& gate, const WeightRows& up,
                            const PackedMatrix& next, const float* rows_of_x, const RowNorm* norm,
                            const Case& c) {
  const auto product = [&](const WeightRows& rows) {
    const int64_t all = rows.matrix->num_rows();
    std::vector<float> whole(static_cast<size_t>(all * c.tokens));
    linear(machine.context(), whole.data(), all, rows_of_x, c.cols, c.tokens, *rows.matrix, nullptr,
           Epilogue::kStore, norm);
    std::vector<float> part;
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (int64_t i = 0; i < c.size; ++i) {
        const float bias = rows.bias == nullptr ? 0.0f : rows.bias[i];
        part.push_back(whole[static_cast<size_t>(t * all + rows.first_row + i)] + bias);
      }
    }
    return part;
  };
  std::vector<float> hidden = product(gate);
  const std::vector<float> other = product(up);
  silu_and_mul(hidden.data(), hidden.data(), other.data(), static_cast<int64_t>(hidden.size()));
  std::vector<float> out(static_cast<size_t>(next.num_rows() * c.tokens));
  linear(machine.context(), out.data(), next.num_rows(), hidden.data(), c.size, c.tokens, next,
         nullptr, Epilogue::kStore);
  return out;
}

void expect_same_as_steps(const Case& c, bool stacked) {
  SCOPED_TRACE(std::string(name_of(c.gate_up)) + " -> " + std::string(name_of(c.next)) + " size " +
               std::to_string(c.size) + " tokens " + std::to_string(c.tokens) +
               (stacked ? " stacked" : " apart"));
  constexpr int kThreads = 3;
  constexpr int64_t kNextRows = 40;
  Machine machine(kThreads);
  const PackedMatrix first =
      pack_random(machine, c.gate_up, c.arithmetic, stacked ? 2 * c.size : c.size, c.cols, 1);
  const PackedMatrix second = pack_random(machine, c.gate_up, c.arithmetic, c.size, c.cols, 2);
  const PackedMatrix next = pack_random(machine, c.next, c.arithmetic, kNextRows, c.size, 3);
  Numbers numbers(4);
  std::vector<float> x = numbers.values(static_cast<size_t>(c.cols * c.tokens));
  // In some rows one number is large: it may be taken out.
  for (int64_t t = 0; t < c.tokens; t += 3) x[static_cast<size_t>(t * c.cols + t % c.cols)] = 90.0f;
  const std::vector<float> bias = numbers.values(static_cast<size_t>(c.size));
  const WeightRows gate{&first, 0, nullptr};
  const WeightRows up =
      stacked ? WeightRows{&first, c.size, bias.data()} : WeightRows{&second, 0, bias.data()};
  // Every second case is normed on its way.
  const std::vector<float> norm_weight = numbers.values(static_cast<size_t>(c.cols));
  const RowNorm row_norm{norm_weight.data(), 1e-5f};
  const RowNorm* const norm = c.tokens % 2 == 0 ? &row_norm : nullptr;
  const std::vector<float> expected = in_steps(machine, gate, up, next, x.data(), norm, c);

  // No more scratch than is said.
  device::ThreadPool pool(kThreads);
  device::Workspace workspace;
  workspace
      .reserve(std::max(gated_linear_workspace_bytes(gate, up, c.tokens, kThreads),
                        linear_workspace_bytes(next, c.tokens, kThreads)))
      .value();
  const KernelContext ctx{pool, workspace};
  std::vector<std::byte> rows(prepared_row_bytes(next) * static_cast<size_t>(c.tokens) + 64,
                              std::byte{0x5a});
  gated_linear(ctx, rows.data(), x.data(), c.cols, c.tokens, gate, up, next, norm);
  for (size_t i = rows.size() - 64; i < rows.size(); ++i) ASSERT_EQ(rows[i], std::byte{0x5a});
  std::vector<float> out(expected.size());
  linear_prepared(ctx, out.data(), kNextRows, rows.data(), c.tokens, next, nullptr,
                  Epilogue::kStore);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(same_bits(out[i], expected[i])) << i << ": " << out[i] << " " << expected[i];
  }
}

TEST_P(GatedLinear, HasTheBitsOfItsStepsInEveryFormat) {
  for (const WeightFormat format : kAllFormats) {
    for (const Arithmetic arithmetic : {Arithmetic::kNative, Arithmetic::kF32}) {
      for (const int64_t tokens : {1, 2, 31, 32, 33, 100}) {
        const int64_t size = whole_blocks(format, 160);
        expect_same_as_steps({format, format, arithmetic, size, whole_blocks(format, 160), tokens},
                             true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(GatedLinear, TakesManyRowsAndColumns) {
  for (const WeightFormat format : {WeightFormat::kQ4_1, WeightFormat::kBF16}) {
    expect_same_as_steps({format, WeightFormat::kQ8_0, Arithmetic::kNative, 1536, 96, 1}, true);
    expect_same_as_steps({format, WeightFormat::kQ8_0, Arithmetic::kNative, 416, 96, 700}, false);
    expect_same_as_steps({format, WeightFormat::kQ6_K, Arithmetic::kNative, 512, 96, 40}, false);
  }
}

TEST_P(GatedLinear, TakesSuperBlocksBesideBlocks) {
  expect_same_as_steps(
      {WeightFormat::kQ5_0, WeightFormat::kQ6_K, Arithmetic::kNative, 512, 96, 140}, true);
  expect_same_as_steps({WeightFormat::kQ4_K, WeightFormat::kQ5_1, Arithmetic::kNative, 416, 256, 3},
                       false);
}

TEST_P(GatedLinear, TakesOddSizesInTheFloatFormats) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    for (const int64_t size : {1, 15, 17, 97, 131}) {
      for (const int64_t tokens : {1, 40}) {
        expect_same_as_steps({format, format, Arithmetic::kNative, size, 33, tokens}, false);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
