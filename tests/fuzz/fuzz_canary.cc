// Must be found within seconds: shows that the fuzz lane can fail. Not part of the product.
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 3 && data[0] == 'o' && data[1] == 'c' && data[2] == 't') std::abort();
  return 0;
}
