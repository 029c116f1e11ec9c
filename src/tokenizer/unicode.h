#pragma once

#include <cstdint>

namespace octavo::tokenizer {

/// General category of a code point (Unicode, section 4.5), in the order of the generated table.
enum class Category : uint8_t {
  kCn,
  kCc,
  kCf,
  kCo,
  kCs,
  kLl,
  kLm,
  kLo,
  kLt,
  kLu,
  kMc,
  kMe,
  kMn,
  kNd,
  kNl,
  kNo,  //
  kPc,
  kPd,
  kPe,
  kPf,
  kPi,
  kPo,
  kPs,
  kSc,
  kSk,
  kSm,
  kSo,
  kZl,
  kZp,
  kZs
};
inline constexpr int kNumCategories = 30;

/// A set of categories, one bit each.
using CategorySet = uint32_t;
constexpr CategorySet set_of(Category category) { return CategorySet{1} << int(category); }
constexpr CategorySet range_of(Category first, Category last) {
  return (set_of(last) | (set_of(last) - 1)) & ~(set_of(first) - 1);
}
inline constexpr CategorySet kLetters = range_of(Category::kLl, Category::kLu);
inline constexpr CategorySet kMarks = range_of(Category::kMc, Category::kMn);
inline constexpr CategorySet kNumbers = range_of(Category::kNd, Category::kNo);
inline constexpr CategorySet kPunctuation = range_of(Category::kPc, Category::kPs);
inline constexpr CategorySet kSymbols = range_of(Category::kSc, Category::kSo);
inline constexpr CategorySet kSeparators = range_of(Category::kZl, Category::kZs);
inline constexpr CategorySet kOthers = range_of(Category::kCn, Category::kCs);

/// Category and flags of a code point as the Hugging Face tokenizers see it; code points beyond
/// U+10FFFF are unassigned.
class CharClass {
 public:
  explicit CharClass(char32_t code);
  Category category() const { return Category(bits_ & 31); }
  bool in(CategorySet set) const { return (set >> (bits_ & 31)) & 1; }
  bool is_space() const { return bits_ & 0x20; }  // \s of a regex, and Rust's is_whitespace
  // What the Digits and Punctuation pre-tokenizers take; their tables are of other Unicode versions
  // than the categories.
  bool is_digits_class() const { return bits_ & 0x40; }
  bool is_punctuation_class() const { return bits_ & 0x80; }
  bool is_word() const {  // \w of a regex
    return in(kLetters | kMarks | set_of(Category::kNd) | set_of(Category::kNl) |
              set_of(Category::kPc));
  }

 private:
  uint8_t bits_;
};

}  // namespace octavo::tokenizer
