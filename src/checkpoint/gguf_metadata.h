#pragma once

#include <cstdint>

#include "base/result.h"
#include "checkpoint/gguf_reader.h"
#include "checkpoint/metadata.h"

namespace octavo::checkpoint {

/// Reads the `count` key-value pairs that start at `in`. Private to gguf*.cc.
Result<MetadataObject> read_gguf_metadata(ByteReader& in, uint64_t count);

}  // namespace octavo::checkpoint
