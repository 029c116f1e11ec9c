#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace octavo::tokenizer {

/// Byte-pair encoding of one word: starts from bytes, joins the pair with the best (lowest) rank,
/// the leftmost of equals, until no pair has one. Source: Sennrich et al. 2016; GPT-2's byte
/// alphabet. Immutable but for a cache of facts about single tokens; any thread.
class Bpe {
 public:
  static Result<Bpe> create(const TokenizerSpec& spec, const Vocabulary& vocabulary,
                            std::string_view path);

  /// Working memory of one caller.
  struct Scratch;

  /// Appends the ids of `word`. O(n log n) in its length.
  void encode(const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
              std::vector<TokenId>& out) const;

 private:
  struct Merge {
    uint64_t pair = UINT64_MAX;  // left id << 32 | right id
    uint32_t rank = 0;
    TokenId id = kNoToken;
  };
  /// What BPE makes of the bytes of a token: itself, as almost always, or something else.
  enum Fixpoint : uint8_t { kUnknown, kItself, kOther };

  void add_merge(TokenId left, TokenId right, uint32_t rank, TokenId id);
  const Merge* find_merge(TokenId left, TokenId right) const;
  void first_symbols(std::string_view word, std::vector<TokenId>& symbols) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(Scratch& scratch) const;

  std::vector<Merge> merges_;      // open addressing, a power of two, at most half full
  std::vector<TokenId> byte_ids_;  // [256], kNoToken = byte without a token
  std::unique_ptr<std::atomic<uint8_t>[]> fixpoints_;  // [vocab_size] Fixpoint
  bool ignore_merges_ = false;
  TokenId unk_id_ = kNoToken;
  bool fuse_unk_ = false;
};

struct Bpe::Scratch {
  std::vector<TokenId> symbols;
  struct Link {
    uint32_t previous, next;
  };
  std::vector<Link> links;
  struct Candidate {
    uint64_t order;  // rank << 32 | position: smallest first
    TokenId id;
  };
  std::vector<Candidate> heap;
};

}  // namespace octavo::tokenizer
