#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_checkpoint.h"
#include "checkpoint/hf_checkpoint.h"
#include "checkpoint/mapped_file.h"

namespace octavo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> gguf_files(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code failure;
  for (fs::directory_iterator it(directory, failure), last; !failure && it != last;
       it.increment(failure)) {
    if (it->path().extension() == ".gguf") paths.push_back(it->path().string());
  }
  return paths;
}

bool is_regular(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure);
}

Result<std::unique_ptr<Checkpoint>> open_directory(const std::string& path, LoadFormat format) {
  const bool has_config = is_regular(fs::path(path) / "config.json");
  if (has_config && format != LoadFormat::kGguf) return open_hf(path, format != LoadFormat::kDummy);
  const std::vector<std::string> ggufs = gguf_files(path);
  if (ggufs.size() > 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: the directory holds {} .gguf files; name one of them", path,
                             ggufs.size())};
  }
  if (ggufs.size() == 1 && format != LoadFormat::kSafetensors) {
    return open_gguf(ggufs.front(), format != LoadFormat::kDummy);
  }
  return Error{Code::kNotFound,
               fmt::format("{}: the directory is no checkpoint: it holds no {}", path,
                           format == LoadFormat::kGguf          ? ".gguf file"
                           : format == LoadFormat::kSafetensors ? "config.json"
                                                                : "config.json and no .gguf file")};
}

Result<std::unique_ptr<Checkpoint>> open_file(const std::string& path, LoadFormat format) {
  if (!path.ends_with(".gguf")) {
    OCTAVO_TRY(const MappedFile file, MappedFile::open(path));
    if (!has_gguf_magic(file.bytes())) {
      return Error{Code::kInvalidArgument,
                   path.ends_with(".safetensors")
                       ? path + ": name the directory that holds it and its config.json"
                       : path +
                             ": is neither a GGUF file nor a directory with config.json "
                             "(no GGUF magic at offset 0)"};
    }
  }
  if (format == LoadFormat::kSafetensors) {
    return Error{Code::kInvalidArgument,
                 path + ": is a GGUF file, but --load-format safetensors asks for a directory"};
  }
  return open_gguf(path, format != LoadFormat::kDummy);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path, LoadFormat format) {
  // std::filesystem's error_code forms still throw bad_alloc only.
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) return open_directory(path, format);
  if (fs::exists(status)) return open_file(path, format);
  return Error{Code::kNotFound,
               fmt::format("{}: there is no such file or directory; a model is a directory with "
                           "config.json or a .gguf file",
                           path)};
}

}  // namespace octavo::checkpoint
