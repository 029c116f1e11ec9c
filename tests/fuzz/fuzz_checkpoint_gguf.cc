#include <cstdlib>

#include "checkpoint/gguf.h"

// Whatever the bytes: an error, or tensors that lie inside them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto contents = octavo::checkpoint::parse_gguf(bytes, "fuzz.gguf", true);
  if (!contents.ok()) return 0;
  for (const auto& tensor : contents->tensors) {
    if (tensor.offset > size || tensor.data.size() > size - tensor.offset) std::abort();
  }
  return 0;
}
