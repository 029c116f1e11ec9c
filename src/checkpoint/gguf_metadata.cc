#include "checkpoint/gguf_metadata.h"

#include <algorithm>
#include <limits>

#include "checkpoint/quote.h"

namespace octavo::checkpoint {
namespace {

// Value types of the GGUF specification.
enum class Kind : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

constexpr int kMaxArrayDepth = 8;
// Limits we chose: the largest vocabularies have 300,000 entries.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 24;
constexpr uint64_t kMaxKeyBytes = 65535;  // of the specification

template <class T>
Metadata number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return Metadata(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Metadata(static_cast<double>(value));
    }
    return Metadata(static_cast<int64_t>(value));
  } else {
    return Metadata(static_cast<int64_t>(value));
  }
}

template <class T>
Result<Metadata> read_number(ByteReader& in, std::string_view what) {
  OCTAVO_TRY(const T value, in.read<T>(what));
  return number(value);
}

Result<Metadata> read_bool(ByteReader& in, std::string_view what) {
  OCTAVO_TRY(const uint8_t value, in.read<uint8_t>(what));
  if (value > 1) {
    return in.error("{} at offset {} is {}, no bool", what, in.offset() - 1, value);
  }
  return Metadata(value == 1);
}

template <class T>
std::vector<T> load(const std::byte* raw, uint64_t count) {
  std::vector<T> values(count);
  if (count != 0) std::memcpy(values.data(), raw, count * sizeof(T));
  return values;
}

template <class T>
bool fits_int32(T value) {
  return std::in_range<int32_t>(value);
}

/// Integers as the compact array where all fit int32, else one by one; floats as f32 or double.
template <class T>
Result<Metadata> read_numbers(ByteReader& in, uint64_t count, std::string_view what) {
  OCTAVO_TRY(const std::byte* raw, in.read_raw(count, sizeof(T), what));
  const std::vector<T> values = load<T>(raw, count);
  if constexpr (std::is_same_v<T, float>) {
    return Metadata(std::make_shared<std::vector<float>>(values));
  } else {
    if constexpr (std::is_integral_v<T>) {
      if (std::all_of(values.begin(), values.end(), fits_int32<T>)) {
        return Metadata(std::make_shared<std::vector<int32_t>>(values.begin(), values.end()));
      }
    }
    auto array = std::make_shared<MetadataArray>();
    array->reserve(count);
    for (const T value : values) array->push_back(number(value));
    return Metadata(std::move(array));
  }
}

Result<Metadata> read_strings(ByteReader& in, uint64_t count, std::string_view what) {
  if (count > in.num_remaining() / sizeof(uint64_t)) return in.truncated(what);
  auto strings = std::make_shared<std::vector<std::string>>();
  strings->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    OCTAVO_TRY(const std::string_view text, in.read_string(what));
    strings->emplace_back(text);
  }
  return Metadata(std::move(strings));
}

Result<Metadata> read_bools(ByteReader& in, uint64_t count, std::string_view what) {
  if (count > in.num_remaining()) return in.truncated(what);
  auto array = std::make_shared<MetadataArray>();
  array->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    OCTAVO_TRY(Metadata value, read_bool(in, what));
    array->push_back(std::move(value));
  }
  return Metadata(std::move(array));
}

Error unknown_kind(const ByteReader& in, uint32_t kind, std::string_view what) {
  return in.error("{} at offset {} has the unknown value type {}", what,
                  in.offset() - sizeof(uint32_t), kind);
}

// Recursion ends at kMaxArrayDepth.
Result<Metadata> read_array(ByteReader& in, std::string_view what, int depth) {
  if (depth > kMaxArrayDepth) {
    return in.error("{} at offset {} nests arrays deeper than {}", what, in.offset(),
                    kMaxArrayDepth);
  }
  OCTAVO_TRY(const uint32_t kind, in.read<uint32_t>(what));
  if (kind > static_cast<uint32_t>(Kind::kF64)) return unknown_kind(in, kind, what);
  const uint64_t count_offset = in.offset();
  OCTAVO_TRY(const uint64_t count, in.read<uint64_t>(what));
  if (count > kMaxArrayElements) {
    return in.error("{} at offset {} claims {} elements, at most {} are read", what, count_offset,
                    count, kMaxArrayElements);
  }
  switch (static_cast<Kind>(kind)) {
    case Kind::kU8:
      return read_numbers<uint8_t>(in, count, what);
    case Kind::kI8:
      return read_numbers<int8_t>(in, count, what);
    case Kind::kU16:
      return read_numbers<uint16_t>(in, count, what);
    case Kind::kI16:
      return read_numbers<int16_t>(in, count, what);
    case Kind::kU32:
      return read_numbers<uint32_t>(in, count, what);
    case Kind::kI32:
      return read_numbers<int32_t>(in, count, what);
    case Kind::kF32:
      return read_numbers<float>(in, count, what);
    case Kind::kU64:
      return read_numbers<uint64_t>(in, count, what);
    case Kind::kI64:
      return read_numbers<int64_t>(in, count, what);
    case Kind::kF64:
      return read_numbers<double>(in, count, what);
    case Kind::kBool:
      return read_bools(in, count, what);
    case Kind::kString:
      return read_strings(in, count, what);
    case Kind::kArray:
      break;
  }
  constexpr uint64_t kMinArrayBytes = sizeof(uint32_t) + sizeof(uint64_t);
  if (count > in.num_remaining() / kMinArrayBytes) return in.truncated(what);
  auto arrays = std::make_shared<MetadataArray>();
  for (uint64_t i = 0; i < count; ++i) {
    OCTAVO_TRY(Metadata array, read_array(in, what, depth + 1));
    arrays->push_back(std::move(array));
  }
  return Metadata(std::move(arrays));
}

Result<Metadata> read_value(ByteReader& in, std::string_view what) {
  OCTAVO_TRY(const uint32_t kind, in.read<uint32_t>(what));
  switch (static_cast<Kind>(kind)) {
    case Kind::kU8:
      return read_number<uint8_t>(in, what);
    case Kind::kI8:
      return read_number<int8_t>(in, what);
    case Kind::kU16:
      return read_number<uint16_t>(in, what);
    case Kind::kI16:
      return read_number<int16_t>(in, what);
    case Kind::kU32:
      return read_number<uint32_t>(in, what);
    case Kind::kI32:
      return read_number<int32_t>(in, what);
    case Kind::kF32:
      return read_number<float>(in, what);
    case Kind::kU64:
      return read_number<uint64_t>(in, what);
    case Kind::kI64:
      return read_number<int64_t>(in, what);
    case Kind::kF64:
      return read_number<double>(in, what);
    case Kind::kBool:
      return read_bool(in, what);
    case Kind::kString: {
      OCTAVO_TRY(const std::string_view text, in.read_string(what));
      return Metadata(std::string(text));
    }
    case Kind::kArray:
      return read_array(in, what, 1);
  }
  return unknown_kind(in, kind, what);
}

}  // namespace

Result<MetadataObject> read_gguf_metadata(ByteReader& in, uint64_t count) {
  MetadataObject members;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key_offset = in.offset();
    OCTAVO_TRY(const std::string_view key, in.read_string("metadata key"));
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return in.error("metadata key at offset {} has {} bytes, allowed are 1 to {}", key_offset,
                      key.size(), kMaxKeyBytes);
    }
    const std::string what = "metadata " + quote(key);
    OCTAVO_TRY(Metadata value, read_value(in, what));
    if (!members.try_emplace(std::string(key), std::move(value)).second) {
      return in.error("{} at offset {} stands there twice", what, key_offset);
    }
  }
  return members;
}

}  // namespace octavo::checkpoint
