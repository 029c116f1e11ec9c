#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::kernels {

/// Instruction sets a variant may need, best last.
enum class Isa { kGeneric, kAvx2, kAvx512 };

std::string_view name_of(Isa isa);
/// What this CPU reports; kAvx512 means F, BW, DQ, VL, VNNI and BF16 together.
Isa best_isa();
/// Highest ISA that kernels may use from now on; default best_isa(). Call before the first kernel.
/// Error when this CPU lacks it.
Status set_isa(Isa isa);
/// The same by the name of `--kernel`: generic, avx2, avx512, or auto for best_isa().
Status set_isa(std::string_view name);
Isa current_isa();
/// One line for the log: what was chosen, per op.
std::string describe_kernels();

}  // namespace octavo::kernels
