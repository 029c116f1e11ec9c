#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::model {

/// "[2, 3]"
std::string show_shape(std::span<const int64_t> shape);

/// Which tensors a model is made of, whatever their order in the files. Of a tensor's values some
/// are looked at, spread over all of it: training changes them all, and reading every byte twice
/// would double the time to load.
class Manifest {
 public:
  void add(std::string_view name, std::string_view type, std::span<const int64_t> shape,
           std::span<const std::byte> data);
  /// SHA-256 over the sorted lines, 64 hex digits.
  std::string hash() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace octavo::model
