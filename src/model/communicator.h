#pragma once

#include <cstddef>

#include "base/result.h"

namespace octavo::model {

/// What ranks say to each other within a step. With one rank every operation is the identity; MPI
/// between hosts and NCCL between GPUs come behind this. Engine thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// Sums `data` over the ranks, in rank order, in place.
  virtual Status all_reduce(float* data, size_t count) = 0;
  /// Concatenates each rank's `count` values into `out` [world_size, count].
  virtual Status all_gather(float* out, const float* data, size_t count) = 0;
  virtual Status send(const float* data, size_t count, int to_rank) = 0;
  virtual Status receive(float* data, size_t count, int from_rank) = 0;
};

/// One rank: nothing to say.
class SingleRank final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  Status all_reduce(float*, size_t) override { return {}; }
  Status all_gather(float* out, const float* data, size_t count) override {
    for (size_t i = 0; i < count; ++i) out[i] = data[i];
    return {};
  }
  Status send(const float*, size_t, int) override { return no_peer(); }
  Status receive(float*, size_t, int) override { return no_peer(); }

 private:
  static Error no_peer() { return Error{Code::kInternal, "one rank has no peer"}; }
};

}  // namespace octavo::model
