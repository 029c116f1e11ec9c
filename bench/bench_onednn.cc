// Our products beside oneDNN's matmul on the same shapes in the same run, in turn.
//   bench_onednn [threads] [type ...]     types: F32 BF16 Q8_0
// Types: F32 and BF16 on both sides; Q8_0 (f32 in, rows quantised on the way, a scale for 32
// columns) beside u8 by s8 with ready bytes and one scale, which is less work. Built where
// libdnnl-dev is installed; oneDNN is no part of the product.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/roofs.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear.h"

extern "C" void omp_set_num_threads(int);  // of the OpenMP run-time that oneDNN brings

namespace octavo::bench {
namespace {

using namespace kernels;  // a program of its own

struct Shape {
  int64_t rows, cols;
};
// SmolLM2-135M's layers and an 8B's.
constexpr Shape kShapes[] = {{960, 576},   {3072, 576},   {576, 1536},
                             {4096, 4096}, {14336, 4096}, {4096, 14336}};
constexpr int64_t kTokens[] = {1, 16, 64, 512};
constexpr int kRounds = 9;
/// Copies of a matrix that follow each other, so that small ones do not stay in L2.
constexpr int64_t kBytesOfCopies = int64_t{64} << 20;

struct Type {
  const char* name;
  WeightFormat format;
  dnnl::memory::data_type source, weight, out;
};
const Type kTypes[] = {
    {"F32", WeightFormat::kF32, dnnl::memory::data_type::f32, dnnl::memory::data_type::f32,
     dnnl::memory::data_type::f32},
    {"BF16", WeightFormat::kBF16, dnnl::memory::data_type::bf16, dnnl::memory::data_type::bf16,
     dnnl::memory::data_type::f32},
    {"Q8_0", WeightFormat::kQ8_0, dnnl::memory::data_type::u8, dnnl::memory::data_type::s8,
     dnnl::memory::data_type::s32},
};

/// Numbers of either side's type: bit patterns near one, no subnormals.
void fill(void* data, size_t bytes) {
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = (random() & 0x80ff80ff80ff80ffu) | 0x3c003c003c003c00u;
    std::memcpy(static_cast<char*>(data) + i, &word, 8);
  }
}

class OneDnn {
 public:
  OneDnn(const Type& type, const Shape& shape, int64_t tokens, int copies)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Memory = dnnl::memory;
    const Memory::desc source({tokens, shape.cols}, type.source, Memory::format_tag::ab);
    const Memory::desc any({shape.cols, shape.rows}, type.weight, Memory::format_tag::any);
    const Memory::desc plain({shape.cols, shape.rows}, type.weight, Memory::format_tag::ba);
    const Memory::desc out({tokens, shape.rows}, type.out, Memory::format_tag::ab);
    const dnnl::matmul::desc desc(source, any, out);
    const dnnl::matmul::primitive_desc chosen(desc, engine_);
    matmul_ = dnnl::matmul(chosen);
    source_ = Memory(source, engine_);
    out_ = Memory(out, engine_);
    fill(source_.get_data_handle(), source.get_size());
    Memory rows(plain, engine_);
    fill(rows.get_data_handle(), plain.get_size());
    for (int i = 0; i < copies; ++i) {
      weights_.emplace_back(chosen.weights_desc(), engine_);
      dnnl::reorder(rows, weights_.back()).execute(stream_, rows, weights_.back());
    }
    stream_.wait();
  }
  void run() {
    for (const dnnl::memory& weight : weights_) {
      matmul_.execute(stream_,
                      {{DNNL_ARG_SRC, source_}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, out_}});
    }
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  dnnl::memory source_, out_;
  std::vector<dnnl::memory> weights_;
};

class Ours {
 public:
  Ours(const KernelContext& context, const Type& type, const Shape& shape, int64_t tokens,
       int copies)
      : context_(context),
        tokens_(tokens),
        x_(static_cast<size_t>(tokens * shape.cols)),
        out_(static_cast<size_t>(tokens * shape.rows)) {
    std::vector<std::byte> rows(static_cast<size_t>(shape.rows) *
                                row_bytes(type.format, shape.cols));
    fill(rows.data(), rows.size());
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    const WeightPart part{rows.data(), type.format, shape.rows};
    for (int i = 0; i < copies; ++i) {
      weights_.push_back(
          PackedMatrix::create(context_, {&part, 1}, shape.cols, type.format, Arithmetic::kNative)
              .value());
    }
  }
  void run() {
    for (const PackedMatrix& m : weights_) {
      linear(context_, out_.data(), m.num_rows(), x_.data(), m.num_cols(), tokens_, m, nullptr,
             Epilogue::kStore);
    }
  }

 private:
  KernelContext context_;
  int64_t tokens_;
  std::vector<float> x_, out_;
  std::vector<PackedMatrix> weights_;
};

/// The other side's threads spin for some milliseconds after their work: on as many cores as
/// threads that would be charged to this side.
template <class Side>
double seconds_of(Side& side) {
  const double rested = device::now_seconds(/*cpu_time=*/false) + 0.01;
  while (device::now_seconds(/*cpu_time=*/false) < rested) {
  }
  side.run();
  const double start = device::now_seconds(/*cpu_time=*/false);
  side.run();
  return device::now_seconds(/*cpu_time=*/false) - start;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void compare(const KernelContext& context, const Type& type, const Shape& shape, int64_t tokens) {
  const int64_t bytes = shape.rows * static_cast<int64_t>(row_bytes(type.format, shape.cols));
  const int copies = static_cast<int>(std::clamp<int64_t>(kBytesOfCopies / bytes, 1, 30));
  Ours ours(context, type, shape, tokens, copies);
  OneDnn theirs(type, shape, tokens, copies);
  std::vector<double> a, b, ratios;
  for (int i = 0; i < kRounds; ++i) {
    a.push_back(seconds_of(ours));
    b.push_back(seconds_of(theirs));
    ratios.push_back(b.back() / a.back());
  }
  std::sort(ratios.begin(), ratios.end());
  const double giga = 2e-9 * copies * static_cast<double>(shape.rows * shape.cols * tokens);
  std::printf(
      "%-4s [%4ld, %4ld] M=%-3ld  octavo %7.1f  oneDNN %7.1f GOP/s   ratio %.2f (%.2f-%.2f)\n",
      type.name, static_cast<long>(shape.rows), static_cast<long>(shape.cols),
      static_cast<long>(tokens), giga / median(a), giga / median(b), median(ratios), ratios[1],
      ratios[kRounds - 2]);
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int threads =
      std::clamp(argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 1, 1, 256);
  omp_set_num_threads(threads);
  device::ThreadPool pool(threads);
  device::Workspace workspace;
  workspace.reserve(size_t{256} << 20).value();
  const dnnl_version_t* version = dnnl_version();
  std::printf(
      "%s, %d threads, oneDNN %d.%d.%d; median of %d, ratio with its second and last but one\n",
      std::string(name_of(current_isa())).c_str(), threads, version->major, version->minor,
      version->patch, kRounds);
  for (const Type& type : kTypes) {
    const auto is_type = [&](const char* name) { return std::string_view(name) == type.name; };
    if (argc > 2 && std::none_of(argv + 2, argv + argc, is_type)) continue;
    for (const Shape& shape : kShapes) {
      for (const int64_t tokens : kTokens) compare({pool, workspace}, type, shape, tokens);
    }
  }
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) { return octavo::bench::run(argc, argv); }
