#include "kernels/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>

#include "kernels/variants.h"

namespace octavo::kernels {
namespace {

#if defined(__x86_64__)
/// Leaf 7.1 of CPUID (Intel SDM, volume 2A): older compilers cannot ask for AVX-VNNI by name.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}
#endif

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
    return __builtin_cpu_is("amd") != 0 && has_bf16_dot();
#else
    return false;
#endif
  }()};
  return fast;
}

}  // namespace

bool has_bf16_dot() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}
bool has_fast_bf16_dot() { return bf16_dot().load(std::memory_order_relaxed); }
void set_fast_bf16_dot_for_test(bool fast) { bf16_dot().store(fast, std::memory_order_relaxed); }

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx2Vnni:
      return "avx2_vnni";
    case Isa::kAvx512Core:
      return "avx512_core";
    default:
      return "avx512";
  }
}

bool supports(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Every CPU with AVX2 and FMA has F16C; compilers before g++ 11 cannot ask for it by name.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool core = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kGeneric:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx2Vnni:
      return avx2 && has_avx_vnni();
    case Isa::kAvx512Core:
      return core;
    case Isa::kAvx512:
      return core && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return isa == Isa::kGeneric;
}

Isa best_isa() {
  static const Isa best = [] {
    Isa isa = Isa::kGeneric;
    for (const Isa candidate : kIsas) {
      if (supports(candidate)) isa = candidate;
    }
    return isa;
  }();
  return best;
}

Status set_isa(Isa isa) {
  if (!supports(isa)) {
    return Error{Code::kUnsupported, "this CPU has no " + std::string(name_of(isa)) +
                                         "; the best it can run is " +
                                         std::string(name_of(best_isa()))};
  }
  chosen().store(isa, std::memory_order_relaxed);
  return {};
}

Status set_isa(std::string_view name) {
  if (name == "auto") return set_isa(best_isa());
  for (const Isa isa : kIsas) {
    if (name == name_of(isa)) return set_isa(isa);
  }
  return Error{Code::kInvalidArgument,
               "--kernel " + std::string(name) +
                   " is not one of auto, generic, avx2, avx2_vnni, avx512_core, avx512"};
}

Isa current_isa() { return chosen().load(std::memory_order_relaxed); }

namespace {

/// The row that `op` has for `isa`: only products of bytes gain from VNNI, and what is bound by
/// single loads has one portable row.
Isa row_of(std::string_view op, Isa isa) {
  if (op == "linear") return isa;
  if (op == "embedding") return Isa::kGeneric;
  if (isa == Isa::kAvx2Vnni) return Isa::kAvx2;
  return isa == Isa::kAvx512 ? Isa::kAvx512Core : isa;
}

}  // namespace

std::string describe_kernels() {
  std::string text;
  for (const std::string_view op :
       {"linear", "attention", "rms_norm", "rope", "silu_and_mul", "logits", "embedding"}) {
    if (!text.empty()) text += ' ';
    text += std::string(op) + '=' + std::string(name_of(row_of(op, current_isa())));
  }
  return text;
}

}  // namespace octavo::kernels
