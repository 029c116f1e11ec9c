#pragma once

#include <pthread.h>

#include <cstddef>

namespace octavo {

/// Names the calling thread `octavo-ROLE`, as `top -H`, `ps -L` and gdb show it. ROLE: a literal of
/// at most 8 characters; the kernel keeps 15 in all.
template <size_t kSize>
void name_this_thread(const char (&role)[kSize]) {
  static_assert(kSize <= 9, "the kernel would refuse the name");
  char name[7 + kSize] = {'o', 'c', 't', 'a', 'v', 'o', '-'};
  for (size_t i = 0; i < kSize; ++i) name[7 + i] = role[i];
  pthread_setname_np(pthread_self(), name);
}

}  // namespace octavo
