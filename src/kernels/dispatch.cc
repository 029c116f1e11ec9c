#include "kernels/dispatch.h"

#include <atomic>

#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
    return Isa::kAvx512;
  }
  // Every CPU with AVX2 and FMA has F16C; compilers before g++ 11 cannot ask for it by name.
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kGeneric;
}

/// The one process-wide choice: which instructions this process may use.
std::atomic<Isa>& chosen() {
  static std::atomic<Isa> isa{best_isa()};
  return isa;
}

/// The vendor decides unless a test does.
std::atomic<bool>& bf16_dot() {
  static std::atomic<bool> fast{[] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
  }()};
  return fast;
}

}  // namespace

bool has_fast_bf16_dot() { return bf16_dot().load(std::memory_order_relaxed); }
void set_fast_bf16_dot_for_test(bool fast) { bf16_dot().store(fast, std::memory_order_relaxed); }

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    default:
      return "avx512";
  }
}

Isa best_isa() {
  static const Isa isa = detect();
  return isa;
}

Status set_isa(Isa isa) {
  if (isa > best_isa()) {
    return Error{Code::kUnsupported, "this CPU has no " + std::string(name_of(isa)) +
                                         "; the best it can run is " +
                                         std::string(name_of(best_isa()))};
  }
  chosen().store(isa, std::memory_order_relaxed);
  return {};
}

Status set_isa(std::string_view name) {
  if (name == "auto") return set_isa(best_isa());
  for (const Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (name == name_of(isa)) return set_isa(isa);
  }
  return Error{Code::kInvalidArgument,
               "--kernel " + std::string(name) + " is not one of auto, generic, avx2, avx512"};
}

Isa current_isa() { return chosen().load(std::memory_order_relaxed); }

std::string describe_kernels() {
  std::string text;
  for (const std::string_view op :
       {"linear", "attention", "rms_norm", "rope", "silu_and_mul", "logits", "embedding"}) {
    if (!text.empty()) text += ' ';
    text += std::string(op) + '=';
    // What is bound by single loads or library calls has one portable row.
    text += name_of(op == "embedding" ? Isa::kGeneric : current_isa());
  }
  return text;
}

}  // namespace octavo::kernels
