#include "model/weights/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace octavo::model {
namespace {

/// FNV-1a over pieces at even distances, the first and the last bytes among them.
uint64_t sample(std::span<const std::byte> data) {
  constexpr size_t kPieces = 16;
  constexpr size_t kPieceBytes = 64;
  uint64_t hash = 0xcbf29ce484222325;
  const size_t piece = std::min(kPieceBytes, data.size());
  for (size_t i = 0; i < kPieces; ++i) {
    const size_t at = (data.size() - piece) / (kPieces - 1) * i;
    for (const std::byte byte : data.subspan(i + 1 == kPieces ? data.size() - piece : at, piece)) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
    }
  }
  return hash;
}

}  // namespace

std::string show_shape(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

void Manifest::add(std::string_view name, std::string_view type, std::span<const int64_t> shape,
                   std::span<const std::byte> data) {
  lines_.push_back(fmt::format("{} {} {} {} {:016x}\n", name, type, show_shape(shape), data.size(),
                               sample(data)));
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
