#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace octavo::bench {

/// What of some files is kept in memory by the kernel.
struct CachedFiles {
  int64_t num_files = 0;  // that could be opened
  double bytes = 0;
  double cached_bytes = 0;
};

/// Asks the kernel to forget the pages of these files (posix_fadvise), then looks what it kept: all
/// of a file on tmpfs, pages that another process maps. Needs no rights beyond reading them.
CachedFiles drop_from_page_cache(std::span<const std::string> paths);

}  // namespace octavo::bench
