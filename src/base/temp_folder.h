#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"

namespace octavo {

/// A folder of its own below the system's temporary one, removed with the object. For tests.
class TempFolder {
 public:
  TempFolder() {
    path_ = (std::filesystem::temp_directory_path() / "octavo-XXXXXX").string();
    CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;  // what cannot be removed stays
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  /// A file of this text; returns its path.
  std::string write(std::string_view name, std::string_view text) const {
    const std::string path = path_ + "/" + std::string(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace octavo
