#pragma once

#include "device/memory.h"
#include "device/thread_pool.h"

namespace octavo::kernels {

/// What every kernel takes first: who computes and where scratch lies. One per engine; not shared
/// between threads.
struct KernelContext {
  device::ThreadPool& pool;
  device::Workspace& workspace;
};

}  // namespace octavo::kernels
