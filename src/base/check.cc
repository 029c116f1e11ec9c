#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/log.h"

namespace octavo {

void check_failed(const char* file, int line, const char* condition, std::string_view values) {
  log::flush();  // what led here
  std::fprintf(stderr, "CHECK failed at %s:%d: %s (%.*s)\n", file, line, condition,
               static_cast<int>(values.size()), values.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace octavo
