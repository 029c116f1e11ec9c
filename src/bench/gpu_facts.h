#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

namespace octavo::bench {

/// The GPUs of this machine: {"gpus": [{"name", "driver", "memory_mib", "ecc"}], "reason": null},
/// or {"gpus": null, "reason": why nothing is known}.
nlohmann::ordered_json gpu_facts();

/// What they do now: [{"sm_mhz", "memory_mhz", "temperature_c", "utilisation_percent"}], or null.
nlohmann::ordered_json gpu_state_now();

/// The lines of `nvidia-smi --format=csv,noheader,nounits` as objects with `keys`; what is not
/// known ("[N/A]") is null, numbers are numbers. A line with another number of values ends them.
nlohmann::ordered_json parse_gpu_table(std::string_view text,
                                       std::span<const std::string_view> keys);

}  // namespace octavo::bench
