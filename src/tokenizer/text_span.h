#pragma once

#include <span>

#include "tokenizer/tokenizer.h"

namespace octavo::tokenizer {

/// Whether [begin, end) shares a byte with one of the sorted, disjoint `spans`.
bool overlaps(std::span<const TextSpan> spans, size_t begin, size_t end);

/// The parts of `spans` inside [begin, end), counted from `begin`.
std::vector<TextSpan> clip(std::span<const TextSpan> spans, size_t begin, size_t end);

}  // namespace octavo::tokenizer
