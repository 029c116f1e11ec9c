#include "tokenizer/unicode.h"

#include <cstddef>

namespace octavo::tokenizer {
namespace {
#include "tokenizer/unicode_table.inc"

constexpr int kBlockBits = 7;
constexpr char32_t kNumCodes = char32_t{sizeof(kBlockOfCode) / sizeof(uint16_t)} << kBlockBits;
static_assert(kNumCodes == 0x110000);
}  // namespace

CharClass::CharClass(char32_t code)
    : bits_(code < kNumCodes
                ? kClassOfCode[(size_t{kBlockOfCode[code >> kBlockBits]} << kBlockBits) |
                               (code & ((1 << kBlockBits) - 1))]
                : 0) {}

}  // namespace octavo::tokenizer
