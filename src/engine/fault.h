#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace octavo::engine {

/// Breaks one chosen step, to show that everybody is answered: "kill@N" makes step N (from 1) fail,
/// "stall@N" makes it hang until `release`. Builds without OCTAVO_FAULT_HOOKS have no such thing.
class FaultHook {
 public:
  /// Whether this build can do what `text` says; empty asks for nothing. kInvalidArgument names the
  /// variable.
  static Status check(const std::string& text);
  /// A text that `check` refuses means no fault.
  explicit FaultHook(const std::string& text);
  /// Called before the model runs.
  Status before_step(int64_t step);
  /// Ends a stall; any thread.
  void release() { released_.store(true); }

 private:
  enum class Kind { kNone, kKill, kStall };
  Kind kind_ = Kind::kNone;
  int64_t step_ = 0;
  std::atomic<bool> released_ = false;
};

}  // namespace octavo::engine
