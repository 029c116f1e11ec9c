// Micro-benchmarks of the kernels on SmolLM2-135M's shapes, beside the machine's roofs measured in
// the same run.
//   bench_kernels [threads] [format ...]     formats: Q4_0 Q4_1 Q8_0 BF16 F16 F32, attention, head,
//   pack, small, shapes; step-N: all products of a step of N rows; an ISA row
//   as --kernel names it
//   bench_kernels [threads] roofs [MiB ...]  only the roofs, as JSON: reading at each working set
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/roofs.h"
#include "device/thread_plan.h"
#include "kernels/attention/attention.h"
#include "kernels/dispatch.h"
#include "kernels/linear/gated_linear.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_largest.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/silu_and_mul/silu_and_mul.h"

namespace octavo::bench {
namespace {

using namespace kernels;  // a program of its own

constexpr int kLayers = 30;
struct Shape {
  int64_t rows, cols;
};
constexpr Shape kShapes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr int64_t kMaxTokens = 512;

/// Median of `repeats` runs, seconds.
template <class F>
double median_seconds(bool cpu_time, int repeats, F f) {
  f();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double start = device::now_seconds(cpu_time);
    f();
    times.push_back(device::now_seconds(cpu_time) - start);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

std::vector<std::byte> random_rows(WeightFormat format, int64_t rows, int64_t cols) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows) * row_bytes(format, cols));
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    // Every 16-bit number, read as f16, bf16 or the upper half of f32, has an exponent near zero:
    // subnormal products would cost Intel's FMA 150 cycles each.
    const uint64_t word = (random() & 0x80ff80ff80ff80ffu) | 0x3c003c003c003c00u;
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

struct Bench {
  explicit Bench(int threads) : pool(threads) { workspace.reserve(size_t{256} << 20).value(); }
  bool cpu_time() const { return pool.num_threads() == 1; }
  KernelContext context() { return {pool, workspace}; }
  device::ThreadPool pool;
  device::Workspace workspace;
  device::Roofs roofs;
};

void bench_linear(Bench& bench, WeightFormat format, Arithmetic arithmetic) {
  std::vector<PackedMatrix> matrices;
  size_t bytes = 0;
  double macs = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Shape& shape : kShapes) {
      // Whole super-blocks: 768 columns for 576.
      const int64_t elements = block_elements(format);
      const int64_t cols = (shape.cols + elements - 1) / elements * elements;
      const auto rows = random_rows(format, shape.rows, cols);
      const WeightPart part{rows.data(), format, shape.rows};
      matrices.push_back(
          PackedMatrix::create(bench.context(), {&part, 1}, cols, format, arithmetic).value());
      bytes += matrices.back().size_bytes();
      macs += static_cast<double>(shape.rows * cols);
    }
  }
  std::vector<float> x(kMaxTokens * 1536, 0.5f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  std::vector<float> out(kMaxTokens * 3072);
  for (const int64_t tokens : {1, 4, 8, 16, 64, 512}) {
    const double seconds = median_seconds(bench.cpu_time(), tokens >= 64 ? 3 : 9, [&] {
      for (const PackedMatrix& m : matrices) {
        linear(bench.context(), out.data(), m.num_rows(), x.data(), m.num_cols(), tokens, m,
               nullptr, Epilogue::kStore);
      }
    });
    const double gb_s = static_cast<double>(bytes) / 1e9 / seconds;
    const double gop_s = 2 * macs * static_cast<double>(tokens) / 1e9 / seconds;
    const bool block = format >= WeightFormat::kQ8_0;
    const double roof = block ? bench.roofs.int8_gop_s : bench.roofs.bf16_gflop_s;
    std::printf(
        "linear %-5s %s M=%-4ld %8.3f ms  %6.1f GB/s (%3.0f %% of read)  %7.1f G%s/s "
        "(%3.0f %%)\n",
        std::string(name_of(format)).c_str(),
        arithmetic == Arithmetic::kNative ? "native" : "f32   ", static_cast<long>(tokens),
        seconds * 1e3, gb_s, 100 * gb_s / bench.roofs.read_gb_s, gop_s, block ? "OP" : "FLOP",
        roof > 0 ? 100 * gop_s / roof : 0.0);
  }
}

/// Each shape of a layer by itself, 512 rows: which one falls behind.
void bench_shapes(Bench& bench, WeightFormat format) {
  constexpr int64_t kTokens = 512;
  std::vector<float> x(kTokens * 1536), out(kTokens * 3072);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  for (const Shape& shape : kShapes) {
    std::vector<PackedMatrix> matrices;
    const auto rows = random_rows(format, shape.rows, shape.cols);
    const WeightPart part{rows.data(), format, shape.rows};
    for (int layer = 0; layer < kLayers; ++layer) {
      matrices.push_back(
          PackedMatrix::create(bench.context(), {&part, 1}, shape.cols, format, Arithmetic::kNative)
              .value());
    }
    const double seconds = median_seconds(bench.cpu_time(), 5, [&] {
      for (const PackedMatrix& m : matrices) {
        linear(bench.context(), out.data(), m.num_rows(), x.data(), m.num_cols(), kTokens, m,
               nullptr, Epilogue::kStore);
      }
    });
    const double gop_s =
        2.0 * kLayers * static_cast<double>(shape.rows * shape.cols * kTokens) / 1e9 / seconds;
    std::printf("linear %-5s [%ld, %ld] M=%ld %8.3f ms  %7.1f GOP/s\n",
                std::string(name_of(format)).c_str(), static_cast<long>(shape.rows),
                static_cast<long>(shape.cols), static_cast<long>(kTokens), seconds * 1e3, gop_s);
  }
}

/// SmolLM2's products of a step of `num_tokens` rows as the model runs them, layer by layer: norms
/// and quantising before, SiLU between, residuals after, and in each layer the KV of as many
/// sequences read (64 at most), so that weights come from where a server finds them.
class StepBench {
 public:
  StepBench(Bench& bench, WeightFormat format, int64_t num_tokens, const device::Buffer& kv)
      : bench_(bench),
        format_(format),
        num_tokens_(num_tokens),
        kv_(kv),
        num_hidden_((576 + block_elements(format) - 1) / block_elements(format) *
                    block_elements(format)) {
    for (int layer = 0; layer < kLayers; ++layer) {
      qkv_.push_back(packed(kQkv, num_hidden_));
      o_.push_back(packed(num_hidden_, num_hidden_));
      gate_up_.push_back(packed(2 * kInner, num_hidden_));
      down_.push_back(packed(num_hidden_, kInner));
    }
    head_ = packed(kVocab, num_hidden_);
    weight_.assign(static_cast<size_t>(num_hidden_), 1.0f);
    const auto rows = static_cast<size_t>(num_tokens);
    const auto hidden = static_cast<size_t>(num_hidden_);
    x_.resize(rows * hidden);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    // As in trained models, one channel is far above the others.
    for (size_t row = 0; row < rows; ++row) x_[row * hidden + 300] = 30.0f;
    qkv_out_.resize(rows * kQkv);
    hidden_.resize(rows * hidden);
    inner_.resize(rows * prepared_row_bytes(down_.front()));
    largest_.resize(kMostLogitsRows);
  }

  void run(int repeats) {
    std::array<std::vector<double>, kOps> times;
    for (int i = 0; i <= repeats; ++i) {
      seconds_.fill(0);
      for (size_t layer = 0; layer < kLayers; ++layer) run_layer(layer);
      run_head();
      for (size_t op = 0; i > 0 && op < kOps; ++op) times[op].push_back(seconds_[op]);
    }
    constexpr std::array<const char*, kOps> kNames = {"qkv", "o", "gate_up", "down", "head"};
    const std::array<int64_t, kOps> weights = {kQkv * num_hidden_, num_hidden_ * num_hidden_,
                                               2 * kInner * num_hidden_, num_hidden_ * kInner,
                                               kVocab * num_hidden_};
    double sum = 0;
    for (size_t op = 0; op < kOps; ++op) {
      std::sort(times[op].begin(), times[op].end());
      const double seconds = times[op][times[op].size() / 2];
      sum += seconds;
      const int64_t rows = op + 1 == kOps ? head_rows() : num_tokens_ * kLayers;
      const double gop_s = 2.0 * static_cast<double>(weights[op] * rows) / 1e9 / seconds;
      std::printf("step-%ld %-5s %-8s %8.3f ms (best %8.3f)  %7.1f GOP/s (%4.1f %%)\n",
                  static_cast<long>(num_tokens_), std::string(name_of(format_)).c_str(), kNames[op],
                  seconds * 1e3, times[op][0] * 1e3, gop_s, 100 * gop_s / bench_.roofs.int8_gop_s);
    }
    std::printf("step-%ld %-5s all      %8.3f ms\n", static_cast<long>(num_tokens_),
                std::string(name_of(format_)).c_str(), sum * 1e3);
  }

 private:
  static constexpr int64_t kQkv = 960, kInner = 1536, kVocab = 49152;
  static constexpr int64_t kMostLogitsRows = 64;
  static constexpr size_t kKvBytes = size_t{144} << 10;  // of a layer and a sequence of 192 tokens
  static constexpr size_t kOps = 5;

  PackedMatrix packed(int64_t rows, int64_t cols) {
    const auto bytes = random_rows(format_, rows, cols);
    const WeightPart part{bytes.data(), format_, rows};
    return PackedMatrix::create(bench_.context(), {&part, 1}, cols, format_, Arithmetic::kNative,
                                &arena_)
        .value();
  }
  int64_t head_rows() const { return std::min(num_tokens_, kMostLogitsRows); }

  template <class F>
  void time(size_t op, F f) {
    const double start = device::now_seconds(bench_.cpu_time());
    f();
    seconds_[op] += device::now_seconds(bench_.cpu_time()) - start;
  }

  /// A layer's keys and values, by all threads, as attention does.
  void read_kv(size_t layer) {
    constexpr size_t kPiece = size_t{16} << 10;
    const size_t bytes = kKvBytes * static_cast<size_t>(head_rows());
    const std::byte* const begin = kv_.data() + layer % (kv_.size_bytes() / bytes) * bytes;
    bench_.pool.parallel_for(static_cast<int64_t>(bytes / kPiece), 1,
                             [&](int64_t piece, int64_t piece_end, int) {
                               unsigned sum = 0;
                               for (size_t at = static_cast<size_t>(piece) * kPiece;
                                    at < static_cast<size_t>(piece_end) * kPiece; at += 64) {
                                 sum += static_cast<unsigned>(begin[at]);
                               }
                               sink_.fetch_add(sum, std::memory_order_relaxed);
                             });
  }

  void run_layer(size_t i) {
    const KernelContext ctx = bench_.context();
    const RowNorm norm{weight_.data(), 1e-5f};
    time(0, [&] {
      linear(ctx, qkv_out_.data(), kQkv, x_.data(), num_hidden_, num_tokens_, qkv_[i], nullptr,
             Epilogue::kStore, &norm);
    });
    read_kv(i);
    time(1, [&] {
      linear(ctx, hidden_.data(), num_hidden_, x_.data(), num_hidden_, num_tokens_, o_[i], nullptr,
             Epilogue::kAdd);
    });
    time(2, [&] {
      gated_linear(ctx, inner_.data(), x_.data(), num_hidden_, num_tokens_, {&gate_up_[i]},
                   {&gate_up_[i], kInner}, down_[i], &norm);
    });
    time(3, [&] {
      linear_prepared(ctx, hidden_.data(), num_hidden_, inner_.data(), num_tokens_, down_[i],
                      nullptr, Epilogue::kAdd);
    });
  }

  void run_head() {
    const RowNorm norm{weight_.data(), 1e-5f};
    const auto rows = static_cast<size_t>(head_rows());
    time(4, [&] {
      linear_largest(bench_.context(), {std::span(nowhere_).first(rows), {largest_.data(), rows}},
                     x_.data(), num_hidden_, head_rows(), head_, 1.0f, &norm);
    });
  }

  Bench& bench_;
  WeightFormat format_;
  int64_t num_tokens_;
  const device::Buffer& kv_;
  int64_t num_hidden_;  // 576, or as many as whole super-blocks want
  std::vector<PackedMatrix> qkv_, o_, gate_up_, down_;
  PackedMatrix head_;
  device::Arena arena_;
  std::vector<float> x_, qkv_out_, hidden_, weight_;
  std::vector<std::byte> inner_;
  std::vector<float*> nowhere_ = std::vector<float*>(kMostLogitsRows, nullptr);
  std::vector<LogitsScan> largest_;
  std::array<double, kOps> seconds_{};
  std::atomic<unsigned> sink_ = 0;  // what is read has a use
};

/// The N of each word "step-N".
std::vector<int64_t> step_sizes(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("step-")) {
      sizes.push_back(std::clamp<int64_t>(std::strtol(argv[i] + 5, nullptr, 10), 1, 4096));
    }
  }
  return sizes;
}

/// 30 layers of SmolLM2's cache (9 heads, 3 kv heads of 64), blocks in random order.
void bench_attention(Bench& bench) {
  constexpr int64_t kHeads = 9, kKvHeads = 3, kDim = 64;
  for (const device::DType dtype :
       {device::DType::kBF16, device::DType::kE4M3, device::DType::kE5M2, device::DType::kF32}) {
    struct Case {
      int64_t seqs, queries, keys;
    };
    for (const Case& c :
         {Case{1, 1, 128}, Case{1, 1, 1024}, Case{1, 1, 8192}, Case{1, 1, 32000}, Case{16, 1, 256},
          Case{64, 1, 192}, Case{1, 512, 512}, Case{4, 128, 128}}) {
      const int64_t blocks = (c.keys + 15) / 16;
      const int64_t pages = c.seqs * blocks;
      const size_t layer_bytes = static_cast<size_t>(pages) * kv_page_bytes(dtype, kKvHeads, kDim);
      const device::Buffer cache = device::Buffer::create(layer_bytes * kLayers, true).value();
      std::vector<int32_t> tables(static_cast<size_t>(pages));
      for (size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<int32_t>(i);
      std::shuffle(tables.begin(), tables.end(), std::mt19937(1));
      std::vector<int32_t> starts = {0};
      std::vector<int32_t> lens;
      for (int64_t s = 0; s < c.seqs; ++s) {
        starts.push_back(starts.back() + static_cast<int32_t>(c.queries));
        lens.push_back(static_cast<int32_t>(c.keys));
      }
      const size_t row = kHeads * kDim;
      std::vector<float> q(static_cast<size_t>(starts.back()) * row, 0.1f), out(q.size());
      // Fill the cache, so that its pages are real memory.
      std::vector<float> kv(static_cast<size_t>(pages) * 16 * kKvHeads * kDim, 0.25f);
      std::vector<int64_t> slots(static_cast<size_t>(pages) * 16);
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
      const auto layer_of = [&](int i) {
        return KvLayer{cache.data() + layer_bytes * static_cast<size_t>(i), dtype, pages, kKvHeads,
                       kDim};
      };
      const double write_seconds = median_seconds(bench.cpu_time(), 1, [&] {
        for (int i = 0; i < kLayers; ++i) {
          kv_write(bench.context(), layer_of(i),
                   {kv.data(), kv.data(), kKvHeads * kDim, slots.data()},
                   static_cast<int64_t>(slots.size()));
        }
      });
      AttentionBatch batch{c.seqs, starts.data(), lens.data(), tables.data(), blocks, 16};
      AttentionParams params;
      params.num_heads = kHeads;
      params.scale = 0.125f;
      const double seconds = median_seconds(bench.cpu_time(), 5, [&] {
        for (int i = 0; i < kLayers; ++i) {
          attention(bench.context(), out.data(), row, q.data(), row, layer_of(i), batch, params);
        }
      });
      const double gb_s = static_cast<double>(layer_bytes * kLayers) / 1e9 / seconds;
      double pairs = 0;  // (query, key)
      for (int64_t i = 0; i < c.queries; ++i) pairs += static_cast<double>(c.keys - i);
      const double gflop_s =
          4.0 * kDim * kHeads * kLayers * static_cast<double>(c.seqs) * pairs / 1e9 / seconds;
      std::printf(
          "attention %s %2ld seqs %3ld queries %5ld keys: %8.3f ms  %6.1f GB/s (%3.0f %%) "
          "%7.1f GFLOP/s (%3.0f %%)  kv_write %.3f ms\n",
          std::string(device::name_of(dtype)).c_str(), static_cast<long>(c.seqs),
          static_cast<long>(c.queries), static_cast<long>(c.keys), seconds * 1e3, gb_s,
          100 * gb_s / bench.roofs.read_gb_s, gflop_s, 100 * gflop_s / bench.roofs.bf16_gflop_s,
          write_seconds * 1e3);
    }
  }
}

/// A head's step for greedy rows: logits written and scanned, against their largest alone, in turn.
void bench_head(Bench& bench) {
  constexpr int64_t kVocab = 49152, kCols = 576, kMostRows = 64;
  std::vector<float> x(kMostRows * kCols), logits(kMostRows * kVocab);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kQ8_0, WeightFormat::kQ4_1}) {
    const auto rows = random_rows(format, kVocab, kCols);
    const WeightPart part{rows.data(), format, kVocab};
    const PackedMatrix head =
        PackedMatrix::create(bench.context(), {&part, 1}, kCols, format, Arithmetic::kNative)
            .value();
    for (const int64_t tokens : {1, 16, 64}) {
      std::vector<LogitsScan> largest(static_cast<size_t>(tokens));
      const std::vector<float*> nowhere(static_cast<size_t>(tokens), nullptr);
      const auto written = [&] {
        linear(bench.context(), logits.data(), kVocab, x.data(), kCols, tokens, head, nullptr,
               Epilogue::kStore);
        bench.pool.parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t t = begin; t < end; ++t) {
            largest[static_cast<size_t>(t)] =
                scan_logits({&logits[static_cast<size_t>(t * kVocab)], kVocab});
          }
        });
      };
      const auto alone = [&] {
        linear_largest(bench.context(), {nowhere, largest}, x.data(), kCols, tokens, head, 1.0f,
                       nullptr);
      };
      std::vector<double> times[2];
      for (int i = 0; i < 41; ++i) {
        for (const bool is_new : {false, true}) {
          const double start = device::now_seconds(bench.cpu_time());
          is_new ? alone() : written();
          times[is_new ? 1 : 0].push_back(device::now_seconds(bench.cpu_time()) - start);
        }
      }
      for (auto& list : times) std::sort(list.begin(), list.end());
      std::printf("head %-5s M=%-3ld written %8.3f ms (best %8.3f)  largest alone %8.3f (%8.3f)\n",
                  std::string(name_of(format)).c_str(), static_cast<long>(tokens),
                  times[0][20] * 1e3, times[0][0] * 1e3, times[1][20] * 1e3, times[1][0] * 1e3);
    }
  }
}

void bench_small(Bench& bench) {
  std::vector<float> x(512 * 3072, 0.5f), out(x.size()), weight(3072, 1.0f);
  const double empty = median_seconds(bench.cpu_time(), 9, [&] {
    for (int i = 0; i < 1000; ++i) bench.pool.parallel_for(2, 1, [](int64_t, int64_t, int) {});
  });
  std::printf("empty fork-join %.2f us\n", empty * 1e3);
  for (const int64_t rows : {1, 512}) {
    const int repeats = rows == 1 ? 1000 : 10;
    const double norm = median_seconds(bench.cpu_time(), 5, [&] {
      for (int i = 0; i < repeats; ++i) {
        rms_norm(bench.context(), out.data(), 576, x.data(), 576, rows, 576, weight.data(), 1e-5f);
      }
    });
    const double silu = median_seconds(bench.cpu_time(), 5, [&] {
      for (int i = 0; i < repeats; ++i) {
        silu_and_mul(out.data(), x.data(), x.data() + rows * 1536, rows * 1536);
      }
    });
    std::printf("rows %ld: rms_norm 576 %.2f us, silu_and_mul 1536 %.2f us\n",
                static_cast<long>(rows), norm / repeats * 1e6, silu / repeats * 1e6);
  }
}

void bench_pack(Bench& bench) {
  for (const WeightFormat format : {WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ8_0,
                                    WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ4_K,
                                    WeightFormat::kQ6_K, WeightFormat::kBF16, WeightFormat::kF32}) {
    const auto rows = random_rows(format, 16384, 1536);
    const WeightPart part{rows.data(), format, 16384};
    const double seconds = median_seconds(bench.cpu_time(), 3, [&] {
      (void)PackedMatrix::create(bench.context(), {&part, 1}, 1536, format, Arithmetic::kNative)
          .value();
    });
    std::printf("pack %s: %.1f GB/s\n", std::string(name_of(format)).c_str(),
                static_cast<double>(rows.size()) / 1e9 / seconds);
  }
}

/// One object: what reading reaches at each working set, and the arithmetic roofs.
int print_roofs(Bench& bench, std::vector<size_t> mebibytes) {
  constexpr size_t kMostMebibytes = size_t{1} << 14;
  if (mebibytes.empty()) mebibytes = {256};
  std::printf("{\"isa\":\"%s\",\"threads\":%d,\"read_gb_s\":{",
              std::string(name_of(current_isa())).c_str(), bench.pool.num_threads());
  for (size_t i = 0; i < mebibytes.size(); ++i) {
    const size_t size = std::clamp(mebibytes[i], size_t{1}, kMostMebibytes) << 20;
    auto buffer = device::Buffer::create(size, true);
    if (!buffer.ok()) {
      std::fprintf(stderr, "%s\n", buffer.error().message.c_str());
      return 1;
    }
    std::memset(buffer->data(), 1, size);
    bench.roofs = device::measure_roofs(bench.pool, buffer->data(), size);
    std::printf("%s\"%zu\":%.1f", i == 0 ? "" : ",", size >> 20, bench.roofs.read_gb_s);
  }
  std::printf("},\"f32_gflop_s\":%.0f,\"bf16_gflop_s\":%.0f,\"int8_gop_s\":%.0f}\n",
              bench.roofs.f32_gflop_s, bench.roofs.bf16_gflop_s, bench.roofs.int8_gop_s);
  return 0;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Bench bench(argc > 1 ? std::max(static_cast<int>(std::strtol(argv[1], nullptr, 10)), 1)
                       : device::plan_threads({}).value().num_threads);
  const auto wanted = [&](std::string_view what) {
    if (argc <= 2) return true;
    for (int i = 2; i < argc; ++i) {
      if (what == argv[i]) return true;
    }
    return false;
  };
  if (argc > 2 && std::string_view(argv[2]) == "roofs") {
    std::vector<size_t> mebibytes;
    for (int i = 3; i < argc; ++i) mebibytes.push_back(std::strtoul(argv[i], nullptr, 10));
    return print_roofs(bench, std::move(mebibytes));
  }
  for (const Isa isa : kIsas) {
    if (argc <= 2 || !wanted(name_of(isa))) continue;
    if (const Status set = set_isa(isa); !set.ok()) {
      std::fprintf(stderr, "%s\n", set.error().message.c_str());
      return 2;
    }
  }
  constexpr size_t kReadBytes = size_t{256} << 20;
  const device::Buffer buffer = device::Buffer::create(kReadBytes, true).value();
  std::memset(buffer.data(), 1, kReadBytes);
  bench.roofs = device::measure_roofs(bench.pool, buffer.data(), kReadBytes);
  std::printf("%s, %d threads; roofs: read %.1f GB/s, int8 %.0f GOP/s, bf16 %.0f GFLOP/s\n",
              std::string(name_of(current_isa())).c_str(), bench.pool.num_threads(),
              bench.roofs.read_gb_s, bench.roofs.int8_gop_s, bench.roofs.bf16_gflop_s);
  for (const WeightFormat format :
       {WeightFormat::kQ4_1, WeightFormat::kQ4_0, WeightFormat::kQ8_0, WeightFormat::kQ5_0,
        WeightFormat::kQ5_1, WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K,
        WeightFormat::kI4G128, WeightFormat::kI8G128, WeightFormat::kF8G128, WeightFormat::kBF16,
        WeightFormat::kF16, WeightFormat::kF32}) {
    if (!wanted(name_of(format))) continue;
    const std::vector<int64_t> steps = step_sizes(argc, argv);
    for (const int64_t num_tokens : steps) {
      StepBench(bench, format, num_tokens, buffer).run(num_tokens > 256 ? 7 : 21);
    }
    if (!steps.empty()) continue;
    bench_linear(bench, format, Arithmetic::kNative);
    if (wanted("shapes")) bench_shapes(bench, format);
    if (wanted("f32") && format != WeightFormat::kF32) {
      bench_linear(bench, format, Arithmetic::kF32);
    }
  }
  if (wanted("attention")) bench_attention(bench);
  if (wanted("head")) bench_head(bench);
  if (wanted("small")) bench_small(bench);
  if (wanted("pack")) bench_pack(bench);
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) { return octavo::bench::run(argc, argv); }
