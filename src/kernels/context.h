#pragma once

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

}  // namespace octavo::kernels
