#include "tokenizer/string_table.h"

#include <bit>
#include <functional>

namespace octavo::tokenizer {

StringIndex::StringIndex(size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

uint32_t StringIndex::hash_of(std::string_view text) {
  const uint64_t hash = std::hash<std::string_view>()(text);
  return uint32_t(hash ^ hash >> 32);
}

void StringIndex::add(const StringTable& strings, int32_t id) {
  const std::string_view text = strings.at(id);
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i].id >= 0; i = (i + 1) & mask) {
    if (slots_[i].hash == hash && strings.at(slots_[i].id) == text) return;
  }
  slots_[i] = {hash, id};
}

int32_t StringIndex::find(const StringTable& strings, std::string_view text) const {
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].id >= 0; i = (i + 1) & mask) {
    if (slots_[i].hash == hash && strings.at(slots_[i].id) == text) return slots_[i].id;
  }
  return -1;
}

}  // namespace octavo::tokenizer
