#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace octavo::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

enum : uint32_t {
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
  kF64
};

std::string header(uint64_t num_tensors, uint64_t num_pairs, uint32_t version = 3) {
  return ByteWriter().raw("GGUF").put(version).put(num_tensors).put(num_pairs).bytes();
}

template <class T>
std::string pair(std::string_view key, uint32_t kind, T value) {
  return ByteWriter().text(key).put(kind).put(value).bytes();
}
std::string text_pair(std::string_view key, std::string_view value) {
  return ByteWriter().text(key).put(kString).text(value).bytes();
}
/// `elements` are the raw bytes of `count` elements.
std::string array_pair(std::string_view key, uint32_t kind, uint64_t count,
                       std::string_view elements) {
  return ByteWriter().text(key).put(kArray).put(kind).put(count).raw(elements).bytes();
}

/// dims innermost first, as in the file.
std::string info(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                 uint64_t offset) {
  ByteWriter out;
  out.text(name).put(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) out.put(dim);
  return out.put(type).put(offset).bytes();
}

std::string padded(std::string_view head, size_t num_data_bytes, size_t alignment = 32) {
  return ByteWriter().raw(head).pad(alignment).raw(std::string(num_data_bytes, 'd')).bytes();
}

std::string error_of(std::string_view file) {
  const auto result = parse_gguf(bytes_of(file), "m.gguf", true);
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("m.gguf: "), HasSubstr("offset "), Not(HasSubstr("\n"))));
  return result.error().message;
}

/// A file with one tensor 't'.
std::string error_of_tensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset,
                            size_t num_data_bytes) {
  const std::string error =
      error_of(padded(header(1, 0) + info("t", dims, type, offset), num_data_bytes));
  EXPECT_THAT(error, HasSubstr("tensor 't'"));
  return error;
}

std::string valid_file() {
  std::string file = header(3, 7);
  file += text_pair("general.architecture", "llama");
  file += pair<uint32_t>("llama.block_count", kU32, 30);
  file += pair<float>("llama.rope.freq_base", kF32, 10000.0f);
  file += pair<uint8_t>("add_bos", kBool, 1);
  file += array_pair("tokens", kString, 2, ByteWriter().text("a").text("bc").bytes());
  file += array_pair("types", kI32, 2, ByteWriter().put(1).put(-3).bytes());
  file += array_pair("scores", kF32, 1, ByteWriter().put(0.5f).bytes());
  file += info("embd", {64, 2}, 8, 0);   // Q8_0: 4 blocks of 34 bytes = 136
  file += info("norm", {8}, 0, 160);     // F32: 32 bytes
  file += info("ffn", {32, 2}, 3, 192);  // Q4_1: 2 blocks of 20 bytes
  return padded(file, 192 + 40);
}

TEST(Gguf, ReadsMetadataAndTensors) {
  const std::string file = valid_file();
  const auto contents = parse_gguf(bytes_of(file), "m.gguf", true);
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  const Metadata& m = contents->metadata;
  EXPECT_EQ(*m.find("general.architecture")->as_string(), "llama");
  EXPECT_EQ(m.find("llama.block_count")->as_int(), 30);
  EXPECT_EQ(m.find("llama.rope.freq_base")->as_double(), 10000.0);
  EXPECT_EQ(m.find("add_bos")->as_bool(), true);
  EXPECT_THAT(*m.find("tokens")->as_strings(), ElementsAre("a", "bc"));
  EXPECT_THAT(*m.find("tokens")->as_string_list(), ElementsAre("a", "bc"));
  EXPECT_THAT(*m.find("types")->as_int32s(), ElementsAre(1, -3));
  EXPECT_THAT(*m.find("types")->as_ints(), ElementsAre(1, -3));
  EXPECT_THAT(*m.find("scores")->as_floats(), ElementsAre(0.5f));
  ASSERT_EQ(contents->tensors.size(), 3u);
  const Tensor& embd = contents->tensors[0];
  EXPECT_EQ(embd.name, "embd");
  EXPECT_EQ(embd.type, TensorType::kQ8_0);
  EXPECT_THAT(embd.shape, ElementsAre(2, 64));
  EXPECT_EQ(embd.data.size(), 136u);
  EXPECT_EQ(embd.offset % 32, 0u);
  EXPECT_EQ(contents->tensors[2].data.size(), 40u);
}

TEST(Gguf, WithoutTensorsOnlyTheMetadataIsRead) {
  const std::string file = header(1, 1) + pair<uint32_t>("k", kU32, 1);
  EXPECT_FALSE(parse_gguf(bytes_of(file + std::string(40, '\xff')), "m", true).ok());
  const auto contents = parse_gguf(bytes_of(file + std::string(40, '\xff')), "m", false);
  ASSERT_TRUE(contents.ok());
  EXPECT_TRUE(contents->tensors.empty());
}

TEST(Gguf, ReadsEveryValueType) {
  std::string file = header(0, 12, 2);
  file += pair<uint8_t>("u8", kU8, 200);
  file += pair<int8_t>("i8", kI8, -5);
  file += pair<uint16_t>("u16", kU16, 60000);
  file += pair<int16_t>("i16", kI16, -30000);
  file += pair<int32_t>("i32", kI32, -7);
  file += pair<uint64_t>("u64", kU64, uint64_t{1} << 40);
  file += pair<uint64_t>("huge", kU64, UINT64_MAX);
  file += pair<int64_t>("i64", kI64, INT64_MIN);
  file += pair<double>("f64", kF64, 0.25);
  file += array_pair("bools", kBool, 2, std::string("\1\0", 2));
  file += array_pair("u32s", kU32, 1, ByteWriter().put(UINT32_MAX).bytes());
  file += array_pair("empty", kString, 0, "");
  const auto contents = parse_gguf(bytes_of(file), "m.gguf", true);
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  const Metadata& m = contents->metadata;
  EXPECT_EQ(m.find("u8")->as_int(), 200);
  EXPECT_EQ(m.find("i8")->as_int(), -5);
  EXPECT_EQ(m.find("u16")->as_int(), 60000);
  EXPECT_EQ(m.find("i16")->as_int(), -30000);
  EXPECT_EQ(m.find("i32")->as_int(), -7);
  EXPECT_EQ(m.find("u64")->as_int(), int64_t{1} << 40);
  EXPECT_EQ(m.find("huge")->as_int(), std::nullopt);
  EXPECT_DOUBLE_EQ(*m.find("huge")->as_double(), 18446744073709551615.0);
  EXPECT_EQ(m.find("i64")->as_int(), INT64_MIN);
  EXPECT_EQ(m.find("f64")->as_double(), 0.25);
  const auto& bools = *std::get<std::shared_ptr<MetadataArray>>(m.find("bools")->value());
  EXPECT_EQ(bools[0].as_bool(), true);
  EXPECT_EQ(bools[1].as_bool(), false);
  EXPECT_EQ(m.find("u32s")->as_int32s(), nullptr);  // does not fit int32
  EXPECT_THAT(*m.find("u32s")->as_ints(), ElementsAre(int64_t{UINT32_MAX}));
  EXPECT_TRUE(m.find("empty")->as_strings()->empty());
}

TEST(Gguf, NestedArraysAreReadToALimit) {
  const auto nested = [](int depth) {
    ByteWriter out;
    out.text("k").put(kArray);
    for (int i = 1; i < depth; ++i) out.put(kArray).put(uint64_t{1});
    return header(0, 1) + out.put(kI32).put(uint64_t{1}).put(5).bytes();
  };
  EXPECT_TRUE(parse_gguf(bytes_of(nested(8)), "m", true).ok());
  EXPECT_THAT(error_of(nested(9)), HasSubstr("nests arrays deeper than 8"));
  EXPECT_THAT(error_of(nested(100'000)), HasSubstr("nests arrays deeper than 8"));
}

TEST(Gguf, EveryPrefixIsAnError) {
  const std::string file = valid_file();
  for (size_t size = 0; size < file.size(); ++size) error_of(file.substr(0, size));
}

void expect_no_crash_of_flipped_bits(const std::string& file) {
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto contents = parse_gguf(bytes_of(flipped), "m", true);
    if (!contents.ok()) continue;
    for (const Tensor& tensor : contents->tensors) {
      EXPECT_LE(tensor.offset + tensor.data.size(), flipped.size());
    }
  }
}

TEST(Gguf, FlippedBitsNeverCrash) {
  const std::string blocks = padded(header(3, 0) + info("a", {256, 2}, 14, 0) +
                                        info("b", {256, 1}, 12, 448) + info("c", {64, 3}, 6, 608),
                                    608 + 132);
  ASSERT_TRUE(parse_gguf(bytes_of(blocks), "m", true).ok());
  for (const std::string& file : {valid_file(), blocks}) expect_no_crash_of_flipped_bits(file);
}

TEST(Gguf, OtherVersionsAreRefusedByName) {
  EXPECT_THAT(error_of(header(0, 0, 1)), HasSubstr("GGUF version 1 at offset 4"));
  EXPECT_THAT(error_of(header(0, 0, 4)), HasSubstr("GGUF version 4"));
  EXPECT_THAT(error_of(header(0, 0, 0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(error_of("GGML" + header(0, 0).substr(4)), HasSubstr("no GGUF magic at offset 0"));
}

TEST(Gguf, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_THAT(error_of(header(UINT64_MAX, 0)), HasSubstr("tensors (count at offset 8)"));
  EXPECT_THAT(error_of(header(0, UINT64_MAX)), HasSubstr("metadata entries (count at offset 16)"));
  for (const uint32_t kind : {kU8, kI32, kF32, kString, kArray, kBool, kF64}) {
    error_of(header(0, 1) + array_pair("k", kind, UINT64_MAX, std::string(64, '\0')));
    error_of(header(0, 1) + array_pair("k", kind, 1 << 20, std::string(64, '\0')));
  }
  EXPECT_THAT(error_of(header(0, 1) + ByteWriter().put(UINT64_MAX).raw("kkkkkkkk").bytes()),
              HasSubstr("metadata key at offset 24 claims 18446744073709551615 bytes"));
}

TEST(Gguf, BadMetadata) {
  EXPECT_THAT(error_of(header(0, 1) + pair<uint32_t>("k", 13, 1)),
              HasSubstr("metadata 'k' at offset 33 has the unknown value type 13"));
  EXPECT_THAT(error_of(header(0, 1) + array_pair("k", 77, 1, "x")), HasSubstr("value type 77"));
  EXPECT_THAT(error_of(header(0, 1) + pair<uint8_t>("k", kBool, 2)), HasSubstr("is 2, no bool"));
  EXPECT_THAT(error_of(header(0, 1) + pair<uint32_t>("", kU32, 2)), HasSubstr("has 0 bytes"));
  const std::string one = pair<uint32_t>("k", kU32, 2);
  EXPECT_THAT(error_of(header(0, 2) + one + one), HasSubstr("metadata 'k' at offset 41 stands"));
}

TEST(Gguf, AlignmentMustBeAPowerOfTwo) {
  const auto with = [](uint32_t alignment) {
    return padded(
        header(1, 1) + pair<uint32_t>("general.alignment", kU32, alignment) + info("t", {2}, 0, 0),
        8, 64);
  };
  EXPECT_TRUE(parse_gguf(bytes_of(with(64)), "m", true).ok());
  for (const uint32_t bad : {0u, 3u, 48u, 1u << 31}) {
    EXPECT_THAT(error_of(with(bad)), HasSubstr("general.alignment"));
  }
  EXPECT_THAT(error_of(header(0, 1) + text_pair("general.alignment", "32")),
              HasSubstr("no integer"));
}

TEST(Gguf, UnreadableTypesAreNamed) {
  EXPECT_THAT(error_of_tensor({256}, 10, 0, 144), HasSubstr("has type Q2_K"));
  EXPECT_THAT(error_of_tensor({256}, 20, 0, 144), HasSubstr("has type IQ4_NL"));
  EXPECT_THAT(error_of_tensor({256}, 39, 0, 144), HasSubstr("has type MXFP4"));
  EXPECT_THAT(error_of_tensor({256}, 1000, 0, 144), HasSubstr("has type number 1000"));
}

TEST(Gguf, ReadableTypesHaveTheRightSize) {
  struct Case {
    uint32_t number;
    TensorType type;
    uint64_t elements;
    size_t size_bytes;  // of two rows of so many elements
  };
  const std::vector<Case> cases = {
      {0, TensorType::kF32, 32, 256},    {1, TensorType::kF16, 32, 128},
      {30, TensorType::kBF16, 32, 128},  {8, TensorType::kQ8_0, 32, 68},
      {2, TensorType::kQ4_0, 32, 36},    {3, TensorType::kQ4_1, 32, 40},
      {6, TensorType::kQ5_0, 32, 44},    {7, TensorType::kQ5_1, 32, 48},
      {12, TensorType::kQ4_K, 256, 288}, {13, TensorType::kQ5_K, 256, 352},
      {14, TensorType::kQ6_K, 256, 420},
  };
  for (const Case& c : cases) {
    const std::string file =
        padded(header(1, 0) + info("t", {c.elements, 2}, c.number, 0), c.size_bytes);
    const auto contents = parse_gguf(bytes_of(file), "m", true);
    ASSERT_TRUE(contents.ok()) << contents.error().message;
    EXPECT_EQ(contents->tensors[0].type, c.type);
    EXPECT_EQ(contents->tensors[0].data.size(), c.size_bytes);
    error_of(file.substr(0, file.size() - 1));
  }
}

TEST(Gguf, RowsMustBeWholeBlocks) {
  for (const uint32_t number : {6u, 7u}) {
    EXPECT_THAT(error_of_tensor({16}, number, 0, 80), HasSubstr("no whole blocks of Q5_"));
    // Whole blocks in all, but not in a row.
    EXPECT_THAT(error_of_tensor({16, 2}, number, 0, 80), HasSubstr("no whole blocks of Q5_"));
  }
  for (const uint32_t number : {12u, 13u, 14u}) {
    for (const uint64_t columns : {32, 128, 255, 257, 576}) {
      EXPECT_THAT(error_of_tensor({columns, 256}, number, 0, 80),
                  HasSubstr("no whole blocks of Q"));
    }
  }
}

TEST(Gguf, BadShapes) {
  EXPECT_THAT(error_of_tensor({}, 0, 0, 8), HasSubstr("has 0 dimensions"));
  EXPECT_THAT(error_of_tensor({1, 1, 1, 1, 1}, 0, 0, 8), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(error_of_tensor({0}, 0, 0, 8), HasSubstr("has the dimension 0"));
  EXPECT_THAT(error_of_tensor({UINT64_MAX}, 0, 0, 8), HasSubstr("has the dimension"));
  EXPECT_THAT(error_of_tensor({1ull << 32, 1ull << 32}, 0, 0, 8), HasSubstr("too large"));
  EXPECT_THAT(error_of_tensor({1ull << 62}, 0, 0, 8), HasSubstr("too large"));
  EXPECT_THAT(error_of_tensor({33}, 8, 0, 80), HasSubstr("no whole blocks of Q8_0"));
}

TEST(Gguf, BadPlaces) {
  EXPECT_THAT(error_of_tensor({2}, 0, 4, 32), HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(error_of_tensor({2}, 0, 32, 39), HasSubstr("beyond the end of the file"));
  EXPECT_THAT(error_of_tensor({2}, 0, UINT64_MAX - 31, 32), HasSubstr("beyond the end"));
  EXPECT_THAT(error_of_tensor({1ull << 40}, 0, 0, 32), HasSubstr("beyond the end of the file"));
}

TEST(Gguf, OverlapAndDuplicatesNameTheTensors) {
  const std::string overlap = header(2, 0) + info("a", {16}, 0, 0) + info("b", {2}, 0, 32);
  EXPECT_THAT(error_of(padded(overlap, 64)),
              AllOf(HasSubstr("tensor 'b' at offset"), HasSubstr("overlaps tensor 'a'")));
  const std::string twice = header(2, 0) + info("a", {2}, 0, 0) + info("a", {2}, 0, 32);
  EXPECT_THAT(error_of(padded(twice, 64)), HasSubstr("tensor 'a' at offset"));
  EXPECT_THAT(error_of(padded(header(1, 0) + info(std::string(64, 'x'), {2}, 0, 0), 32)),
              HasSubstr("has 64 bytes"));
}

}  // namespace
}  // namespace octavo::checkpoint
