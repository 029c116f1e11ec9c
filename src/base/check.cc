#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace octavo {

void check_failed(const char* file, int line, const char* condition, std::string_view values) {
  std::fprintf(stderr, "CHECK failed at %s:%d: %s (%.*s)\n", file, line, condition,
               static_cast<int>(values.size()), values.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace octavo
