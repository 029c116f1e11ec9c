// The two serialisations that block hashes are computed over: Python's pickle (protocol 5) of
// (bytes, tuple of ints, None or tuple of str), and canonical CBOR (RFC 8949 section 4.2) of
// [bytes, [ints], null or [text]].

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "engine/kv_cache/block_hash.h"

namespace octavo::engine {
namespace {

void put_le(std::string& out, uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Opcodes of Python's Lib/pickle.py.
constexpr char kProto = '\x80';
constexpr char kFrame = '\x95';
constexpr char kMemoize = '\x94';
constexpr char kShortBinUnicode = '\x8c';
constexpr char kBinUnicode = 'X';
constexpr char kShortBinBytes = 'C';
constexpr char kBinInt1 = 'K';
constexpr char kBinInt2 = 'M';
constexpr char kBinInt = 'J';
constexpr char kNone = 'N';
constexpr char kMark = '(';
constexpr char kTuple = 't';
constexpr char kEmptyTuple = ')';
constexpr char kStop = '.';
constexpr char kShortTuple[] = {0, '\x85', '\x86', '\x87'};

// The pickler starts a new frame once one has 64 KiB; blocks are kept far below that.
constexpr size_t kFrameSizeTarget = 64 * 1024;

void pickle_text(std::string& out, std::string_view text) {
  if (text.size() < 256) {
    out.push_back(kShortBinUnicode);
    put_le(out, text.size(), 1);
  } else {
    out.push_back(kBinUnicode);
    put_le(out, text.size(), 4);
  }
  out.append(text);
  out.push_back(kMemoize);
}

void pickle_int(std::string& out, TokenId value) {
  if (value >= 0 && value <= 0xff) {
    out.push_back(kBinInt1);
    put_le(out, static_cast<uint32_t>(value), 1);
  } else if (value >= 0 && value <= 0xffff) {
    out.push_back(kBinInt2);
    put_le(out, static_cast<uint32_t>(value), 2);
  } else {
    out.push_back(kBinInt);
    put_le(out, static_cast<uint32_t>(value), 4);
  }
}

// Tuples of up to three items have an opcode of their own; longer ones are marked.
template <class Items, class Put>
void pickle_tuple(std::string& out, const Items& items, Put put) {
  if (items.empty()) {
    out.push_back(kEmptyTuple);
    return;
  }
  const bool is_short = items.size() <= 3;
  if (!is_short) out.push_back(kMark);
  for (const auto& item : items) put(out, item);
  out.push_back(is_short ? kShortTuple[items.size()] : kTuple);
  out.push_back(kMemoize);
}

std::string finish_pickle(std::string body) {
  body.push_back(kStop);
  CHECK_LT(body.size(), kFrameSizeTarget);
  std::string out{kProto, '\x05', kFrame};
  put_le(out, body.size(), 8);
  return out + body;
}

void cbor_head(std::string& out, int major, uint64_t value) {
  const char type = static_cast<char>(major << 5);
  const auto put_be = [&](int num_bytes) {
    for (int i = num_bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  };
  if (value < 24) {
    out.push_back(static_cast<char>(type | static_cast<char>(value)));
  } else if (value <= 0xff) {
    out.push_back(static_cast<char>(type | 24));
    put_be(1);
  } else if (value <= 0xffff) {
    out.push_back(static_cast<char>(type | 25));
    put_be(2);
  } else {
    out.push_back(static_cast<char>(type | 26));
    put_be(4);
  }
}

constexpr char kCborNull = '\xf6';

}  // namespace

std::string pickle_string(std::string_view text) {
  std::string body;
  pickle_text(body, text);
  return finish_pickle(std::move(body));
}

std::string pickle_block(std::string_view parent, std::span<const TokenId> tokens,
                         std::span<const std::string_view> extra) {
  std::string body;
  body.reserve(parent.size() + tokens.size() * 5 + 16);
  CHECK_LT(parent.size(), size_t{256});
  body.push_back(kShortBinBytes);
  put_le(body, parent.size(), 1);
  body.append(parent);
  body.push_back(kMemoize);
  pickle_tuple(body, tokens, pickle_int);
  if (extra.empty()) {
    body.push_back(kNone);
  } else {
    pickle_tuple(body, extra, pickle_text);
  }
  body.push_back(kShortTuple[3]);
  body.push_back(kMemoize);
  return finish_pickle(std::move(body));
}

std::string cbor_string(std::string_view text) {
  std::string out;
  cbor_head(out, 3, text.size());
  out.append(text);
  return out;
}

std::string cbor_block(std::string_view parent, std::span<const TokenId> tokens,
                       std::span<const std::string_view> extra) {
  std::string out;
  out.reserve(parent.size() + tokens.size() * 5 + 16);
  cbor_head(out, 4, 3);
  cbor_head(out, 2, parent.size());
  out.append(parent);
  cbor_head(out, 4, tokens.size());
  for (const TokenId token : tokens) cbor_head(out, 0, static_cast<uint32_t>(token));
  if (extra.empty()) {
    out.push_back(kCborNull);
  } else {
    cbor_head(out, 4, extra.size());
    for (const std::string_view key : extra) out += cbor_string(key);
  }
  return out;
}

}  // namespace octavo::engine
