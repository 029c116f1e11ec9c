#pragma once

#include <cstdint>

namespace octavo::kernels {

/// out[i] = silu(gate[i]) * up[i].
using SiluAndMulRun = void (*)(float* out, const float* gate, const float* up, int64_t size);

namespace generic {
extern const SiluAndMulRun kSiluAndMul;
}
namespace avx2 {
extern const SiluAndMulRun kSiluAndMul;
}
namespace avx512_core {
extern const SiluAndMulRun kSiluAndMul;
}

}  // namespace octavo::kernels
