#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/scheduler/sequence.h"

namespace octavo::engine {

/// Sequences that wait, in the order in which they will be admitted. Holds pointers; the scheduler
/// owns the sequences. Removal from anywhere is cheap, so that aborting one of 100,000 is too.
class WaitingQueue {
 public:
  virtual ~WaitingQueue() = default;
  virtual size_t size() const = 0;
  bool empty() const { return size() == 0; }
  virtual Sequence* front() const = 0;  // null when empty
  virtual void push_back(Sequence& sequence) = 0;
  /// For preempted and passed-over sequences: ahead of all others where the policy has no key.
  virtual void push_front(Sequence& sequence) = 0;
  virtual void remove(Sequence& sequence) = 0;
};

/// The waiting order as an object: which queue, who goes first, who is preempted.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;
  virtual std::unique_ptr<WaitingQueue> make_queue() const = 0;
  /// Whether the head of the skipped queue goes before the head of the waiting queue.
  virtual bool skipped_goes_first(const Sequence& skipped, const Sequence& waiting) const = 0;
  /// Index of the running sequence to preempt; `running` is not empty.
  virtual size_t victim(const std::vector<Sequence*>& running) const = 0;
};

/// `--scheduling-policy`: "fcfs" or "priority" (key: priority, arrival, id; lower first).
Result<std::unique_ptr<SchedulingPolicy>> make_scheduling_policy(std::string_view name);

}  // namespace octavo::engine
