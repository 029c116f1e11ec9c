#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <cstring>

#include "checkpoint/layout.h"
#include "checkpoint/metadata.h"
#include "checkpoint/quote.h"

namespace octavo::checkpoint {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxDims = 8;  // checkpoints of language models have at most 4

constexpr TensorType kReadable[] = {
    TensorType::kF32,     TensorType::kF16,     TensorType::kBF16,
    TensorType::kI8,      TensorType::kU8,      TensorType::kI32,
    TensorType::kF8_E4M3, TensorType::kF8_E5M2, TensorType::kF8_E8M0};

std::optional<TensorType> type_of(std::string_view dtype) {
  for (const TensorType type : kReadable) {
    if (name_of(type) == dtype) return type;
  }
  return std::nullopt;
}

std::string readable_names() {
  std::string names;
  for (const TensorType type : kReadable) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(type));
  }
  return names;
}

/// What the header says of one tensor, before its type is known to be readable.
struct Entry {
  std::string_view name;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // relative to the data section
  uint64_t end = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view name) : file_(file), name_(name) {}

  Result<SafetensorsContents> parse() {
    OCTAVO_TRY(const Metadata header, read_header());
    const auto& members = *std::get<std::shared_ptr<MetadataObject>>(header.value());
    for (const auto& [key, value] : members) {
      if (key == "__metadata__") continue;
      OCTAVO_TRY(read_tensor(key, value));
    }
    OCTAVO_TRY(sort_and_check_overlap(contents_.tensors, name_));
    return std::move(contents_);
  }

 private:
  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return {Code::kInvalidArgument,
            fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error tensor_error(std::string_view tensor, fmt::format_string<Args...> format,
                     Args&&... args) const {
    return error("tensor {}: {}", quote(tensor), fmt::format(format, std::forward<Args>(args)...));
  }

  Result<Metadata> read_header() {
    if (file_.size() < kLengthBytes) {
      return error("{} bytes at offset 0 are too short for a safetensors file", file_.size());
    }
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file_.data(), kLengthBytes);
    if (header_bytes > file_.size() - kLengthBytes) {
      return error("the header at offset {} claims {} bytes, but the file has {}", kLengthBytes,
                   header_bytes, file_.size());
    }
    data_ = file_.subspan(kLengthBytes + header_bytes);
    data_offset_ = kLengthBytes + header_bytes;
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes,
                                header_bytes);
    OCTAVO_TRY(Metadata header, parse_json_metadata(text, fmt::format("{}: header at offset {}",
                                                                      name_, kLengthBytes)));
    if (!header.is_object())
      return error("the header at offset {} is no JSON object", kLengthBytes);
    return header;
  }

  Result<Entry> read_entry(std::string_view name, const Metadata& value) const {
    Entry entry{.name = name, .shape = {}};
    const Metadata* shape = value.find("shape");
    const Metadata* offsets = value.find("data_offsets");
    if (shape == nullptr || offsets == nullptr) {
      return tensor_error(name, "the header at offset {} lacks shape or data_offsets",
                          kLengthBytes);
    }
    const auto dims = shape->as_ints();
    const bool is_array = !shape->as_int();
    if (!dims || !is_array || dims->size() > kMaxDims) {
      return tensor_error(name, "shape is no list of at most {} integers (header at offset {})",
                          kMaxDims, kLengthBytes);
    }
    entry.shape = *dims;
    const auto range = offsets->as_ints();
    if (!range || range->size() != 2 || (*range)[0] < 0 || (*range)[1] < (*range)[0]) {
      return tensor_error(name, "data_offsets is no pair begin <= end (header at offset {})",
                          kLengthBytes);
    }
    entry.begin = static_cast<uint64_t>((*range)[0]);
    entry.end = static_cast<uint64_t>((*range)[1]);
    if (entry.end > data_.size()) {
      return tensor_error(name, "offsets {} to {} lie beyond the end of the file at {}",
                          entry.begin + data_offset_, entry.end + data_offset_, file_.size());
    }
    return entry;
  }

  Status read_tensor(std::string_view name, const Metadata& value) {
    OCTAVO_TRY(Entry entry, read_entry(name, value));
    const Metadata* dtype = value.find("dtype");
    const std::string* dtype_name = dtype == nullptr ? nullptr : dtype->as_string();
    if (dtype_name == nullptr) {
      return tensor_error(name, "the header at offset {} lacks dtype", kLengthBytes);
    }
    if (*dtype_name == "I64" || *dtype_name == "BOOL") {
      contents_.left_out.emplace_back(name);
      return {};
    }
    const std::optional<TensorType> type = type_of(*dtype_name);
    if (!type) {
      return Error{Code::kUnsupported,
                   tensor_error(name, "dtype {} at offset {} cannot be read; {} can",
                                quote(*dtype_name), entry.begin + data_offset_, readable_names())
                       .message};
    }
    const auto size_bytes = size_bytes_of(*type, entry.shape);
    if (!size_bytes) {
      return tensor_error(name, "shape [{}] is negative or too large (data at offset {})",
                          fmt::join(entry.shape, ", "), entry.begin + data_offset_);
    }
    if (*size_bytes != entry.end - entry.begin) {
      return tensor_error(name,
                          "shape [{}] of {} takes {} bytes, but the file gives {} at offset {}",
                          fmt::join(entry.shape, ", "), *dtype_name, *size_bytes,
                          entry.end - entry.begin, entry.begin + data_offset_);
    }
    contents_.tensors.push_back({.name = std::string(name),
                                 .type = *type,
                                 .shape = std::move(entry.shape),
                                 .data = data_.subspan(entry.begin, entry.end - entry.begin),
                                 .file = std::string(name_),
                                 .offset = entry.begin + data_offset_});
    return {};
  }

  std::span<const std::byte> file_;
  std::string_view name_;
  std::span<const std::byte> data_ = {};
  uint64_t data_offset_ = 0;
  SafetensorsContents contents_ = {};
};

}  // namespace

Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> file,
                                              std::string_view name) {
  return Parser(file, name).parse();
}

}  // namespace octavo::checkpoint
