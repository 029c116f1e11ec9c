#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace octavo::tokenizer {
namespace {

/// Builds the new text part by part and moves the spans along.
class Rewrite {
 public:
  explicit Rewrite(MarkedText& marked) : marked_(marked) {
    out_.text.reserve(marked.text.size() + 16);
  }
  std::string& out() { return out_.text; }

  /// The next `size` bytes of the old text stay as they are.
  void keep(size_t size) {
    copy_spans(size, out_.text.size(), true);
    out_.text.append(marked_.text, at_, size);
    at_ += size;
  }
  /// The next `size` bytes of the old text became what was appended to out() since `new_begin`.
  void replaced(size_t size, size_t new_begin) {
    copy_spans(size, new_begin, false);
    at_ += size;
  }
  void commit() { marked_ = std::move(out_); }

 private:
  void copy_spans(size_t size, size_t new_begin, bool exact) {
    const std::vector<TextSpan>& spans = marked_.untrusted;
    for (; next_span_ < spans.size() && spans[next_span_].begin < at_ + size; ++next_span_) {
      const TextSpan& span = spans[next_span_];
      if (span.end > at_) {
        const size_t begin = std::max(span.begin, at_) - at_;
        const size_t end = std::min(span.end, at_ + size) - at_;
        add_span(exact ? new_begin + begin : new_begin, exact ? new_begin + end : out_.text.size());
      }
      if (span.end > at_ + size) return;  // goes on in the next part
    }
  }
  void add_span(size_t begin, size_t end) {
    std::vector<TextSpan>& spans = out_.untrusted;
    if (begin >= end) return;
    if (!spans.empty() && spans.back().end >= begin) {
      spans.back().end = std::max(spans.back().end, end);
    } else {
      spans.push_back({begin, end});
    }
  }

  MarkedText& marked_;
  MarkedText out_;
  size_t at_ = 0, next_span_ = 0;
};

bool is_ascii(char c) { return static_cast<signed char>(c) >= 0; }

bool is_compatibility(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

/// Sorts each run of combining marks by class, as UAX #15 asks. (utf8proc's own is quadratic.)
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  auto combining = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t i = 0; i < codes.size();) {
    if (combining(codes[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < codes.size() && combining(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + i, codes.begin() + end,
                     [&](auto a, auto b) { return combining(a) < combining(b); });
    i = end;
  }
}

/// Appends the normal form of `text` to `out`.
void append_form(UnicodeForm form, std::string_view text, std::string& out) {
  const auto options =
      utf8proc_option_t(UTF8PROC_DECOMPOSE | (is_compatibility(form) ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += c.size;
    utf8proc_int32_t parts[32];  // the longest decomposition has 18 code points
    const auto count =
        utf8proc_decompose_char(utf8proc_int32_t(c.code), parts, 32, options, nullptr);
    if (count > 0 && count <= 32) codes.insert(codes.end(), parts, parts + count);
  }
  order_marks(codes);
  auto count = utf8proc_ssize_t(codes.size());
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) {
    count = utf8proc_normalize_utf32(codes.data(), count,
                                     utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(char32_t(codes[i]), out);
}

void apply_step(UnicodeForm form, MarkedText& marked) {
  const std::string_view text = marked.text;
  if (std::all_of(text.begin(), text.end(), is_ascii)) return;
  // ASCII never combines with what precedes it, so a part may begin at every ASCII character.
  Rewrite rewrite(marked);
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_ascii(text[end])) ++end;
    // The last ASCII character may combine with what follows.
    const size_t kept = end == text.size() || end == at ? end - at : end - at - 1;
    rewrite.keep(kept);
    at += kept;
    while (end < text.size() && !is_ascii(text[end])) ++end;
    const size_t new_begin = rewrite.out().size();
    append_form(form, text.substr(at, end - at), rewrite.out());
    rewrite.replaced(end - at, new_begin);
    at = end;
  }
  rewrite.commit();
}

void apply_step(const PrependStep& step, MarkedText& marked) {
  if (marked.text.empty()) return;
  marked.text.insert(0, step.text);
  for (TextSpan& span : marked.untrusted) {
    span.begin += step.text.size();
    span.end += step.text.size();
  }
}

void apply_step(const ReplaceStep& step, MarkedText& marked) {
  const std::string_view text = marked.text;
  Rewrite rewrite(marked);
  std::optional<RegexScratch> scratch;
  size_t at = 0;
  while (at < text.size()) {
    Regex::Match match;
    if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
      match.begin = text.find(*literal, at);
      if (match.begin == std::string_view::npos) break;
      match.end = match.begin + literal->size();
    } else {
      if (!scratch) scratch.emplace();
      if (!std::get<Regex>(step.pattern).find(text, at, *scratch, match)) break;
    }
    rewrite.keep(match.begin - at);
    const size_t new_begin = rewrite.out().size();
    rewrite.out() += step.content;
    rewrite.replaced(match.end - match.begin, new_begin);
    at = match.end;
  }
  rewrite.keep(text.size() - at);
  rewrite.commit();
}

}  // namespace

void Normalizer::apply(MarkedText& marked) const {
  for (const Step& step : steps_) {
    std::visit([&](const auto& which) { apply_step(which, marked); }, step);
  }
}

std::string Normalizer::apply(std::string_view text) const {
  MarkedText marked{std::string(text), {}};
  apply(marked);
  return std::move(marked.text);
}

}  // namespace octavo::tokenizer
