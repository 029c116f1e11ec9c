#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::model {

/// "[2, 3]"
std::string show_shape(std::span<const int64_t> shape);

/// Which tensors a model is made of, whatever their order in the files.
class Manifest {
 public:
  void add(std::string_view name, std::string_view type, std::span<const int64_t> shape,
           size_t size_bytes);
  /// SHA-256 over the sorted lines, 64 hex digits.
  std::string hash() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace octavo::model
