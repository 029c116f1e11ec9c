// What a step costs without its model: time and allocations of schedule, blocks, tokens and
// publish.
//   bench_step [rounds]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "device/roofs.h"
#include "engine/testing/step_loop.h"

namespace {
std::atomic<int64_t> num_allocations = 0;
}

void* operator new(size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace octavo::bench {
namespace {

/// Steps of a round: two blocks' worth, so that every sequence fills a block twice.
constexpr int kSteps = 32;

void bench_steps(int64_t num_running, int64_t num_waiting, int rounds) {
  std::vector<double> times;
  int64_t allocated = 0;
  for (int round = 0; round < rounds; ++round) {
    engine::testing::StepLoop loop(num_running, num_waiting);
    loop.steps(kSteps);
    for (int i = 0; i < 8; ++i) {
      const int64_t before = num_allocations.load();
      const double start = device::now_seconds(/*cpu_time=*/true);
      loop.steps(kSteps);
      times.push_back((device::now_seconds(/*cpu_time=*/true) - start) / kSteps);
      allocated = num_allocations.load() - before;
    }
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "step of %4ld sequences, %5ld waiting: best %7.1f us, median %7.1f us CPU; "
      "%.2f allocations a step, %.4f a token\n",
      static_cast<long>(num_running), static_cast<long>(num_waiting), times.front() * 1e6,
      times[times.size() / 2] * 1e6, static_cast<double>(allocated) / kSteps,
      static_cast<double>(allocated) / kSteps / static_cast<double>(num_running));
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  const int rounds =
      argc > 1 ? std::max(static_cast<int>(std::strtol(argv[1], nullptr, 10)), 1) : 5;
  octavo::bench::bench_steps(64, 0, rounds);
  octavo::bench::bench_steps(64, 4000, rounds);
  octavo::bench::bench_steps(1024, 0, rounds);
  return 0;
}
