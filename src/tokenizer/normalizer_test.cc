#include "tokenizer/normalizer.h"

#include <gtest/gtest.h>

namespace octavo::tokenizer {
namespace {

Normalizer of(Normalizer::Step step) {
  std::vector<Normalizer::Step> steps;
  steps.push_back(std::move(step));
  return Normalizer(std::move(steps));
}

using Spans = std::vector<std::pair<size_t, size_t>>;
Spans spans_of(const MarkedText& marked) {
  Spans out;
  for (const TextSpan& span : marked.untrusted) out.emplace_back(span.begin, span.end);
  return out;
}

TEST(Normalizer, UnicodeForms) {
  EXPECT_EQ(of(UnicodeForm::kNfc).apply("ae\xCC\x81z"), "a\xC3\xA9z");
  EXPECT_EQ(of(UnicodeForm::kNfd).apply("a\xC3\xA9z"), "ae\xCC\x81z");
  EXPECT_EQ(of(UnicodeForm::kNfkc).apply("\xEF\xAC\x81x"), "fix");
  EXPECT_EQ(of(UnicodeForm::kNfc).apply("\xE2\x84\xAB"), "\xC3\x85");  // Angstrom sign
  EXPECT_EQ(of(UnicodeForm::kNfc).apply("\xE1\x84\x80\xE1\x85\xA1"), "\xEA\xB0\x80");  // Hangul
  EXPECT_EQ(of(UnicodeForm::kNfc).apply(""), "");
}

TEST(Normalizer, MarksAreOrderedBeforeTheyCombine) {
  // a + dot below (220) + acute (230), given in the wrong order.
  EXPECT_EQ(of(UnicodeForm::kNfc).apply("a\xCC\x81\xCC\xA3"), "\xE1\xBA\xA1\xCC\x81");
}

TEST(Normalizer, AMegabyteOfMarksIsQuick) {
  std::string text = "a";
  while (text.size() < (1 << 20)) text += "\xCC\x81\xCC\xA3";
  EXPECT_GT(of(UnicodeForm::kNfc).apply(text).size(), text.size() / 2);  // hangs if quadratic
}

TEST(Normalizer, SpansFollowTheirText) {
  MarkedText marked{"ab e\xCC\x81 cd", {{3, 6}, {7, 9}}};  // the accented e; cd
  of(UnicodeForm::kNfc).apply(marked);
  EXPECT_EQ(marked.text, "ab \xC3\xA9 cd");
  EXPECT_EQ(spans_of(marked), (Spans{{3, 5}, {6, 8}}));
}

TEST(Normalizer, ACharacterOfBothSidesIsUntrusted) {
  MarkedText marked{"e\xCC\x81", {{1, 3}}};
  of(UnicodeForm::kNfc).apply(marked);
  EXPECT_EQ(spans_of(marked), (Spans{{0, 2}}));
}

TEST(Normalizer, ReplaceAndPrependMoveSpans) {
  MarkedText marked{"a b c", {{2, 5}}};
  of(ReplaceStep{std::string(" "), "__"}).apply(marked);
  EXPECT_EQ(marked.text, "a__b__c");
  EXPECT_EQ(spans_of(marked), (Spans{{3, 7}}));
  of(PrependStep{">>"}).apply(marked);
  EXPECT_EQ(marked.text, ">>a__b__c");
  EXPECT_EQ(spans_of(marked), (Spans{{5, 9}}));
}

TEST(Normalizer, ReplaceByRegex) {
  EXPECT_EQ(of(ReplaceStep{Regex::create(" {2,}").value(), "_"}).apply("a   b c"), "a_b c");
}

}  // namespace
}  // namespace octavo::tokenizer
