#pragma once

#include <cstddef>

#include "device/memory.h"
#include "device/thread_pool.h"

namespace octavo::kernels {

class StepProfile;

/// What every kernel takes first: who computes and where scratch lies. One per engine; not shared
/// between threads.
struct KernelContext {
  device::ThreadPool& pool;
  device::Workspace& workspace;
  StepProfile* profile = nullptr;  // where the time of ops is added up; usually nowhere
};

/// What a piece of the workspace takes: whole cache lines.
constexpr size_t round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace octavo::kernels
