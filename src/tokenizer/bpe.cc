#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace octavo::tokenizer {
namespace {

// Up to here looking at every pair for each merge beats the heap; a word is 5 bytes on average.
constexpr size_t kShortWord = 40;
// Positions are 32 bits wide; longer words are cut (no request may be that long).
constexpr size_t kMaxWordBytes = size_t{1} << 30;
constexpr uint32_t kNoLink = UINT32_MAX;

uint64_t pair_of(TokenId left, TokenId right) {
  return uint64_t{uint32_t(left)} << 32 | uint32_t(right);
}
size_t hash_of(uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads low bits to the high half
  return size_t(pair ^ pair >> 32);
}

Error merge_error(std::string_view path, size_t index, std::string_view left,
                  std::string_view right, std::string_view missing) {
  return {Code::kInvalidArgument,
          fmt::format("{}: merge {} (\"{}\" \"{}\"): \"{}\" is not in the vocabulary", path, index,
                      left, right, missing)};
}

}  // namespace

Result<Bpe> Bpe::create(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                        std::string_view path) {
  Bpe bpe;
  bpe.ignore_merges_ = spec.ignore_merges;
  bpe.fuse_unk_ = spec.fuse_unk;
  if (!spec.unk_token.empty()) {
    bpe.unk_id_ = vocabulary.find(spec.unk_token);
    if (bpe.unk_id_ < 0) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("{}: unk_token \"{}\" is not in the vocabulary", path, spec.unk_token)};
    }
  }
  bpe.byte_ids_.assign(256, kNoToken);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = char(byte);
    bpe.byte_ids_[byte] = vocabulary.find_word({&text, 1});
  }
  bpe.merges_.resize(std::bit_ceil(2 * spec.merges.size() + 2));
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const TokenId left_id = vocabulary.find(left), right_id = vocabulary.find(right);
    if (left_id < 0) return merge_error(path, rank, left, right, left);
    if (right_id < 0) return merge_error(path, rank, left, right, right);
    joined.assign(left).append(right);
    const TokenId id = vocabulary.find(joined);
    if (id < 0) return merge_error(path, rank, left, right, joined);
    bpe.add_merge(left_id, right_id, uint32_t(rank), id);
  }
  bpe.fixpoints_ = std::make_unique<std::atomic<uint8_t>[]>(size_t(vocabulary.size()));
  return bpe;
}

void Bpe::add_merge(TokenId left, TokenId right, uint32_t rank, TokenId id) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t i = hash_of(pair) & mask;
  while (merges_[i].pair != UINT64_MAX && merges_[i].pair != pair) i = (i + 1) & mask;
  merges_[i] = {pair, rank, id};  // of two equal pairs the later counts, as in the reference
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t i = hash_of(pair) & mask; merges_[i].pair != UINT64_MAX; i = (i + 1) & mask) {
    if (merges_[i].pair == pair) return &merges_[i];
  }
  return nullptr;
}

void Bpe::encode(const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out) const {
  while (word.size() > kMaxWordBytes) {
    encode(vocabulary, word.substr(0, kMaxWordBytes), scratch, out);  // one level deep
    word.remove_prefix(kMaxWordBytes);
  }
  const TokenId whole = vocabulary.find_word(word);
  if (whole >= 0) {
    // Relaxed: every thread computes the same value.
    if (ignore_merges_ || fixpoints_[whole].load(std::memory_order_relaxed) == kItself) {
      out.push_back(whole);
      return;
    }
  }
  std::vector<TokenId>& symbols = scratch.symbols;
  first_symbols(word, symbols);
  if (symbols.size() <= kShortWord) {
    merge_short(symbols);
  } else {
    merge_long(scratch);
  }
  if (whole >= 0) {
    const bool itself = symbols.size() == 1 && symbols[0] == whole;
    fixpoints_[whole].store(itself ? kItself : kOther, std::memory_order_relaxed);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void Bpe::first_symbols(std::string_view word, std::vector<TokenId>& symbols) const {
  symbols.clear();
  bool last_unknown = false;
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (unk_id_ >= 0 && !(fuse_unk_ && last_unknown)) {
      symbols.push_back(unk_id_);
    }
    last_unknown = id < 0;
  }
}

void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  const Merge* merges[kShortWord];  // of symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find_merge(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (merges[i] && (best == count || merges[i]->rank < merges[best]->rank)) best = i;
    }
    if (best == count) break;
    symbols[best] = merges[best]->id;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    if (best + 2 < count) std::copy(merges + best + 2, merges + count - 1, merges + best + 1);
    --count;
    if (best > 0) merges[best - 1] = find_merge(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find_merge(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void Bpe::merge_long(Scratch& scratch) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  const auto count = uint32_t(symbols.size());
  auto& links = scratch.links;
  auto& heap = scratch.heap;
  links.resize(count);
  heap.clear();
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.order > b.order;
  };
  auto candidate = [&](uint32_t left, uint32_t right) -> bool {
    const Merge* merge = find_merge(symbols[left], symbols[right]);
    if (merge) heap.push_back({uint64_t{merge->rank} << 32 | left, merge->id});
    return merge != nullptr;
  };
  for (uint32_t i = 0; i < count; ++i) {
    links[i] = {i == 0 ? kNoLink : i - 1, i + 1 == count ? kNoLink : i + 1};
    if (i + 1 < count) candidate(i, i + 1);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    const auto left = uint32_t(best.order);
    const uint32_t right = links[left].next;
    // Stale entries: the left symbol was swallowed or either side has changed since.
    if (symbols[left] == kNoToken || right == kNoLink) continue;
    const Merge* merge = find_merge(symbols[left], symbols[right]);
    if (merge == nullptr || merge->rank != uint32_t(best.order >> 32)) continue;
    symbols[left] = best.id;
    symbols[right] = kNoToken;
    const uint32_t next = links[right].next;
    links[left].next = next;
    if (next != kNoLink) links[next].previous = left;
    if (links[left].previous != kNoLink && candidate(links[left].previous, left)) {
      std::push_heap(heap.begin(), heap.end(), later);
    }
    if (next != kNoLink && candidate(left, next)) std::push_heap(heap.begin(), heap.end(), later);
  }
  std::erase(symbols, kNoToken);
}

}  // namespace octavo::tokenizer
