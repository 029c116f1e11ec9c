#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace octavo::config {

/// What a --config file says, as the words of a command line.
struct ConfigFile {
  std::string model;  // of the key `model`; empty when there is none
  std::vector<std::string> words;
};

/// Reads a .yaml or .yml file of at most 1 MiB, 32 levels and 100,000 nodes (aliases counted where
/// they are used). The error is one line that names the file.
Result<ConfigFile> read_config_file(const std::string& path);
/// The same from text; `path` is for messages.
Result<ConfigFile> parse_config_file(const std::string& text, const std::string& path);

}  // namespace octavo::config
