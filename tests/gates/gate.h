#pragma once

#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>

namespace octavo::gates {

/// Counts the instructions of `run` and nothing else: `run` does its work once uncounted, so that
/// memory has grown, and once between two marks. Prints "path <name> <unit> <num_units>"; callgrind
/// writes a dump of this name. Everything is on one thread and of fixed inputs, so that the same
/// binary gives the same count. The name holds no space.
template <class Prepare, class Run>
void count(const std::string& name, const std::string& unit, double num_units,
           const Prepare& prepare, const Run& run) {
  prepare();
  run();
  prepare();
  CALLGRIND_START_INSTRUMENTATION;
  run();
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  std::printf("path %s %s %.17g\n", name.c_str(), unit.c_str(), num_units);
}
template <class Run>
void count(const std::string& name, const std::string& unit, double num_units, const Run& run) {
  count(
      name, unit, num_units, [] {}, run);
}

/// Scheduler and step loop without a model, and the sampler.
void count_engine_paths();
/// Tokenizer, detokeniser, stop strings and the chunks of a stream. `model`: a GGUF or HF
/// checkpoint whose tokenizer is used.
void count_text_paths(const std::string& model);
/// The avx2 rows of the kernels; nothing on a CPU without AVX2.
void count_kernel_paths();

}  // namespace octavo::gates
