#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::tokenizer {

/// Strings by id in one block of memory; absent ids have no string.
class StringTable {
 public:
  /// Room for ids below `count`.
  explicit StringTable(size_t count = 0) : ranges_(count) {}
  /// Sets the string of `id` (< size()); a second call replaces it.
  void set(size_t id, std::string_view text) {
    ranges_[id] = {uint32_t(bytes_.size()), uint32_t(text.size()), true};
    bytes_ += text;
  }
  size_t size() const { return ranges_.size(); }
  bool has(int64_t id) const { return id >= 0 && size_t(id) < size() && ranges_[id].present; }
  std::string_view at(int64_t id) const {
    if (!has(id)) return {};
    return std::string_view(bytes_).substr(ranges_[id].begin, ranges_[id].size);
  }

 private:
  struct Range {
    uint32_t begin = 0, size = 0;
    bool present = false;
  };
  std::string bytes_;
  std::vector<Range> ranges_;
};

/// Ids by string, over the strings of a StringTable that outlives it and may not change. Built
/// once, then read by any thread.
class StringIndex {
 public:
  /// Room for `count` strings.
  explicit StringIndex(size_t count = 0);
  /// Adds the string of `id`; the first id of a string stays.
  void add(const StringTable& strings, int32_t id);
  int32_t find(const StringTable& strings, std::string_view text) const;  // -1 = not there

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  static uint32_t hash_of(std::string_view text);
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace octavo::tokenizer
