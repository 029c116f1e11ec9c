#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::bench {

/// What a machine can do with some threads; 0 where it lacks the instructions.
struct MachineRoofs {
  double read_gb_s = 0;
  double f32_gflop_s = 0;
  double bf16_gflop_s = 0;
  double int8_gop_s = 0;
};

/// Reading from one level of the memory: what one thread and all threads reach.
struct MemoryLevel {
  std::string name;        // "L1", ..., "memory"
  double working_set = 0;  // bytes; of each thread for caches, of all for memory
  double one_thread_gb_s = 0;
  double all_threads_gb_s = 0;
};

struct Machine {
  std::string isa;
  int num_threads = 0;
  std::vector<MemoryLevel> levels;  // nearest first
  MachineRoofs one_thread;
  MachineRoofs all_threads;
};

/// What the calls of one op took and had to do at least, added up.
struct OpTime {
  std::string name;
  std::string unit;  // f32, bf16 or int8: the arithmetic that `ops` is held against
  double seconds = 0;
  double least_seconds = 0;    // at the roofs; 0: its work is not counted
  double reading_seconds = 0;  // of its bytes alone
  double bytes = 0;            // weights, keys and values
  double ops = 0;              // multiplications and additions
};

struct PhaseTimes {
  int64_t num_steps = 0;
  int64_t num_tokens = 0;
  double seconds = 0;
  std::vector<OpTime> ops;
};

/// Where the time of an engine's steps went.
struct StepTimes {
  double weight_bytes = 0;
  std::string weight_format;
  std::string kv_cache_dtype;
  MachineRoofs roofs;  // the limits are taken from these
  PhaseTimes prefill;
  PhaseTimes decode;
  double gap_seconds = 0;  // mean between two steps
};

}  // namespace octavo::bench
