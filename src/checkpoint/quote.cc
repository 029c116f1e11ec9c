#include "checkpoint/quote.h"

#include <fmt/format.h>

namespace octavo::checkpoint {

std::string quote(std::string_view name) {
  constexpr size_t kMaxShown = 120;
  std::string shown = "'";
  for (const char c : name.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  if (name.size() > kMaxShown) shown += "...";
  return shown + "'";
}

}  // namespace octavo::checkpoint
