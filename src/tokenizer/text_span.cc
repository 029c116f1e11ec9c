#include "tokenizer/text_span.h"

#include <algorithm>

namespace octavo::tokenizer {
namespace {
/// The first span that ends after `at`.
auto first_after(std::span<const TextSpan> spans, size_t at) {
  return std::partition_point(spans.begin(), spans.end(),
                              [&](const TextSpan& span) { return span.end <= at; });
}
}  // namespace

bool overlaps(std::span<const TextSpan> spans, size_t begin, size_t end) {
  const auto span = first_after(spans, begin);
  return span != spans.end() && span->begin < end;
}

std::vector<TextSpan> clip(std::span<const TextSpan> spans, size_t begin, size_t end) {
  std::vector<TextSpan> out;
  for (auto span = first_after(spans, begin); span != spans.end() && span->begin < end; ++span) {
    out.push_back({std::max(span->begin, begin) - begin, std::min(span->end, end) - begin});
  }
  return out;
}

}  // namespace octavo::tokenizer
