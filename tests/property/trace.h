#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/testing/harness.h"

// Random traces of what clients do to an engine, and the invariants that must hold after each step.

namespace octavo::engine::testing {

/// One thing that happens before a step.
struct Event {
  enum class Kind { kAdd, kAbort, kPreemptAll, kNothing };
  Kind kind = Kind::kNothing;
  AddRequest request;   // kAdd
  int64_t target = -1;  // kAbort
};

/// A trace is an engine's limits and one event per step.
struct Trace {
  uint64_t seed = 0;
  HarnessOptions options;
  std::vector<Event> events;
};

/// A trace drawn from a seed: small pools, shared prefixes, mixed sampling.
Trace draw_trace(uint64_t seed);

/// Runs a trace to its end. Empty, or what went wrong. `fail_allocation` makes the n-th block
/// allocation fail (0 = none); `num_allocations` receives how many there were.
std::string run_trace(const Trace& trace, int fail_allocation = 0, int* num_allocations = nullptr);

/// Removes events as long as the trace still fails. Returns a printable account of the shortest.
std::string shrink(Trace trace, const std::string& failure);

/// A request with random sampling parameters over one of a few shared prompts.
AddRequest draw_request(SplitMix64& random, int64_t id, int64_t max_model_len, int64_t room);

}  // namespace octavo::engine::testing
