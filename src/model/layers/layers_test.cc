#include <gtest/gtest.h>

#include <cmath>

#include "model/layers/linear.h"
#include "model/layers/lm_head.h"
#include "model/layers/mlp.h"
#include "model/layers/rms_norm.h"
#include "model/test_weights.h"

namespace octavo::model {
namespace {

kernels::PackedMatrix pack(const TestKernels& kernels, const std::vector<float>& values,
                           int64_t num_rows) {
  const kernels::WeightPart part{
      reinterpret_cast<const std::byte*>(values.data()), kernels::WeightFormat::kF32, num_rows, {}};
  return kernels::PackedMatrix::create(kernels.ctx, {&part, 1}, int64_t(values.size()) / num_rows,
                                       kernels::WeightFormat::kF32, kernels::Arithmetic::kF32)
      .value();
}

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += double(a[i]) * b[i];
  return sum;
}

TEST(Linear, StacksMatricesSideBySideWithTheirBias) {
  TestKernels kernels;
  const std::vector<float> a = test_values(1, 5 * 32, 1, 0), b = test_values(2, 3 * 32, 1, 0);
  const std::vector<float> bias = test_values(3, 8, 1, 0), x = test_values(4, 2 * 32, 1, 0);
  std::vector<kernels::PackedMatrix> matrices;
  matrices.push_back(pack(kernels, a, 5));
  matrices.push_back(pack(kernels, b, 3));
  const Linear linear(std::move(matrices), bias, {});
  EXPECT_EQ(linear.num_rows(), 8);
  kernels.workspace.reserve(linear.workspace_bytes(2, 1)).value();
  std::vector<float> out(2 * 8, 100.0f);
  linear.forward(kernels.ctx, out.data(), x.data(), 2, kernels::Epilogue::kStore).value();
  for (int64_t token = 0; token < 2; ++token) {
    for (int64_t row = 0; row < 8; ++row) {
      const float* weight = row < 5 ? &a[size_t(row) * 32] : &b[size_t(row - 5) * 32];
      EXPECT_NEAR(out[size_t(token * 8 + row)],
                  dot(weight, &x[size_t(token) * 32], 32) + bias[size_t(row)], 1e-5);
    }
  }
  const std::vector<float> once = out;
  linear.forward(kernels.ctx, out.data(), x.data(), 2, kernels::Epilogue::kAdd).value();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], 2 * once[i], 1e-5);
}

TEST(Linear, EveryMatrixNamesWhatIsReadNext) {
  TestKernels kernels;
  std::vector<kernels::PackedMatrix> matrices;
  matrices.push_back(pack(kernels, test_values(1, 16 * 32, 1, 0), 16));
  matrices.push_back(pack(kernels, test_values(2, 40 * 32, 1, 0), 40));
  Linear gate_up(std::move(matrices), {}, {});
  matrices.clear();
  matrices.push_back(pack(kernels, test_values(3, 5 * 48, 1, 0), 5));
  Linear down(std::move(matrices), {}, {});
  EXPECT_EQ(gate_up.reading().data, gate_up.matrices()[0].data());
  EXPECT_EQ(gate_up.reading().num_parts, 1);
  gate_up.set_next(down.reading());
  EXPECT_EQ(gate_up.matrices()[0].next().data, gate_up.matrices()[1].data());
  EXPECT_EQ(gate_up.matrices()[0].next().num_parts, 3);  // panels of 16 rows, the last one padded
  EXPECT_EQ(gate_up.matrices()[0].next().part_bytes * 3, gate_up.matrices()[1].size_bytes());
  EXPECT_EQ(gate_up.matrices()[1].next().data, down.matrices()[0].data());
  EXPECT_EQ(Linear().reading().num_parts, 0);
}

TEST(Mlp, GateIsReadFirstAndDownAfterUp) {
  TestKernels kernels;
  std::vector<kernels::PackedMatrix> gate_up, down;
  gate_up.push_back(pack(kernels, test_values(1, 64 * 16, 1, 0), 64));
  down.push_back(pack(kernels, test_values(2, 16 * 32, 1, 0), 16));
  Mlp mlp(Linear(std::move(gate_up), {}, {}), Linear(std::move(down), {}, {}));
  const auto& both = mlp.gate_up_proj().matrices().front();
  EXPECT_EQ(mlp.reading().data, both.data());
  EXPECT_EQ(mlp.reading().num_parts, 2);
  mlp.set_next(mlp.reading());
  const auto& last = mlp.down_proj().matrices().front();
  EXPECT_EQ(both.next().data, last.data());
  EXPECT_EQ(last.next().data, both.data());
}

TEST(Linear, RowsNameTheirAdapterAndNoneIsLoaded) {
  TestKernels kernels;
  const std::vector<float> weight = test_values(1, 4 * 32, 1, 0), x = test_values(2, 64, 1, 0);
  std::vector<kernels::PackedMatrix> matrices;
  matrices.push_back(pack(kernels, weight, 4));
  const Linear linear(std::move(matrices), {}, {});
  kernels.workspace.reserve(linear.workspace_bytes(2, 1)).value();
  const auto forward = [&](std::vector<float>& out, std::span<const int32_t> row_adapters) {
    return linear.forward(kernels.ctx, out.data(), x.data(), 2, kernels::Epilogue::kStore,
                          row_adapters);
  };
  std::vector<float> plain(8), none(8), some(8);
  EXPECT_TRUE(forward(plain, {}).ok());
  EXPECT_TRUE(forward(none, std::vector<int32_t>{-1, -1}).ok());
  EXPECT_EQ(plain, none);
  const Status refused = forward(some, std::vector<int32_t>{-1, 0});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

/// Rank `rank` of two; adds what the other rank would have sent.
class TwoRanks final : public Communicator {
 public:
  TwoRanks(int rank, std::vector<float> other) : rank_(rank), other_(std::move(other)) {}
  int rank() const override { return rank_; }
  int world_size() const override { return 2; }
  Status all_reduce(float* data, size_t count) override {
    for (size_t i = 0; i < count; ++i) data[i] += other_.at(i);
    return {};
  }
  Status all_gather(float*, const float*, size_t) override { return {}; }
  Status send(const float*, size_t, int) override { return {}; }
  Status receive(float*, size_t, int) override { return {}; }

 private:
  int rank_;
  std::vector<float> other_;
};

TEST(Linear, SplitByInputsSumsOverRanksAndAddsTheResidualOnce) {
  TestKernels kernels;
  const std::vector<float> weight = test_values(1, 4 * 32, 1, 0), x = test_values(2, 32, 1, 0);
  for (const int rank : {0, 1}) {
    TwoRanks ranks(rank, {10, 20, 30, 40});
    std::vector<kernels::PackedMatrix> matrices;
    matrices.push_back(pack(kernels, weight, 4));
    const Linear linear(std::move(matrices), {}, {Split::kInputs, &ranks});
    kernels.workspace.reserve(linear.workspace_bytes(1, 1)).value();
    std::vector<float> out = {1, 1, 1, 1};
    linear.forward(kernels.ctx, out.data(), x.data(), 1, kernels::Epilogue::kAdd).value();
    for (size_t row = 0; row < 4; ++row) {
      const double residual = rank == 0 ? 1.0 : 0.0;
      EXPECT_NEAR(out[row], residual + dot(&weight[row * 32], x.data(), 32) + 10.0 * (row + 1),
                  1e-5);
    }
  }
}

TEST(RmsNorm, HeadsAreNormedTheSameWhicheverWayTheyAreWalked) {
  TestKernels kernels;
  const RmsNorm norm(test_values(1, 8, 1, 1), 1e-6);
  constexpr int64_t kHeads = 3, kTokens = 5, kStride = kHeads * 8 + 16;
  const std::vector<float> before = test_values(2, kTokens * kStride, 2, 0);
  std::vector<float> together = before, apart = before;
  norm.forward_heads(kernels.ctx, together.data(), kStride, kTokens, kHeads);
  for (int64_t token = 0; token < kTokens; ++token) {
    norm.forward_heads(kernels.ctx, &apart[size_t(token * kStride)], kStride, 1, kHeads);
  }
  EXPECT_EQ(together, apart);
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const float* x = &before[size_t(token * kStride + head * 8)];
      const double scale = 1.0 / std::sqrt(dot(x, x, 8) / 8 + 1e-6);
      EXPECT_NEAR(together[size_t(token * kStride + head * 8 + 2)],
                  x[2] * scale * test_values(1, 8, 1, 1)[2], 1e-5);
    }
    const size_t behind = size_t(token * kStride + kHeads * 8);
    EXPECT_EQ(together[behind], before[behind]) << "what follows the heads stays";
  }
}

TEST(Mlp, AddsTheGatedProductToTheResidual) {
  TestKernels kernels;
  DecoderConfig config;
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.num_heads = config.num_kv_heads = 1;
  config.head_dim = 32;
  const std::vector<float> gate_up = test_values(1, 128 * 32, 1, 0);
  const std::vector<float> down = test_values(2, 32 * 64, 1, 0);
  const auto linear = [&](const std::vector<float>& values, int64_t rows) {
    std::vector<kernels::PackedMatrix> matrices;
    matrices.push_back(pack(kernels, values, rows));
    return Linear(std::move(matrices), {}, {});
  };
  const Mlp mlp(linear(gate_up, 128), linear(down, 32));
  const StepLimits limits{1, 1, 1, 16, kernels.ctx.pool.num_threads()};
  kernels.workspace.reserve(mlp.workspace_bytes(limits)).value();
  const Activations act = Activations::create(config, limits).value();
  const std::vector<float> hidden = test_values(3, 32, 1, 0);
  std::copy(hidden.begin(), hidden.end(), act.hidden);
  const RmsNorm norm(test_values(4, 32, 1, 1), 1e-6);
  mlp.forward({kernels.ctx, act, {}, 1, {}}, 1, norm.row_norm()).value();
  std::vector<float> x(32);
  const double scale = 1.0 / std::sqrt(dot(hidden.data(), hidden.data(), 32) / 32 + 1e-6);
  for (size_t i = 0; i < 32; ++i) x[i] = float(hidden[i] * scale * test_values(4, 32, 1, 1)[i]);
  for (size_t row = 0; row < 32; ++row) {
    double expected = hidden[row];
    for (size_t i = 0; i < 64; ++i) {
      const double gate = dot(&gate_up[i * 32], x.data(), 32);
      const double up = dot(&gate_up[(64 + i) * 32], x.data(), 32);
      expected += down[row * 64 + i] * gate / (1.0 + std::exp(-gate)) * up;
    }
    EXPECT_NEAR(act.hidden[row], expected, 1e-4);
  }
}

TEST(LmHead, TiedUsesTheEmbeddingTable) {
  TestKernels kernels;
  const std::vector<float> table = test_values(1, 6 * 32, 1, 0);
  const Embedding embedding(pack(kernels, table, 6));
  const LmHead head;
  kernels.workspace.reserve(head.workspace_bytes(embedding, 1, 1)).value();
  std::vector<float> x(32), logits(6);
  const int32_t id = 4;
  embedding.forward(kernels.ctx, x.data(), &id, 1);
  const RmsNorm norm(test_values(5, 32, 1, 1), 1e-6);
  head.forward(kernels.ctx, logits.data(), x.data(), 1, embedding, norm.row_norm());
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(x[i], table[4 * 32 + i]);
  const double scale = 1.0 / std::sqrt(dot(x.data(), x.data(), 32) / 32 + 1e-6);
  for (size_t i = 0; i < 32; ++i) x[i] = float(x[i] * scale * test_values(5, 32, 1, 1)[i]);
  EXPECT_NEAR(logits[2], dot(&table[2 * 32], x.data(), 32), 1e-5);
}

}  // namespace
}  // namespace octavo::model
