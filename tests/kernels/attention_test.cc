#include "kernels/attention/attention.h"

#include "attention_cases.h"
#include "kernels/linear/convert.h"

namespace octavo::kernels {
namespace {

class Attention : public WithVariant {
 protected:
  /// The longest of a test's sequences: with the portable row one that ends in the second of the
  /// ranges of 256 keys that attention splits a context into, otherwise in the third.
  static int64_t longest() { return is_generic() ? 270 : 530; }
};
INSTANTIATE_TEST_SUITE_P(Variant, Attention, testing::ValuesIn(variants_without_bytes()),
                         variant_name);

constexpr device::DType kDTypes[] = {device::DType::kF32, device::DType::kF16, device::DType::kBF16,
                                     device::DType::kE4M3, device::DType::kE5M2};
constexpr device::DType kFp8[] = {device::DType::kE4M3, device::DType::kE5M2};

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> out;
  for (const device::DType dtype : kDTypes) {
    out.push_back({dtype, 9, 3, 64, 16, 0, 0.0f});
    out.push_back({dtype, 4, 4, 32, 32, 0, 0.0f});
    out.push_back({dtype, 8, 1, 128, 16, 0, 0.0f});
    out.push_back({dtype, 6, 2, 40, 48, 0, 0.0f});  // dims that are no multiple of 16
    out.push_back({dtype, 2, 1, 6, 16, 0, 0.0f});   // fewer dims than lanes
    out.push_back({dtype, 4, 2, 64, 16, 100, 0.0f});
    out.push_back({dtype, 4, 2, 64, 16, 1, 0.0f});
    out.push_back({dtype, 3, 1, 64, 16, 300, 20.0f});
  }
  return out;
}

std::string describe(const AttentionCase& c) {
  return std::string(device::name_of(c.dtype)) + " heads " + std::to_string(c.num_heads) + "/" +
         std::to_string(c.num_kv_heads) + " dim " + std::to_string(c.head_dim) + " window " +
         std::to_string(c.sliding_window);
}

TEST_P(Attention, IsNearTheReference) {
  const std::vector<int64_t> lengths = {1, 15, 16, 17, 70, 255, 257, longest()};
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    Machine machine(2);
    PagedSequences sequences(c, lengths, 3);
    std::vector<PagedSequences::Piece> pieces;
    for (size_t s = 0; s < lengths.size(); ++s) {
      sequences.write(machine.context(), s, 0, lengths[s]);
      pieces.push_back({s, 0, lengths[s]});
    }
    const std::vector<float> out = sequences.run(machine.context(), pieces);
    size_t at = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int64_t t = 0; t < lengths[s]; ++t) {
        for (int64_t head = 0; head < c.num_heads; ++head, at += static_cast<size_t>(c.head_dim)) {
          if ((t * 7 + head) % 5 != 0 && t + 3 < lengths[s]) continue;  // a sample is enough
          const auto [expected, tolerance] = sequences.expected(s, t, head);
          for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(out[at + i], expected[i], tolerance)
                << "sequence " << s << " token " << t << " head " << head << " dim " << i;
          }
        }
      }
    }
  }
}

/// Promise P1: whole prompt = chunks = token by token, whatever else is in the batch, whatever the
/// number of threads, whatever lies behind a sequence's end.
TEST_P(Attention, PrefillChunksAndDecodeAgreeBitForBit) {
  const std::vector<int64_t> lengths = {longest(), 260, 37};
  for (const AttentionCase& c : cases()) {
    SCOPED_TRACE(describe(c));
    Machine one(1);
    Machine three(3);
    PagedSequences whole(c, lengths, 3);
    std::vector<std::vector<float>> expected;
    for (size_t s = 0; s < lengths.size(); ++s) {
      whole.write(one.context(), s, 0, lengths[s]);
      expected.push_back(whole.run(one.context(), {{s, 0, lengths[s]}}));
    }
    const auto expect_piece = [&](const std::vector<float>& out, size_t& at, size_t s,
                                  int64_t begin, int64_t end) {
      const size_t count = static_cast<size_t>((end - begin) * whole.q_stride());
      ASSERT_EQ(std::memcmp(&out[at], &expected[s][static_cast<size_t>(begin * whole.q_stride())],
                            count * 4),
                0)
          << "sequence " << s << " tokens " << begin << " to " << end;
      at += count;
    };

    PagedSequences pieces(c, lengths, 3);
    Numbers numbers(17);
    std::vector<int64_t> done(lengths.size());
    while (true) {
      std::vector<PagedSequences::Piece> step;
      for (size_t s = 0; s < lengths.size(); ++s) {
        if (done[s] == lengths[s]) continue;
        const int64_t most = lengths[s] - done[s];
        // Short and long chunks at first, single tokens at the end.
        const int64_t count =
            most <= 12 ? 1
                       : std::min<int64_t>(1 + numbers.below(numbers.below(4) ? 60 : 5), most - 10);
        step.push_back({s, done[s], done[s] + count});
        done[s] += count;
      }
      if (step.empty()) break;
      const bool decodes =
          std::all_of(step.begin(), step.end(), [](const auto& p) { return p.end - p.begin == 1; });
      for (const auto& p : step) {
        if (!decodes) pieces.write(three.context(), p.s, p.begin, p.end);
      }
      const std::vector<float> out = pieces.run(three.context(), step, decodes);
      size_t at = 0;
      for (const auto& p : step) {
        expect_piece(out, at, p.s, p.begin, p.end);
        if (HasFatalFailure()) return;
      }
    }

    // Single queries of long sequences take the path that shares out chunks.
    for (Machine* machine : {&one, &three}) {
      const std::vector<float> out =
          pieces.run(machine->context(), {{0, longest() - 1, longest()}}, machine == &three);
      size_t at = 0;
      expect_piece(out, at, 0, longest() - 1, longest());
      if (HasFatalFailure()) return;
    }
  }
}

/// From some chunks on their results are joined by all threads, a head each.
TEST_P(Attention, ALongContextGivesTheSameBitsOnAnyNumberOfThreads) {
  constexpr int64_t kKeys = 8 * 256 + 3;
  const AttentionCase c{device::DType::kBF16, 16, 8, 16, 16, 0, 0.0f};
  Machine one(1);
  Machine three(3);
  PagedSequences sequences(c, {kKeys}, 3);
  sequences.write(one.context(), 0, 0, kKeys);
  const std::vector<PagedSequences::Piece> last = {{0, kKeys - 1, kKeys}};
  const std::vector<float> expected = sequences.run(one.context(), last);
  const std::vector<float> out = sequences.run(three.context(), last);
  ASSERT_EQ(out.size(), expected.size());
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0);
}

/// With one key the weight is one and the result is its V: every code, NaN and infinity too.
TEST_P(Attention, EveryCodeOfOneByteIsWidenedExactly) {
  constexpr int64_t kDim = 256;
  for (const device::DType dtype : kFp8) {
    Machine machine(1);
    std::vector<std::byte> page(kv_page_bytes(dtype, 1, kDim));
    for (int code = 0; code < kDim; ++code) {
      page[static_cast<size_t>(16 * kDim + 2 * code)] = static_cast<std::byte>(code);
    }
    const KvLayer layer{page.data(), dtype, 1, 1, kDim};
    const int32_t starts[] = {0, 1}, lens[] = {1}, table[] = {0};
    const AttentionBatch batch{1, starts, lens, table, 1, 16};
    AttentionParams params;
    params.num_heads = 1;
    const std::vector<float> q(kDim);
    std::vector<float> out(kDim);
    attention(machine.context(), out.data(), kDim, q.data(), kDim, layer, batch, params);
    for (int code = 0; code < kDim; ++code) {
      const auto expected = static_cast<float>(fp8_value(dtype, code));
      const float got = out[static_cast<size_t>(code)];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << device::name_of(dtype) << " " << code;
      } else {
        EXPECT_EQ(got, expected) << device::name_of(dtype) << " " << code;
      }
    }
  }
}

TEST_P(Attention, OneByteGivesTheBitsOfBf16WithTheSameNumbers) {
  const std::vector<int64_t> lengths = {530, 1, 37};
  for (AttentionCase c : cases()) {
    if (!device::is_fp8(c.dtype)) continue;
    SCOPED_TRACE(describe(c));
    c.values = c.dtype;
    AttentionCase wide = c;
    wide.dtype = device::DType::kBF16;
    Machine machine(2);
    std::vector<std::vector<float>> outs;
    for (const AttentionCase& each : {c, wide}) {
      PagedSequences sequences(each, lengths, 3);
      std::vector<PagedSequences::Piece> pieces;
      for (size_t s = 0; s < lengths.size(); ++s) {
        sequences.write(machine.context(), s, 0, lengths[s]);
        pieces.push_back({s, 0, lengths[s]});
      }
      outs.push_back(sequences.run(machine.context(), pieces));
    }
    ASSERT_EQ(std::memcmp(outs[0].data(), outs[1].data(), outs[0].size() * 4), 0);
  }
}

class KvWrite : public WithVariant {};
INSTANTIATE_TEST_SUITE_P(Variant, KvWrite, testing::ValuesIn(variants_without_bytes()),
                         variant_name);

/// Element (dim, token) of a page, as it was rounded, widened.
float cached(const std::byte* page, device::DType dtype, bool is_value, int64_t head_dim,
             int64_t dim, int64_t token) {
  if (dtype == device::DType::kF32) {
    const int64_t at = is_value ? token * head_dim + dim : dim * 16 + token;
    return load_element(WeightFormat::kF32, page, at);
  }
  const int64_t at = is_value ? (token / 2 * head_dim + dim) * 2 + token % 2
                              : (dim / 2 * 16 + token) * 2 + dim % 2;
  if (device::is_fp8(dtype)) {
    return static_cast<float>(fp8_value(dtype, static_cast<int>(page[at])));
  }
  return load_element(dtype == device::DType::kF16 ? WeightFormat::kF16 : WeightFormat::kBF16, page,
                      at);
}

TEST_P(KvWrite, PutsEveryTokenIntoItsPlaceWhateverTheThreads) {
  constexpr int64_t kHeads = 3, kPages = 20;
  for (const device::DType dtype : kDTypes) {
    for (const int64_t head_dim : {2, 14, 16, 18, 64}) {
      Machine machine(3);
      const size_t head_bytes = kv_page_bytes(dtype, 1, head_dim);
      std::vector<std::byte> cache(kPages * kHeads * head_bytes, std::byte{0xff});
      const KvLayer layer{cache.data(), dtype, kPages, kHeads, head_dim};
      // Sequences of 150, 1 and 60 tokens on scattered pages, the last from the middle of a page
      // on.
      std::vector<int64_t> slots;
      for (int64_t i = 0; i < 150; ++i) slots.push_back((19 - i / 16) * 16 + i % 16);
      slots.push_back(3 * 16);
      for (int64_t i = 7; i < 67; ++i) slots.push_back((4 + i / 16) * 16 + i % 16);
      const auto num_tokens = static_cast<int64_t>(slots.size());
      Numbers numbers(5);
      const int64_t stride = kHeads * head_dim + 5;
      Misaligned k(numbers.values(static_cast<size_t>(num_tokens * stride), 300.0f));
      Misaligned v(numbers.values(static_cast<size_t>(num_tokens * stride)));
      const float special[] = {70000.0f, -std::numeric_limits<float>::infinity(), 3e-6f, -0.0f};
      std::copy(std::begin(special), std::begin(special) + 2, k.data());
      std::copy(std::begin(special), std::begin(special) + 2, v.data());
      std::copy(std::begin(special) + 2, std::end(special), k.data() + head_dim);
      kv_write(machine.context(), layer, {k.data(), v.data(), stride, slots.data()}, num_tokens);
      for (int64_t t = 0; t < num_tokens; ++t) {
        for (int64_t h = 0; h < kHeads; ++h) {
          const auto page = static_cast<size_t>(slots[static_cast<size_t>(t)] / 16 * kHeads + h);
          const std::byte* const keys = cache.data() + page * head_bytes;
          for (int64_t d = 0; d < head_dim; ++d) {
            const int64_t token = slots[static_cast<size_t>(t)] % 16;
            const int64_t from = t * stride + h * head_dim + d;
            ASSERT_TRUE(same_bits(cached(keys, dtype, false, head_dim, d, token),
                                  round_to(dtype, k.data()[from])))
                << "K " << t << " " << h << " " << d;
            ASSERT_TRUE(same_bits(cached(keys + head_bytes / 2, dtype, true, head_dim, d, token),
                                  round_to(dtype, v.data()[from])))
                << "V " << t << " " << h << " " << d;
          }
        }
      }
    }
  }
}

/// Every number of the format, every midpoint of two, and their neighbours in f32.
std::vector<float> numbers_around_codes(device::DType dtype) {
  std::vector<float> out = {0.0f,
                            1e-40f,
                            1e-12f,
                            std::numeric_limits<float>::max(),
                            460.0f,
                            464.0f,
                            465.0f,
                            std::numeric_limits<float>::infinity(),
                            61439.0f,
                            61440.0f,
                            65536.0f,
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::signaling_NaN()};
  for (int code = 0; code < 0x7f; ++code) {
    const auto low = static_cast<float>(fp8_value(dtype, code));
    const auto high = static_cast<float>(fp8_value(dtype, code + 1));
    if (!std::isfinite(low)) break;
    for (const float x : {low, std::isfinite(high) ? (low + high) / 2 : low}) {
      for (const float y : {x, std::nextafter(x, 1e30f), std::nextafter(x, -1e30f)}) {
        out.push_back(y);
      }
    }
  }
  const size_t positive = out.size();
  for (size_t i = 0; i < positive; ++i) out.push_back(-out[i]);
  return out;
}

TEST_P(KvWrite, RoundsToTheNearestCode) {
  for (const device::DType dtype : kFp8) {
    Machine machine(1);
    std::vector<float> numbers = numbers_around_codes(dtype);
    numbers.resize((numbers.size() + 1) / 2 * 2);
    const auto dim = static_cast<int64_t>(numbers.size());
    std::vector<std::byte> page(kv_page_bytes(dtype, 1, dim));
    const KvLayer layer{page.data(), dtype, 1, 1, dim};
    const int64_t slots[] = {0, 1};
    kv_write(machine.context(), layer, {numbers.data(), numbers.data(), 0, slots}, 2);
    for (int64_t d = 0; d < dim; ++d) {
      const float x = numbers[static_cast<size_t>(d)];
      const int expected = fp8_nearest(dtype, x);
      for (int64_t token = 0; token < 2; ++token) {
        const int64_t k = (d / 2 * 16 + token) * 2 + d % 2;
        const int64_t v = 16 * dim + d * 2 + token;
        ASSERT_EQ(static_cast<int>(page[static_cast<size_t>(k)]), expected) << x;
        ASSERT_EQ(static_cast<int>(page[static_cast<size_t>(v)]), expected) << x;
      }
    }
  }
}

TEST_P(KvWrite, ClearsAPageWithItsFirstToken) {
  Machine machine(1);
  for (const device::DType dtype : kDTypes) {
    const size_t bytes = kv_page_bytes(dtype, 2, 8);
    std::vector<std::byte> page(3 * bytes, std::byte{0xff});
    const KvLayer layer{page.data(), dtype, 3, 2, 8};
    const std::vector<float> k(16, 1.0f);
    const int64_t slot = 16;
    kv_write(machine.context(), layer, {k.data(), k.data(), 16, &slot}, 1);
    size_t zeros = 0;
    for (size_t i = bytes; i < 2 * bytes; ++i) zeros += page[i] == std::byte{0};
    EXPECT_GE(zeros, bytes * 15 / 16);
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(page[i], std::byte{0xff});
      ASSERT_EQ(page[2 * bytes + i], std::byte{0xff});
    }
  }
}

TEST(AttentionWorkspace, CoversWhatIsTaken) {
  for (const AttentionCase& c : cases()) {
    for (const int num_threads : {1, 2, 5}) {
      device::ThreadPool pool(num_threads);
      device::Workspace workspace;
      workspace.reserve(attention_workspace_bytes(700, c.num_heads, c.head_dim, 700, num_threads))
          .value();
      const KernelContext ctx{pool, workspace};
      PagedSequences sequences(c, {700}, 5);
      sequences.write(ctx, 0, 0, 700);
      sequences.run(ctx, {{0, 0, 700}});
      sequences.run(ctx, {{0, 699, 700}});  // CHECKs inside
      EXPECT_EQ(workspace.mark(), 0u);
    }
  }
}

/// The same shapes for encoders.
std::vector<AttentionCase> bidirectional_cases() {
  std::vector<AttentionCase> out = cases();
  for (AttentionCase& c : out) c.mask = MaskKind::kBidirectional;
  return out;
}

void expect_near_reference(const AttentionCase& c, const PagedSequences& sequences,
                           const std::vector<int64_t>& lengths, const std::vector<float>& out) {
  size_t at = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int64_t t = 0; t < lengths[s]; ++t) {
      for (int64_t head = 0; head < c.num_heads; ++head, at += static_cast<size_t>(c.head_dim)) {
        if ((t * 7 + head) % 11 != 0 && t + 2 < lengths[s] && t > 0) continue;  // a sample
        const auto [expected, tolerance] = sequences.expected(s, t, head);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(out[at + i], expected[i], tolerance)
              << "sequence " << s << " token " << t << " head " << head << " dim " << i;
        }
      }
    }
  }
}

TEST_P(Attention, BidirectionalIsNearTheReferenceWhateverElseRuns) {
  const std::vector<int64_t> lengths = {1, 15, 17, 257, longest()};
  for (const AttentionCase& c : bidirectional_cases()) {
    SCOPED_TRACE(describe(c));
    Machine machine(3);
    PagedSequences sequences(c, lengths, 3);
    std::vector<PagedSequences::Piece> pieces;
    for (size_t s = 0; s < lengths.size(); ++s) {
      sequences.write(machine.context(), s, 0, lengths[s]);
      pieces.push_back({s, 0, lengths[s]});
    }
    const std::vector<float> out = sequences.run(machine.context(), pieces);
    expect_near_reference(c, sequences, lengths, out);
    if (HasFatalFailure()) return;
    // Alone, with one thread; and the last query by itself, which shares out chunks.
    Machine one(1);
    size_t at = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      const auto alone = sequences.run(one.context(), {{s, 0, lengths[s]}});
      ASSERT_EQ(std::memcmp(alone.data(), &out[at], alone.size() * 4), 0) << "sequence " << s;
      at += alone.size();
      const auto last = sequences.run(machine.context(), {{s, lengths[s] - 1, lengths[s]}});
      ASSERT_EQ(std::memcmp(last.data(), &out[at - last.size()], last.size() * 4), 0);
    }
  }
}

TEST_P(Attention, WithoutACacheGivesTheBitsOfACache) {
  const std::vector<int64_t> lengths = {longest(), 1, 16, 37, 257};
  std::vector<AttentionCase> all = cases();
  for (const AttentionCase& c : bidirectional_cases()) all.push_back(c);
  for (const AttentionCase& c : all) {
    SCOPED_TRACE(describe(c));
    Machine machine(2);
    PagedSequences sequences(c, lengths, 9);
    std::vector<PagedSequences::Piece> pieces;
    for (size_t s = 0; s < lengths.size(); ++s) {
      sequences.write(machine.context(), s, 0, lengths[s]);
      pieces.push_back({s, 0, lengths[s]});
    }
    const std::vector<float> expected = sequences.run(machine.context(), pieces);
    const std::vector<float> out = sequences.run_without_cache(machine.context());
    ASSERT_EQ(out.size(), expected.size());
    ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
  }
}

TEST(AttentionWorkspace, CoversWhatIsTakenWithoutACache) {
  for (const AttentionCase& c : bidirectional_cases()) {
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{300}, std::vector<int64_t>{290, 1, 1, 1}, std::vector<int64_t>{1}}) {
      int64_t num_tokens = 0;
      for (const int64_t length : lengths) num_tokens += length;
      const AttentionRows rows{static_cast<int64_t>(lengths.size()), nullptr, c.dtype,
                               c.num_kv_heads, c.head_dim};
      device::ThreadPool pool(2);
      device::Workspace workspace;
      workspace.reserve(attention_without_cache_workspace_bytes(rows, num_tokens, c.num_heads, 2))
          .value();
      const KernelContext ctx{pool, workspace};
      PagedSequences(c, lengths, 5).run_without_cache(ctx);  // CHECKs inside
      EXPECT_EQ(workspace.mark(), 0u);
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
