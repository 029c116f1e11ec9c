#include "checkpoint/gguf_checkpoint.h"

#include "checkpoint/gguf.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/tensor_index.h"

namespace octavo::checkpoint {
namespace {

class GgufCheckpoint : public Checkpoint {
 public:
  GgufCheckpoint(std::string path, MappedFile file, GgufContents contents, bool has_weights)
      : path_(std::move(path)),
        file_(std::move(file)),
        metadata_(std::move(contents.metadata)),
        tensors_(std::move(contents.tensors)),
        has_weights_(has_weights) {}

  std::string_view path() const override { return path_; }
  bool is_gguf() const override { return true; }
  bool has_weights() const override { return has_weights_; }
  const Metadata& config() const override { return metadata_; }
  const Metadata& generation_config() const override { return empty_; }
  const Tensor* find(std::string_view name) const override { return tensors_.find(name); }
  const std::vector<Tensor>& tensors() const override { return tensors_.tensors(); }
  Result<std::optional<std::string>> read_file(std::string_view) const override {
    return std::optional<std::string>();
  }
  void drop_pages() const override { file_.drop_pages(); }

 private:
  std::string path_;
  MappedFile file_;
  Metadata metadata_;
  Metadata empty_ = Metadata(std::make_shared<MetadataObject>());
  TensorIndex tensors_;
  bool has_weights_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::string& path, bool with_weights) {
  OCTAVO_TRY(MappedFile file, MappedFile::open(path));
  OCTAVO_TRY(GgufContents contents, parse_gguf(file.bytes(), path, with_weights));
  return std::unique_ptr<Checkpoint>(
      std::make_unique<GgufCheckpoint>(path, std::move(file), std::move(contents), with_weights));
}

}  // namespace octavo::checkpoint
