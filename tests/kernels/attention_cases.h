#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/linear/convert.h"
#include "support.h"

// A paged cache for tests, the f64 reference of attention, and how far a kernel may be from it.

namespace octavo::kernels {

struct AttentionCase {
  device::DType dtype = device::DType::kBF16;
  int64_t num_heads = 3;
  int64_t num_kv_heads = 1;
  int64_t head_dim = 64;
  int64_t block_size = 16;
  int64_t sliding_window = 0;
  float softcap = 0.0f;
  MaskKind mask = MaskKind::kCausal;
  /// One byte: q, K and V are what kernels of such a cache multiply, K and q rotated.
  device::DType values = device::DType::kF32;
  /// Of the cache, where it has one byte.
  float k_scale = 1.0f;
  float v_scale = 1.0f;
};

/// The number that a one-byte code stands for, by the formats' definition.
inline double fp8_value(device::DType dtype, int code) {
  const bool is_e4m3 = dtype == device::DType::kE4M3;
  const int mantissa_bits = is_e4m3 ? 3 : 2;
  const int bias = is_e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (is_e4m3 && (code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if (!is_e4m3 && exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double unit = std::ldexp(1.0, -bias - mantissa_bits + std::max(exponent, 1));
  return sign * unit * (mantissa + (exponent > 0 ? 1 << mantissa_bits : 0));
}

/// The code that the cache must hold for `x`: the nearest finite number, the even code of two.
inline int fp8_nearest(device::DType dtype, float x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return sign | 0x7f;
  const int largest = dtype == device::DType::kE4M3 ? 0x7e : 0x7b;
  const double magnitude = std::abs(static_cast<double>(x));
  if (magnitude >= fp8_value(dtype, largest)) return sign | largest;
  int below = 0;
  for (int step = 64; step > 0; step /= 2) {
    if (below + step <= largest && fp8_value(dtype, below + step) <= magnitude) below += step;
  }
  const double to_below = magnitude - fp8_value(dtype, below);
  const double to_above = fp8_value(dtype, below + 1) - magnitude;
  const bool up = to_above < to_below || (to_above == to_below && below % 2 != 0);
  return sign | (below + (up ? 1 : 0));
}

/// Dims of a block of the matrix by which keys of a one-byte cache are rotated.
inline int64_t rotation_block(int64_t head_dim) {
  return std::min<int64_t>(head_dim & -head_dim, 256);
}

/// Its element (i, j) by definition: Walsh-Hadamard within each block.
inline double rotation(int64_t head_dim, int64_t i, int64_t j) {
  const int64_t dims = rotation_block(head_dim);
  if (i / dims != j / dims) return 0;
  return __builtin_parityll(static_cast<unsigned long long>(i & j & (dims - 1))) ? -1 : 1;
}

/// The factor of rotated keys (with that of the queries: one over the block's dims), by dims: 1/2
/// of 2 and 4, 1/4 of 8 and 16, ...
inline float rotation_factor(int64_t head_dim, bool of_keys) {
  const auto dims = static_cast<double>(rotation_block(head_dim));
  const double keys = std::exp2(-std::ceil(std::log2(dims) / 2));
  return static_cast<float>(of_keys ? keys : 1 / (dims * keys));
}

/// `x` rotated as the kernels do it: sums in f32, of neighbours first, so that codes can be
/// compared where a sum lies between two of them. A test compares it with the definition.
inline void rotate_rows(std::vector<float>& x, int64_t head_dim, bool of_keys) {
  const float factor = rotation_factor(head_dim, of_keys);
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(head_dim)) {
    for (int64_t half = 1; half < rotation_block(head_dim); half *= 2) {
      for (int64_t i = 0; i < head_dim; ++i) {
        if ((i & half) != 0) continue;
        float& a = x[row + static_cast<size_t>(i)];
        float& b = x[row + static_cast<size_t>(i + half)];
        const float sum = a + b;
        b = a - b;
        a = sum;
      }
    }
    for (int64_t i = 0; i < head_dim; ++i) x[row + static_cast<size_t>(i)] *= factor;
  }
}

inline float round_to(device::DType dtype, float value) {
  if (device::is_fp8(dtype)) {
    return static_cast<float>(fp8_value(dtype, fp8_nearest(dtype, value)));
  }
  if (dtype == device::DType::kF16) return float_from_f16(f16_from_float(value));
  if (dtype == device::DType::kBF16) return float_from_bf16(bf16_from_float(value));
  return value;
}

/// Sequences of q, k and v, and a cache of shuffled blocks that hold NaN wherever nothing was
/// written.
class PagedSequences {
 public:
  PagedSequences(const AttentionCase& c, const std::vector<int64_t>& lengths, uint64_t seed)
      : c_(c), lengths_(lengths) {
    for (int64_t i = 0; device::is_fp8(c.dtype) && i < c.head_dim * c.head_dim; ++i) {
      rotation_.push_back(rotation(c.head_dim, i / c.head_dim, i % c.head_dim));
    }
    Numbers numbers(seed);
    int64_t longest = 0;
    int64_t num_blocks = 3;
    for (const int64_t length : lengths) {
      longest = std::max(longest, length);
      num_blocks += blocks_of(length);
      const auto tokens = static_cast<size_t>(length);
      q_.push_back(numbers.values(tokens * static_cast<size_t>(q_stride()), 4.0f));
      k_.push_back(numbers.values(tokens * static_cast<size_t>(kv_stride()), 2.0f));
      v_.push_back(numbers.values(tokens * static_cast<size_t>(kv_stride())));
      if (device::is_fp8(c.values)) {
        rotate_rows(q_.back(), c.head_dim, false);
        rotate_rows(k_.back(), c.head_dim, true);
      }
      for (auto* both : {&k_, &v_}) {
        for (float& x : both->back()) x = round_to(c.values, x);
        auto& rounded = both == &k_ ? rounded_k_ : rounded_v_;
        rounded.push_back(both->back());
        if (both == &k_ && device::is_fp8(c.dtype)) rotate_rows(rounded.back(), c.head_dim, true);
        const float scale = both == &k_ ? c.k_scale : c.v_scale;
        for (float& x : rounded.back()) x = round_to(c.dtype, x * (1.0f / scale)) * scale;
      }
    }
    max_blocks_ = blocks_of(longest) + 1;
    std::vector<int32_t> free(static_cast<size_t>(num_blocks));
    for (size_t i = 0; i < free.size(); ++i) free[i] = static_cast<int32_t>(i);
    for (size_t i = free.size(); i > 1; --i) {
      std::swap(free[i - 1], free[static_cast<size_t>(numbers.below(static_cast<int>(i)))]);
    }
    tables_.assign(lengths.size() * static_cast<size_t>(max_blocks_), -1);
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int64_t b = 0; b < blocks_of(lengths[s]); ++b) {
        tables_[s * static_cast<size_t>(max_blocks_) + static_cast<size_t>(b)] = free.back();
        free.pop_back();
      }
    }
    const int64_t num_pages = num_blocks * (c.block_size / kPageTokens);
    const size_t bytes =
        static_cast<size_t>(num_pages) * kv_page_bytes(c.dtype, c.num_kv_heads, c.head_dim);
    cache_ = device::Buffer::create(bytes, false).value();
    std::memset(cache_.data(), 0xff, bytes);  // NaN in all types
    layer_ = {cache_.data(), c.dtype, num_pages, c.num_kv_heads, c.head_dim, c.k_scale, c.v_scale};
  }

  int64_t q_stride() const { return c_.num_heads * c_.head_dim; }
  int64_t kv_stride() const { return c_.num_kv_heads * c_.head_dim; }

  /// Writes K and V of tokens [begin, end) of sequence s, then makes NaN of what the page's
  /// clearing set to zero: nothing behind a sequence's end may matter.
  void write(const KernelContext& ctx, size_t s, int64_t begin, int64_t end) {
    std::vector<int64_t> slots;
    for (int64_t t = begin; t < end; ++t) slots.push_back(slot(s, t));
    const size_t offset = static_cast<size_t>(begin * kv_stride());
    kv_write(ctx, layer_, {&k_[s][offset], &v_[s][offset], kv_stride(), slots.data()}, end - begin);
    poison_after(s, end);
  }

  /// Attention of queries [begin_s, end_s) of several sequences at once. `writes`: one query of
  /// each, whose K and V attention writes itself.
  struct Piece {
    size_t s;
    int64_t begin, end;
  };
  std::vector<float> run(const KernelContext& ctx, const std::vector<Piece>& pieces,
                         bool writes = false) {
    std::vector<float> q, k, v;
    std::vector<int64_t> slots;
    std::vector<int32_t> starts = {0};
    std::vector<int32_t> lens;
    std::vector<int32_t> tables;
    for (const Piece& p : pieces) {
      q.insert(q.end(), q_[p.s].begin() + p.begin * q_stride(),
               q_[p.s].begin() + p.end * q_stride());
      k.insert(k.end(), k_[p.s].begin() + p.begin * kv_stride(),
               k_[p.s].begin() + p.end * kv_stride());
      v.insert(v.end(), v_[p.s].begin() + p.begin * kv_stride(),
               v_[p.s].begin() + p.end * kv_stride());
      slots.push_back(slot(p.s, p.begin));
      starts.push_back(starts.back() + static_cast<int32_t>(p.end - p.begin));
      lens.push_back(static_cast<int32_t>(p.end));
      const auto row = tables_.begin() + static_cast<int64_t>(p.s) * max_blocks_;
      tables.insert(tables.end(), row, row + max_blocks_);
    }
    AttentionBatch batch;
    batch.num_seqs = static_cast<int64_t>(pieces.size());
    batch.query_start_loc = starts.data();
    batch.seq_lens = lens.data();
    batch.block_tables = tables.data();
    batch.max_blocks_per_seq = max_blocks_;
    batch.block_size = c_.block_size;
    AttentionParams params;
    params.num_heads = c_.num_heads;
    params.scale = scale();
    params.sliding_window = c_.sliding_window;
    params.softcap = c_.softcap;
    params.mask = c_.mask;
    Misaligned q_misaligned(q);
    Misaligned out(q.size(), 7.0f);
    const KvTokens tokens{k.data(), v.data(), kv_stride(), slots.data()};
    attention(ctx, out.data(), q_stride(), q_misaligned.data(), q_stride(), layer_, batch, params,
              writes ? &tokens : nullptr);
    for (const Piece& p : pieces) {
      if (writes) poison_after(p.s, p.end);
    }
    return out.copy();
  }

  /// All sequences whole, without the cache.
  std::vector<float> run_without_cache(const KernelContext& ctx) const {
    std::vector<float> q, k, v;
    std::vector<int32_t> starts = {0};
    for (size_t s = 0; s < lengths_.size(); ++s) {
      q.insert(q.end(), q_[s].begin(), q_[s].end());
      k.insert(k.end(), k_[s].begin(), k_[s].end());
      v.insert(v.end(), v_[s].begin(), v_[s].end());
      starts.push_back(starts.back() + static_cast<int32_t>(lengths_[s]));
    }
    const AttentionRows rows{static_cast<int64_t>(lengths_.size()), starts.data(), c_.dtype,
                             c_.num_kv_heads, c_.head_dim};
    AttentionParams params;
    params.num_heads = c_.num_heads;
    params.scale = scale();
    params.sliding_window = c_.sliding_window;
    params.softcap = c_.softcap;
    params.mask = c_.mask;
    std::vector<float> out(q.size(), 7.0f);
    attention_without_cache(ctx, out.data(), q_stride(), q.data(), q_stride(), k.data(), v.data(),
                            kv_stride(), rows, params);
    return out;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

  /// One query and head in f64 from the cache's rounded K and V; where K is rotated, with the query
  /// rotated by the matrix's definition.
  ///
  /// Tolerance, for outputs that are averages of |v| <= 1:
  ///   a score that is off by e changes its weight by the factor exp(e), the average by 2 e. The
  ///   score's error: q rounded to bf16 (2^-9 relative) where the cache is bf16 or fp8, and f32
  ///   sums of head_dim terms, each against sum |q k| * scale. A rotated q is a sum of up to
  ///   head_dim terms in up to 8 roundings, each against sum |q|. Weights are rounded to bf16
  ///   (2^-9) where the cache is bf16 or fp8, exp2 is good to 3e-6 there and to 1e-6 elsewhere;
  ///   sums over the keys round in f32.
  std::pair<std::vector<double>, double> expected(size_t s, int64_t position, int64_t head) const {
    const int64_t d = c_.head_dim;
    const auto [q, q_error] = query(&q_[s][static_cast<size_t>(position * q_stride() + head * d)]);
    const int64_t kv_head = head / (c_.num_heads / c_.num_kv_heads);
    const int64_t begin =
        c_.sliding_window > 0 ? std::max<int64_t>(position - c_.sliding_window + 1, 0) : 0;
    std::vector<double> scores;
    double largest = -1e300;
    double magnitude = 0;
    double rotation_error = 0;
    int64_t end = position + 1;
    if (c_.mask == MaskKind::kBidirectional) {
      end = lengths_[s];
      if (c_.sliding_window > 0) end = std::min(end, position + c_.sliding_window);
    }
    for (int64_t t = begin; t < end; ++t) {
      const float* k = &rounded_k_[s][static_cast<size_t>(t * kv_stride() + kv_head * d)];
      double sum = 0;
      double m = 0;
      double from_rotation = 0;
      for (int64_t i = 0; i < d; ++i) {
        const double term = q[static_cast<size_t>(i)] * k[i] * scale();
        sum += term;
        m += std::abs(term);
        from_rotation += q_error * std::abs(k[i]) * scale();
      }
      magnitude = std::max(magnitude, m);
      rotation_error = std::max(rotation_error, from_rotation);
      if (c_.softcap > 0) sum = c_.softcap * std::tanh(sum / c_.softcap);
      scores.push_back(sum);
      largest = std::max(largest, sum);
    }
    std::vector<double> out(static_cast<size_t>(d));
    double total = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      const double w = std::exp(scores[j] - largest);
      total += w;
      const float* v = &rounded_v_[s][static_cast<size_t>(
          (begin + static_cast<int64_t>(j)) * kv_stride() + kv_head * d)];
      for (int64_t i = 0; i < d; ++i) {
        out[static_cast<size_t>(i)] += w * v[i];
      }
    }
    for (double& x : out) x /= total;
    const bool rounded = c_.dtype == device::DType::kBF16 || device::is_fp8(c_.dtype);
    const double score_error = magnitude * ((rounded ? 0x1p-9 : 0) + (d + 4.0) * 0x1p-23) +
                               rotation_error + std::abs(c_.softcap) * 0x1p-22;
    const double tolerance = 2 * score_error + (rounded ? 2 * 0x1p-9 + 6e-6 : 4e-6) +
                             static_cast<double>(scores.size() + 8) * 0x1p-23;
    return {out, tolerance};
  }

 private:
  /// A query as it meets the cache's keys, and how far f32 may be from that per dim.
  std::pair<std::vector<double>, double> query(const float* q) const {
    const int64_t d = c_.head_dim;
    std::vector<double> out(q, q + d);
    if (!device::is_fp8(c_.dtype)) return {out, 0.0};
    const double factor = rotation_factor(d, false);
    double largest = 0;
    for (int64_t i = 0; i < d; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double term = rotation_[static_cast<size_t>(i * d + j)] * q[j];
        sum += term;
        magnitude += std::abs(term);
      }
      out[static_cast<size_t>(i)] = factor * sum;
      largest = std::max(largest, factor * magnitude);
    }
    return {out, largest * 8 * 0x1p-24};
  }

  int64_t blocks_of(int64_t length) const { return (length + c_.block_size - 1) / c_.block_size; }
  int64_t slot(size_t s, int64_t t) const {
    const int32_t block =
        tables_[s * static_cast<size_t>(max_blocks_) + static_cast<size_t>(t / c_.block_size)];
    return block * c_.block_size + t % c_.block_size;
  }

  void poison_after(size_t s, int64_t end) {
    const size_t head_bytes = kv_page_bytes(c_.dtype, 1, c_.head_dim);
    const int64_t size = static_cast<int64_t>(device::size_of(c_.dtype));
    for (int64_t t = end; t % kPageTokens != 0; ++t) {
      for (int64_t head = 0; head < c_.num_kv_heads; ++head) {
        std::byte* const k =
            layer_.data +
            static_cast<size_t>((slot(s, end - 1) / kPageTokens) * c_.num_kv_heads + head) *
                head_bytes;
        std::byte* const v = k + head_bytes / 2;
        const int64_t o = t % kPageTokens;
        for (int64_t i = 0; i < c_.head_dim; ++i) {
          const bool pairs = size <= 2;
          std::memset(k + size * (pairs ? 32 * (i / 2) + 2 * o + i % 2 : 16 * i + o), 0xff,
                      static_cast<size_t>(size));
          std::memset(
              v + size * (pairs ? (o / 2 * c_.head_dim + i) * 2 + o % 2 : o * c_.head_dim + i),
              0xff, static_cast<size_t>(size));
        }
      }
    }
  }

  AttentionCase c_;
  std::vector<double> rotation_;  // [head_dim][head_dim], of one-byte types
  std::vector<int64_t> lengths_;
  std::vector<std::vector<float>> q_, k_, v_;              // per sequence
  std::vector<std::vector<float>> rounded_k_, rounded_v_;  // as the cache holds them
  int64_t max_blocks_ = 0;
  std::vector<int32_t> tables_;
  device::Buffer cache_;
  KvLayer layer_;
};

}  // namespace octavo::kernels
