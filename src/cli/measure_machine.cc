#include "cli/measure_machine.h"

#include <algorithm>
#include <cstring>

#include "device/machine.h"
#include "device/memory.h"
#include "device/roofs.h"
#include "device/thread_pool.h"
#include "engine/engine.h"
#include "kernels/dispatch.h"

namespace octavo::cli {
namespace {

/// Well inside the cache, so that neither the neighbours' nor our own other data matter.
size_t working_set(size_t cache_bytes) {
  constexpr size_t kUnit = 4096;
  return std::max(cache_bytes / 2 / kUnit * kUnit, kUnit);
}

/// Caches that the CPU reports; of the shared one each thread reads its part, beyond its L2.
std::vector<bench::MemoryLevel> cache_levels(const device::CacheSizes& sizes, size_t num_threads) {
  constexpr size_t kMostOfL3 = size_t{64} << 20;  // a virtual machine may report its host's
  std::vector<bench::MemoryLevel> levels;
  if (sizes.l1 > 0) levels.push_back({"L1", static_cast<double>(working_set(sizes.l1))});
  if (sizes.l2 > 0) levels.push_back({"L2", static_cast<double>(working_set(sizes.l2))});
  const size_t part = working_set(std::min(sizes.l3, kMostOfL3)) / num_threads;
  if (part >= 2 * sizes.l2) {
    levels.push_back({"L3", static_cast<double>(working_set(2 * part))});
  }
  return levels;
}

bench::MachineRoofs describe(const device::Roofs& roofs) {
  return {roofs.read_gb_s, roofs.f32_gflop_s, roofs.bf16_gflop_s, roofs.int8_gop_s};
}

}  // namespace

Result<bench::Machine> measure_machine(const config::Config& config) {
  constexpr size_t kLeast = size_t{64} << 20;
  constexpr size_t kMost = size_t{1} << 30;
  OCTAVO_TRY(const device::ThreadPlan plan, engine::Engine::thread_plan(config.engine));
  const int num_threads = plan.num_threads;
  bench::Machine machine;
  machine.isa = kernels::name_of(kernels::current_isa());
  machine.num_threads = num_threads;
  const device::CacheSizes sizes = device::cache_sizes();
  machine.levels = cache_levels(sizes, static_cast<size_t>(num_threads));

  // Four times the last cache, so that little of a pass is still there in the next.
  size_t size = std::clamp(4 * std::max(sizes.l3, kLeast), kLeast, kMost);
  size = std::clamp(device::available_memory_bytes() / 4, kLeast, size);
  for (const bench::MemoryLevel& level : machine.levels) {
    size =
        std::max(size, static_cast<size_t>(level.working_set) * static_cast<size_t>(num_threads));
  }
  OCTAVO_TRY(const device::Buffer buffer, device::Buffer::create(size, true));
  std::memset(buffer.data(), 1, size);

  device::ThreadPool one(1);
  device::ThreadPool all(plan);
  for (bench::MemoryLevel& level : machine.levels) {
    const auto bytes = static_cast<size_t>(level.working_set);
    level.one_thread_gb_s = device::measure_cached_read(one, buffer.data(), bytes);
    level.all_threads_gb_s = device::measure_cached_read(all, buffer.data(), bytes);
  }
  machine.one_thread = describe(device::measure_roofs(one, buffer.data(), size));
  machine.all_threads = describe(device::measure_roofs(all, buffer.data(), size));
  machine.levels.push_back({"memory", static_cast<double>(size), machine.one_thread.read_gb_s,
                            machine.all_threads.read_gb_s});
  return machine;
}

}  // namespace octavo::cli
