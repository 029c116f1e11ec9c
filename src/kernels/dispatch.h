#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::kernels {

/// Instruction sets a variant may need, best last.
/// Sorted: a CPU that has one may run the rows of all below it that it supports. kAvx2Vnni adds
/// AVX-VNNI; kAvx512Core is F, BW, DQ and VL; kAvx512 adds AVX512-VNNI.
enum class Isa { kGeneric, kAvx2, kAvx2Vnni, kAvx512Core, kAvx512 };
inline constexpr Isa kIsas[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512Core,
                                Isa::kAvx512};

std::string_view name_of(Isa isa);
/// Does this CPU have it?
bool supports(Isa isa);
/// The highest that it has.
Isa best_isa();
/// Highest ISA that kernels may use from now on; default best_isa(). Call before the first kernel.
/// Error when this CPU lacks it.
Status set_isa(Isa isa);
/// The same by the name of `--kernel`: generic, avx2, avx2_vnni, avx512_core,
/// avx512, or auto for best_isa().
Status set_isa(std::string_view name);
Isa current_isa();
/// One line for the log: what was chosen, per op.
std::string describe_kernels();

}  // namespace octavo::kernels
