#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "engine/request.h"

namespace octavo::engine {

/// The tokens that one sequence gets in one step, in place: a vector would allocate and free for
/// each token of each sequence, across threads.
class TokenRun {
 public:
  /// One token, and what a speculative step may add to it.
  static constexpr size_t kCapacity = 16;

  TokenRun() = default;
  TokenRun(std::initializer_list<TokenId> tokens) {
    for (const TokenId token : tokens) push_back(token);
  }

  void push_back(TokenId token) {
    CHECK(size_ < kCapacity);
    tokens_[size_++] = token;
  }
  void clear() { size_ = 0; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  TokenId operator[](size_t i) const { return tokens_[i]; }
  const TokenId* begin() const { return tokens_.data(); }
  const TokenId* end() const { return tokens_.data() + size_; }

 private:
  uint32_t size_ = 0;
  std::array<TokenId, kCapacity> tokens_{};
};

}  // namespace octavo::engine
