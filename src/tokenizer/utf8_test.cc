#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace octavo::tokenizer {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

std::string lossy(std::string_view bytes) {
  std::string out;
  EXPECT_EQ(append_lossy(bytes, false, out), bytes.size());
  return out;
}

std::string replacements(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += kReplacement;
  return out;
}

TEST(Utf8, ValidTextStaysAsItIs) {
  const std::string text = "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x91\xA9z";
  EXPECT_EQ(lossy(text), text);
}

// Cases from the Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, EachMaximalPartBecomesOneReplacement) {
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), replacements(8) + "A");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), replacements(8) + "A");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            replacements(5) + "A" + replacements(2) + "B");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(Utf8, AnIncompleteEndWaitsOnlyWhenMoreFollows) {
  std::string out;
  EXPECT_EQ(append_lossy("a\xF0\x9F\x91", true, out), 1u);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(lossy("a\xF0\x9F\x91"), std::string("a") + kReplacement);
}

TEST(Utf8, AnInvalidEndDoesNotWait) {
  std::string out;
  EXPECT_EQ(append_lossy("\xE0\x80", true, out), 2u);  // E0 80 can never become a character
  EXPECT_EQ(out, replacements(2));
}

TEST(Utf8, DecodingInvalidBytesTakesOneByte) {
  for (const std::string_view bad : {"\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x91", "\xFF", "\xC3z"}) {
    const Utf8Char c = decode_utf8(bad, 0);
    EXPECT_EQ(c.code, char32_t{0xFFFD});
    EXPECT_EQ(c.size, 1u);
  }
}

TEST(Utf8, EncodingAndDecodingAreInverse) {
  for (const char32_t code : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFF}) {
    std::string text;
    append_utf8(code, text);
    const Utf8Char c = decode_utf8(text, 0);
    EXPECT_EQ(c.code, code);
    EXPECT_EQ(c.size, text.size());
  }
}

}  // namespace
}  // namespace octavo::tokenizer
