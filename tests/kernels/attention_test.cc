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
    out.push_back({dtype, 4, 2, 96, 16, 0, 0.0f});  // no power of two
    out.push_back({dtype, 4, 2, 64, 16, 100, 0.0f});
    out.push_back({dtype, 4, 2, 64, 16, 1, 0.0f});
    out.push_back({dtype, 3, 1, 64, 16, 300, 20.0f});
  }
  for (const device::DType dtype : kFp8) {
    for (const float softcap : {0.0f, 20.0f}) {
      out.push_back({.dtype = dtype, .softcap = softcap, .k_scale = 0.0123f, .v_scale = 0.37f});
      out.push_back({.dtype = dtype, .softcap = softcap, .k_scale = 3.0f, .v_scale = 1e-3f});
    }
  }
  return out;
}

std::string describe(const AttentionCase& c) {
  return std::string(device::name_of(c.dtype)) + " heads " + std::to_string(c.num_heads) + "/" +
         std::to_string(c.num_kv_heads) + " dim " + std::to_string(c.head_dim) + " window " +
         std::to_string(c.sliding_window) + " scales " + std::to_string(c.k_scale) + " " +
         std::to_string(c.v_scale);
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

/// A NaN anywhere in a key that is seen, or in a value, reaches the result, and none elsewhere
/// does.
TEST_P(Attention, NaNOfOneByteIsNeverLost) {
  const int32_t starts[] = {0, 1}, lens[] = {11}, table[] = {0};
  const AttentionBatch batch{1, starts, lens, table, 1, 16};
  AttentionParams params;
  params.num_heads = 1;
  // By panels, the last line of codes cut in two; and by tiles without them.
  for (const int64_t head_dim : {72, 128}) {
    const std::vector<float> q(static_cast<size_t>(head_dim), 0.5f);
    for (const device::DType dtype : kFp8) {
      Machine machine(1);
      for (const int code : {0x7f, 0xff}) {
        for (const int64_t token : {0, 5, 10, 11}) {
          for (const int64_t dim : {0, 1, 31, 63, 64, 71}) {
            for (const bool in_value : {false, true}) {
              std::vector<std::byte> page(kv_page_bytes(dtype, 1, head_dim), std::byte{0x21});
              const int64_t at = in_value
                                     ? 16 * head_dim + (token / 2 * head_dim + dim) * 2 + token % 2
                                     : dim / 2 * 32 + token * 2 + dim % 2;
              page[static_cast<size_t>(at)] = static_cast<std::byte>(code);
              const KvLayer layer{page.data(), dtype, 1, 1, head_dim};
              std::vector<float> out(static_cast<size_t>(head_dim));
              attention(machine.context(), out.data(), head_dim, q.data(), head_dim, layer, batch,
                        params);
              for (int64_t d = 0; d < head_dim; ++d) {
                const bool expected = token < lens[0] && (!in_value || d == dim);
                ASSERT_EQ(std::isnan(out[static_cast<size_t>(d)]), expected)
                    << device::name_of(dtype) << " of " << head_dim << " code " << code << " token "
                    << token << " dim " << dim << (in_value ? " of V, out " : " of K, out ") << d;
              }
            }
          }
        }
      }
    }
  }
}

/// A bf16 cache of the rotated keys' values, and rotated queries: widening adds nothing.
TEST_P(Attention, OneByteGivesTheBitsOfBf16WithTheSameNumbers) {
  const std::vector<int64_t> lengths = {530, 1, 37};
  for (AttentionCase c : cases()) {
    if (!device::is_fp8(c.dtype) || c.v_scale != 1.0f) continue;
    SCOPED_TRACE(describe(c));
    AttentionCase wide = c;
    wide.dtype = device::DType::kBF16;
    wide.values = c.dtype;
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
          const float* const from = k.data() + t * stride + h * head_dim;
          std::vector<float> key(from, from + head_dim);
          if (device::is_fp8(dtype)) rotate_rows(key, head_dim, true);
          const auto page = static_cast<size_t>(slots[static_cast<size_t>(t)] / 16 * kHeads + h);
          const std::byte* const keys = cache.data() + page * head_bytes;
          for (int64_t d = 0; d < head_dim; ++d) {
            const int64_t token = slots[static_cast<size_t>(t)] % 16;
            ASSERT_TRUE(same_bits(cached(keys, dtype, false, head_dim, d, token),
                                  round_to(dtype, key[static_cast<size_t>(d)])))
                << "K " << t << " " << h << " " << d;
            ASSERT_TRUE(same_bits(cached(keys + head_bytes / 2, dtype, true, head_dim, d, token),
                                  round_to(dtype, v.data()[t * stride + h * head_dim + d])))
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
    if (numbers.size() % 2 == 0) numbers.push_back(1.0f);
    // An odd number of pairs: a key is rotated in blocks of two, (2 x, 0) becomes (x, x).
    const auto dim = static_cast<int64_t>(2 * numbers.size());
    std::vector<float> k(static_cast<size_t>(dim)), v(static_cast<size_t>(dim));
    for (size_t i = 0; i < numbers.size(); ++i) {
      k[2 * i] = 2 * numbers[i];
      v[2 * i] = v[2 * i + 1] = numbers[i];
    }
    std::vector<std::byte> page(kv_page_bytes(dtype, 1, dim));
    const KvLayer layer{page.data(), dtype, 1, 1, dim};
    const int64_t slots[] = {0, 1};
    kv_write(machine.context(), layer, {k.data(), v.data(), 0, slots}, 2);
    for (int64_t d = 0; d < dim; ++d) {
      const float x = v[static_cast<size_t>(d)];
      const int expected = fp8_nearest(dtype, x);
      for (int64_t token = 0; token < 2; ++token) {
        const int64_t at_k = (d / 2 * 16 + token) * 2 + d % 2;
        const int64_t at_v = 16 * dim + d * 2 + token;
        ASSERT_EQ(static_cast<int>(page[static_cast<size_t>(at_v)]), expected) << x;
        const int code = static_cast<int>(page[static_cast<size_t>(at_k)]);
        if (x == 0.0f) {
          ASSERT_EQ(code & 0x7f, expected & 0x7f);  // -0 + 0 is 0
        } else {
          ASSERT_EQ(code, expected) << x;
        }
      }
    }
  }
}

/// The codes are those of numbers that were divided before, also of what no code reaches otherwise.
TEST_P(KvWrite, DividesByTheScalesOfTheCache) {
  constexpr int64_t kDim = 64;
  for (const device::DType dtype : kFp8) {
    Machine machine(1);
    const std::vector<float> k = Numbers(5).values(kDim, 100.0f);
    std::vector<float> v = Numbers(6).values(kDim, 0.01f);
    v[3] = 1e6f;
    // A power of two for the keys, whose sums would round otherwise.
    constexpr float kKScale = 0x1p-9f, kVScale = 3e3f;
    std::vector<std::byte> scaled(kv_page_bytes(dtype, 1, kDim)), divided(scaled.size());
    const int64_t slots[] = {0};
    kv_write(machine.context(), {scaled.data(), dtype, 1, 1, kDim, kKScale, kVScale},
             {k.data(), v.data(), kDim, slots}, 1);
    std::vector<float> small_k = k, small_v = v;
    for (float& x : small_k) x *= 1.0f / kKScale;
    for (float& x : small_v) x *= 1.0f / kVScale;
    kv_write(machine.context(), {divided.data(), dtype, 1, 1, kDim},
             {small_k.data(), small_v.data(), kDim, slots}, 1);
    EXPECT_EQ(scaled, divided) << device::name_of(dtype);
    EXPECT_NEAR(cached(scaled.data() + scaled.size() / 2, dtype, true, kDim, 3, 0), 333.0f, 30.0f);
  }
}

constexpr int64_t kRotatedDims[] = {2, 6, 14, 16, 18, 40, 64, 80, 96, 112, 128, 192, 256, 512, 768};

/// Keys as a one-byte cache holds them, row by row.
std::vector<float> written_keys(device::DType dtype, int64_t head_dim,
                                const std::vector<float>& k) {
  Machine machine(1);
  const auto num_tokens = static_cast<int64_t>(k.size()) / head_dim;
  const int64_t num_pages = (num_tokens + 15) / 16;
  std::vector<std::byte> cache(kv_page_bytes(dtype, num_pages, head_dim));
  std::vector<int64_t> slots;
  for (int64_t t = 0; t < num_tokens; ++t) slots.push_back(t);
  const KvLayer layer{cache.data(), dtype, num_pages, 1, head_dim};
  kv_write(machine.context(), layer, {k.data(), k.data(), head_dim, slots.data()}, num_tokens);
  std::vector<float> out;
  for (int64_t t = 0; t < num_tokens; ++t) {
    const std::byte* const page =
        cache.data() + kv_page_bytes(dtype, 1, head_dim) * static_cast<size_t>(t / 16);
    for (int64_t d = 0; d < head_dim; ++d) {
      out.push_back(cached(page, dtype, false, head_dim, d, t % 16));
    }
  }
  return out;
}

/// Rows of the unit matrix show the matrix itself: its elements are codes.
TEST_P(KvWrite, RotatesKeysOfOneByteByAnOrthogonalMatrix) {
  for (const int64_t head_dim : kRotatedDims) {
    SCOPED_TRACE(head_dim);
    const auto dims = static_cast<size_t>(head_dim);
    std::vector<float> unit(dims * dims);
    for (size_t i = 0; i < dims; ++i) unit[i * dims + i] = 1.0f;
    const std::vector<float> rows = written_keys(device::DType::kE4M3, head_dim, unit);
    const double factor = rotation_factor(head_dim, true);
    for (int64_t i = 0; i < head_dim; ++i) {
      for (int64_t j = 0; j < head_dim; ++j) {
        ASSERT_EQ(rows[static_cast<size_t>(i * head_dim + j)], factor * rotation(head_dim, j, i))
            << i << " " << j;
      }
    }
    // Rows are orthogonal, all of one length, which the queries' factor makes one.
    const double length = factor / rotation_factor(head_dim, false);
    for (size_t i = 0; i < dims; i += 1 + i / 8) {
      for (size_t j = 0; j < dims; ++j) {
        double dot = 0;
        for (size_t n = 0; n < dims; ++n) dot += double{rows[i * dims + n]} * rows[j * dims + n];
        ASSERT_EQ(dot, i == j ? length : 0.0) << i << " " << j;
      }
    }
  }
}

/// Against the definition in f64: half the distance of two codes, and the sums' rounding in f32.
TEST_P(KvWrite, RotatedKeysOfOneByteAreTheNearestCodes) {
  for (const device::DType dtype : kFp8) {
    const double half = dtype == device::DType::kE4M3 ? 0x1p-4 : 0x1p-3;  // of a normal number
    const double tiniest = fp8_value(dtype, 1) / 2;
    for (const int64_t head_dim : kRotatedDims) {
      const std::vector<float> k = Numbers(7).values(static_cast<size_t>(head_dim * 20), 3.0f);
      const std::vector<float> written = written_keys(dtype, head_dim, k);
      const double factor = rotation_factor(head_dim, true);
      for (int64_t at = 0; at < std::ssize(k); ++at) {
        const int64_t row = at / head_dim * head_dim;
        double sum = 0;
        double magnitude = 0;
        for (int64_t j = 0; j < head_dim; ++j) {
          const double term =
              factor * rotation(head_dim, at - row, j) * k[static_cast<size_t>(row + j)];
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(written[static_cast<size_t>(at)], sum,
                    std::max(half * std::abs(sum), tiniest) + magnitude * 8 * 0x1p-23)
            << device::name_of(dtype) << " dim " << head_dim << " at " << at;
      }
    }
  }
}

/// What it is for: one channel that is large in every key would bring its rounding error into every
/// score. With eight codes from a power of two to the next, that channel alone is off by up to
/// 1/16.
TEST_P(KvWrite, RotationSpreadsTheErrorOfALargeChannel) {
  constexpr int64_t kDim = 64;
  Numbers numbers(11);
  std::vector<float> k = numbers.values(64 * kDim);
  for (size_t t = 0; t < 64; ++t) k[t * kDim + 5] = 20.0f + 4.0f * numbers.value();
  std::vector<float> q = numbers.values(64 * kDim);
  for (size_t t = 0; t < 64; ++t) q[t * kDim + 5] = 5.0f;
  const std::vector<float> written = written_keys(device::DType::kE4M3, kDim, k);
  std::vector<float> rotated_q = q;
  rotate_rows(rotated_q, kDim, false);
  double rotated = 0;
  double plain = 0;
  for (size_t t = 0; t < 64; ++t) {
    double exact = 0;
    double with_rotation = 0;
    double without = 0;
    for (size_t d = t * kDim; d < (t + 1) * kDim; ++d) {
      exact += double{q[d]} * k[d];
      with_rotation += double{rotated_q[d]} * written[d];
      without += double{q[d]} * round_to(device::DType::kE4M3, k[d]);
    }
    rotated += (with_rotation - exact) * (with_rotation - exact);
    plain += (without - exact) * (without - exact);
  }
  EXPECT_LT(std::sqrt(rotated), 0.5 * std::sqrt(plain));
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

TEST(KvReading, NamesThePagesOfOneQueryAsTasksReadThem) {
  std::vector<std::byte> cache(size_t{20} * kv_page_bytes(device::DType::kBF16, 3, 8));
  const KvLayer layer{cache.data(), device::DType::kBF16, 20, 3, 8};
  const std::vector<int32_t> starts = {0, 1, 2}, tables = {4, 7, 1, -1};
  const std::vector<int32_t> lens = {70, 1};
  KvReading kv{layer, {1, starts.data(), lens.data(), tables.data(), 4, 32}, {.num_heads = 3}};
  const device::Reading reading = kv.reading();
  // Five pages of three heads; blocks of two pages.
  EXPECT_EQ(reading.parts_of_piece, 5);
  ASSERT_EQ(reading.num_parts, 15);
  const size_t head = kv_page_bytes(device::DType::kBF16, 1, 8);
  EXPECT_EQ(reading.part_bytes, head);
  const auto at = [&](int64_t part) { return reading.part_at(reading.context, part); };
  EXPECT_EQ(at(0), cache.data() + (8 * 3 + 0) * head);
  EXPECT_EQ(at(1), cache.data() + (9 * 3 + 0) * head);
  EXPECT_EQ(at(4), cache.data() + (2 * 3 + 0) * head);
  EXPECT_EQ(at(7), cache.data() + (14 * 3 + 1) * head);
  EXPECT_EQ(at(14), cache.data() + (2 * 3 + 2) * head);

  kv.params.sliding_window = 70;
  EXPECT_EQ(kv.reading().num_parts, 15);
  kv.params.sliding_window = 69;  // the first block may have been given back
  EXPECT_EQ(kv.reading().num_parts, 0);
  kv.params.sliding_window = 0;
  kv.batch.num_seqs = 2;
  EXPECT_EQ(kv.reading().num_parts, 0);
  kv.batch.num_seqs = 1;
  const std::vector<int32_t> two_queries = {0, 2}, long_lens = {257};
  kv.batch.query_start_loc = two_queries.data();
  EXPECT_EQ(kv.reading().num_parts, 0);
  kv.batch.query_start_loc = starts.data();
  kv.batch.seq_lens = long_lens.data();
  EXPECT_EQ(kv.reading().num_parts, 0);
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
    if (c.v_scale != 1.0f) continue;  // without a cache there are no scales
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
