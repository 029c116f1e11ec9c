#include "bench/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace octavo::bench {
namespace {

/// Bytes of the open file whose pages are in memory.
double cached_bytes(int file, size_t size) {
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) return 0;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page - 1) / page);
  double cached = 0;
  if (::mincore(map, size, pages.data()) == 0) {
    const auto count = std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) != 0; });
    cached = std::min(double(count) * double(page), double(size));
  }
  ::munmap(map, size);
  return cached;
}

}  // namespace

CachedFiles drop_from_page_cache(std::span<const std::string> paths) {
  CachedFiles out;
  for (const std::string& path : paths) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    struct stat info {};
    if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      ::fsync(file);  // pages that were never written out cannot be dropped
      ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      ++out.num_files;
      out.bytes += double(info.st_size);
      out.cached_bytes += cached_bytes(file, static_cast<size_t>(info.st_size));
    }
    ::close(file);
  }
  return out;
}

}  // namespace octavo::bench
