#include "model/weights/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace octavo::model {

std::string show_shape(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

void Manifest::add(std::string_view name, std::string_view type, std::span<const int64_t> shape,
                   size_t size_bytes) {
  lines_.push_back(fmt::format("{} {} {} {}\n", name, type, show_shape(shape), size_bytes));
}

std::string Manifest::hash() const {
  std::vector<std::string> lines = lines_;
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  CHECK_EQ(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr), 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace octavo::model
