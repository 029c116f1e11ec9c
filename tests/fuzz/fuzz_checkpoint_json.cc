#include <string_view>

#include "checkpoint/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)octavo::checkpoint::parse_json_metadata(text, "fuzz.json");
  return 0;
}
