#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "kernels/dispatch.h"
#include "kernels/linear/linear.h"
#include "kernels/variants.h"

// What the conformance tests share: a context, reproducible numbers, every ISA this CPU can run.

namespace octavo::kernels {

/// Thread pool and workspace of one test.
class Machine {
 public:
  explicit Machine(int num_threads, size_t workspace_bytes = size_t{64} << 20)
      : pool_(num_threads) {
    workspace_.reserve(workspace_bytes).value();
  }
  KernelContext context() { return {pool_, workspace_}; }

 private:
  device::ThreadPool pool_;
  device::Workspace workspace_;
};

/// A small generator of its own: the same numbers on every platform.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1du;
  }
  /// In [-1, 1), many magnitudes.
  float value() { return static_cast<float>(static_cast<int64_t>(next()) * 0x1p-63); }
  int below(int n) { return static_cast<int>((next() >> 33) % static_cast<uint64_t>(n)); }
  std::vector<float> values(size_t count, float scale = 1.0f) {
    std::vector<float> out(count);
    for (float& x : out) x = value() * scale;
    return out;
  }

 private:
  uint64_t state_;
};

/// Floats at an address that is 4 bytes past a 64-byte boundary: no kernel may assume more.
class Misaligned {
 public:
  explicit Misaligned(size_t count, float fill = 0.0f) : storage_(count + 32, fill) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    offset_ = (64 - address % 64) / 4 % 16 + 1;
    count_ = count;
  }
  explicit Misaligned(const std::vector<float>& values) : Misaligned(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return storage_.data() + offset_; }
  const float* data() const { return storage_.data() + offset_; }
  size_t size() const { return count_; }
  float& operator[](size_t i) { return data()[i]; }
  std::vector<float> copy() const { return {data(), data() + count_}; }

 private:
  std::vector<float> storage_;
  size_t offset_ = 0;
  size_t count_ = 0;
};

inline bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0; }

/// A row of the tables: an ISA, and which of its two ways to multiply bf16.
struct VariantCase {
  Isa isa;
  bool bf16_dot;
};

inline std::vector<VariantCase> runnable_variants() {
  std::vector<VariantCase> cases;
  for (const Isa isa : kIsas) {
    if (supports(isa)) cases.push_back({isa, false});
  }
  if (has_bf16_dot() && supports(Isa::kAvx512)) cases.push_back({Isa::kAvx512, true});
  return cases;
}

/// Those of ops that do not multiply bytes: VNNI adds no row to them.
inline std::vector<VariantCase> variants_without_bytes() {
  std::vector<VariantCase> cases = runnable_variants();
  std::erase_if(cases, [](const VariantCase& c) {
    return c.isa == Isa::kAvx2Vnni || (c.isa == Isa::kAvx512 && !c.bf16_dot);
  });
  return cases;
}

inline std::string variant_name(const testing::TestParamInfo<VariantCase>& info) {
  return std::string(name_of(info.param.isa)) + (info.param.bf16_dot ? "_bf16_dot" : "");
}

/// Forces one variant for the length of a test.
class WithVariant : public testing::TestWithParam<VariantCase> {
 protected:
  WithVariant() : default_bf16_dot_(has_fast_bf16_dot()) {
    set_isa(GetParam().isa).value();
    set_fast_bf16_dot_for_test(GetParam().bf16_dot);
  }
  ~WithVariant() override {
    set_isa(best_isa()).value();
    set_fast_bf16_dot_for_test(default_bf16_dot_);
  }

  /// Ten times slower than the others: its tests take smaller sizes, no fewer kinds of them.
  static bool is_generic() { return GetParam().isa == Isa::kGeneric; }

 private:
  bool default_bf16_dot_;
};

}  // namespace octavo::kernels
