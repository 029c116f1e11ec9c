#include "model/models.h"

#include <fmt/format.h>

#include <array>

#include "model/architectures/common.h"

namespace octavo::model {
namespace {

// To add a family: its file in architectures/, and a row here.
constexpr auto kModels = std::to_array<const Architecture*>({
    &kLlama,
    &kQwen2,
    &kQwen3,
});

Error unknown(const checkpoint::Checkpoint& checkpoint, std::string_view what) {
  std::string known;
  for (const Architecture* row : kModels) {
    if (!known.empty()) known += ", ";
    known += checkpoint.is_gguf() ? row->gguf_name : row->name;
  }
  return Error{Code::kUnsupported,
               fmt::format("{}: {}; octavo runs {}", config_file_of(checkpoint), what, known)};
}

Result<const Architecture*> find_gguf(const checkpoint::Checkpoint& checkpoint) {
  const ConfigReader reader(checkpoint.config(), config_file_of(checkpoint));
  OCTAVO_TRY(const std::string name, reader.get_string("general.architecture", ""));
  for (const Architecture* row : kModels) {
    if (row->gguf_name == name) return row;
  }
  return unknown(checkpoint, name.empty() ? std::string("general.architecture is missing")
                                          : fmt::format("general.architecture \"{}\" is not known",
                                                        name.substr(0, 64)));
}

}  // namespace

std::span<const Architecture* const> known_architectures() { return kModels; }

Result<const Architecture*> find_architecture(const checkpoint::Checkpoint& checkpoint) {
  if (checkpoint.is_gguf()) return find_gguf(checkpoint);
  OCTAVO_TRY(const std::vector<std::string> names,
             hf_reader(checkpoint).get_strings("architectures"));
  if (names.empty()) return unknown(checkpoint, "`architectures` is missing");
  for (const std::string& name : names) {
    for (const Architecture* row : kModels) {
      if (row->name == name) return row;
    }
  }
  return unknown(checkpoint,
                 fmt::format("architecture \"{}\" is not known", names.front().substr(0, 64)));
}

Result<DecoderConfig> read_decoder_config(const checkpoint::Checkpoint& checkpoint,
                                          const Architecture& architecture) {
  OCTAVO_TRY(DecoderConfig config, checkpoint.is_gguf() ? architecture.read_gguf(checkpoint)
                                                        : architecture.read_hf(checkpoint));
  const std::string file = config_file_of(checkpoint);
  OCTAVO_TRY(check_built(config, file));
  OCTAVO_TRY(validate(config, file));
  return config;
}

}  // namespace octavo::model
