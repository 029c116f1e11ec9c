#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace octavo::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("s":{"dtype":"F32","shape":[],"data_offsets":[20,24]},)"
    R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[24,32]},)"
    R"("none":{"dtype":"F16","shape":[0,4],"data_offsets":[8,8]}})";

std::string error_of(std::string_view file) {
  const auto result = parse_safetensors(bytes_of(file), "m.safetensors");
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("m.safetensors: "), Not(HasSubstr("\n"))));
  return result.error().message;
}

/// One tensor 't' with the given fields, eight bytes of data.
std::string error_of_tensor(std::string_view fields) {
  const std::string error = error_of(safetensors_file("{\"t\":{" + std::string(fields) + "}}", 8));
  EXPECT_THAT(error, AllOf(HasSubstr("tensor 't'"), HasSubstr("offset")));
  return error;
}

TEST(Safetensors, ReadsTensorsInOrderOfOffset) {
  const std::string file = safetensors_file(kHeader, 32);
  const auto contents = parse_safetensors(bytes_of(file), "m.safetensors");
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  ASSERT_EQ(contents->tensors.size(), 4u);
  const Tensor& a = contents->tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.offset, 8 + kHeader.size());
  EXPECT_EQ(contents->tensors[1].name, "none");
  const Tensor& b = contents->tensors[2];
  EXPECT_EQ(b.type, TensorType::kBF16);
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.data.size(), 12u);
  EXPECT_EQ(b.data.data(), bytes_of(file).data() + 8 + kHeader.size() + 8);
  EXPECT_EQ(b.file, "m.safetensors");
  EXPECT_THAT(contents->left_out, ElementsAre("ids"));
}

TEST(Safetensors, EveryPrefixIsAnError) {
  const std::string file = safetensors_file(kHeader, 32);
  for (size_t size = 0; size < file.size(); ++size) error_of(file.substr(0, size));
}

TEST(Safetensors, FlippedBitsNeverCrash) {
  const std::string file = safetensors_file(kHeader, 32);
  for (size_t bit = 0; bit < (8 + kHeader.size()) * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto contents = parse_safetensors(bytes_of(flipped), "m");
    if (!contents.ok()) continue;
    for (const Tensor& tensor : contents->tensors) {
      EXPECT_LE(tensor.offset + tensor.data.size(), flipped.size());
    }
  }
}

TEST(Safetensors, HeaderLengthBeyondTheFile) {
  for (const uint64_t length : {uint64_t{17}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7}) {
    const std::string file = ByteWriter().put(length).raw("{}              ").bytes();
    EXPECT_THAT(error_of(file), HasSubstr("header at offset 8 claims " + std::to_string(length)));
  }
  EXPECT_THAT(error_of("abc"), HasSubstr("too short"));
}

TEST(Safetensors, HeaderMustBeAnObjectWithoutDuplicates) {
  EXPECT_THAT(error_of(safetensors_file("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(safetensors_file("{", 0)), HasSubstr("header at offset 8"));
  EXPECT_THAT(error_of(safetensors_file(R"({"a":{},"a":{}})", 0)), HasSubstr("duplicate key 'a'"));
}

TEST(Safetensors, RangeMustEqualShapeTimesType) {
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
              HasSubstr("shape [3] of F32 takes 12 bytes, but the file gives 8"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F16","shape":[2,2],"data_offsets":[1,8])"),
              HasSubstr("takes 8 bytes, but the file gives 7"));
}

TEST(Safetensors, RangeMustLieInTheFile) {
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"),
              HasSubstr("beyond the end of the file"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
              HasSubstr("begin <= end"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
              HasSubstr("begin <= end"));
  error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,9223372036854775807])");
  error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999])");
  error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])");
  error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":8)");
}

TEST(Safetensors, HugeShapesDoNotOverflow) {
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
      HasSubstr("too large"));
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"),
      HasSubstr("too large"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])"),
              HasSubstr("negative"));
  error_of_tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])");
  error_of_tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])");
  error_of_tensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])");
}

TEST(Safetensors, MissingOrUnknownDtypeIsNamed) {
  EXPECT_THAT(error_of_tensor(R"("dtype":"C64","shape":[1],"data_offsets":[0,8])"),
              testing::AllOf(HasSubstr("dtype 'C64' at offset"), HasSubstr("F8_E4M3")));
  EXPECT_THAT(error_of_tensor(R"("dtype":"Q8_0","shape":[8],"data_offsets":[0,8])"),
              HasSubstr("dtype 'Q8_0'"));  // GGUF's alone
  EXPECT_THAT(error_of_tensor(R"("shape":[8],"data_offsets":[0,8])"), HasSubstr("lacks dtype"));
  EXPECT_THAT(error_of_tensor(R"("dtype":4,"shape":[8],"data_offsets":[0,8])"),
              HasSubstr("lacks dtype"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32")"), HasSubstr("lacks shape or data_offsets"));
}

TEST(Safetensors, OverlapNamesBothTensors) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_THAT(error_of(safetensors_file(header, 8)),
              AllOf(HasSubstr("tensor 'b' at offset"), HasSubstr("overlaps tensor 'a'")));
}

TEST(Safetensors, GapsAreAllowed) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_TRUE(parse_safetensors(bytes_of(safetensors_file(header, 12)), "m").ok());
}

TEST(Safetensors, ControlCharactersOfANameStayOutOfTheMessage) {
  const std::string header = R"({"a\nb":{"dtype":"X","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_THAT(error_of(safetensors_file(header, 4)), HasSubstr("tensor 'a\\x0ab'"));
}

}  // namespace
}  // namespace octavo::checkpoint
