#include "openai/random_id.h"

#include <random>

#include "base/random.h"

namespace octavo::openai {

std::string random_hex(int num_digits) {
  thread_local SplitMix64 random([] {
    std::random_device device;
    return (uint64_t{device()} << 32) ^ device();
  }());
  std::string out;
  uint64_t bits = 0;
  for (int i = 0; i < num_digits; ++i) {
    if (i % 16 == 0) bits = random.next();
    out += "0123456789abcdef"[bits & 15];
    bits >>= 4;
  }
  return out;
}

}  // namespace octavo::openai
