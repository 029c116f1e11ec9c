#include "engine/scheduler/waiting_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/check.h"

namespace octavo::engine {
namespace {

/// First come, first served: a list through the sequences themselves.
class FcfsQueue final : public WaitingQueue {
 public:
  size_t size() const override { return size_; }
  Sequence* front() const override { return head_; }

  void push_back(Sequence& sequence) override { insert(sequence, tail_, nullptr); }
  void push_front(Sequence& sequence) override { insert(sequence, nullptr, head_); }

  void remove(Sequence& sequence) override {
    CHECK_GT(size_, size_t{0});
    (sequence.previous ? sequence.previous->next : head_) = sequence.next;
    (sequence.next ? sequence.next->previous : tail_) = sequence.previous;
    sequence.previous = sequence.next = nullptr;
    --size_;
  }

 private:
  void insert(Sequence& sequence, Sequence* previous, Sequence* next) {
    CHECK(sequence.previous == nullptr && sequence.next == nullptr && head_ != &sequence);
    sequence.previous = previous;
    sequence.next = next;
    (previous ? previous->next : head_) = &sequence;
    (next ? next->previous : tail_) = &sequence;
    ++size_;
  }

  Sequence* head_ = nullptr;
  Sequence* tail_ = nullptr;
  size_t size_ = 0;
};

class Fcfs final : public SchedulingPolicy {
 public:
  std::unique_ptr<WaitingQueue> make_queue() const override {
    return std::make_unique<FcfsQueue>();
  }
  bool skipped_goes_first(const Sequence&, const Sequence&) const override { return true; }
  size_t victim(const std::vector<Sequence*>& running) const override { return running.size() - 1; }
};

bool goes_before(const Sequence* a, const Sequence* b) {
  return std::tuple(a->priority, a->arrival_wall_s, a->id) <
         std::tuple(b->priority, b->arrival_wall_s, b->id);
}

struct GoesBefore {
  bool operator()(const Sequence* a, const Sequence* b) const { return goes_before(a, b); }
};

/// Sorted by the priority key; front and back mean nothing here.
class PriorityQueue final : public WaitingQueue {
 public:
  size_t size() const override { return sequences_.size(); }
  Sequence* front() const override { return sequences_.empty() ? nullptr : *sequences_.begin(); }
  void push_back(Sequence& sequence) override { CHECK(sequences_.insert(&sequence).second); }
  void push_front(Sequence& sequence) override { push_back(sequence); }
  void remove(Sequence& sequence) override { CHECK_EQ(sequences_.erase(&sequence), size_t{1}); }

 private:
  std::set<Sequence*, GoesBefore> sequences_;
};

class Priority final : public SchedulingPolicy {
 public:
  std::unique_ptr<WaitingQueue> make_queue() const override {
    return std::make_unique<PriorityQueue>();
  }
  bool skipped_goes_first(const Sequence& skipped, const Sequence& waiting) const override {
    return goes_before(&skipped, &waiting);
  }
  size_t victim(const std::vector<Sequence*>& running) const override {
    return std::max_element(running.begin(), running.end(), goes_before) - running.begin();
  }
};

}  // namespace

Result<std::unique_ptr<SchedulingPolicy>> make_scheduling_policy(std::string_view name) {
  if (name == "fcfs") return std::unique_ptr<SchedulingPolicy>(std::make_unique<Fcfs>());
  if (name == "priority") return std::unique_ptr<SchedulingPolicy>(std::make_unique<Priority>());
  return Error{Code::kInvalidArgument,
               fmt::format("--scheduling-policy is '{}'; allowed are fcfs and priority", name)};
}

}  // namespace octavo::engine
