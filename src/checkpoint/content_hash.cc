#include "checkpoint/content_hash.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "base/thread_name.h"

namespace octavo::checkpoint {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

/// A SHA-256 under way.
class Sha256 {
 public:
  Sha256() : context_(::EVP_MD_CTX_new()) {
    ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr);
  }
  void add(std::string_view bytes) {
    ::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    ::EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string out;
    for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
    return out;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

/// The digest of a file; nullopt when it cannot be read or `stop` asks to end.
std::optional<std::string> hash_file(const std::string& path, const std::stop_token& stop) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  Sha256 hash;
  std::string piece(kPieceBytes, '\0');
  ssize_t count = 0;
  while (!stop.stop_requested() && (count = ::read(file, piece.data(), piece.size())) > 0) {
    hash.add({piece.data(), size_t(count)});
  }
  ::close(file);
  if (count < 0 || stop.stop_requested()) return std::nullopt;
  return hash.hex();
}

/// Only what the machine has left over goes into the hash.
void lower_priority() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE,
                       &none);  // of this thread; without the right it stays as it is
}

std::string name_in_folder(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

std::vector<std::string> weight_files(const Checkpoint& checkpoint) {
  if (!checkpoint.has_weights()) return {};
  std::set<std::string> files;
  for (const Tensor& tensor : checkpoint.tensors()) files.insert(tensor.file);
  return {files.begin(), files.end()};
}

ContentHash::ContentHash(std::vector<std::string> files) : paths_(std::move(files)) {
  std::ranges::sort(paths_, {}, name_in_folder);
  for (const std::string& path : paths_) {
    if (auto file = look_at(path)) files_.push_back(std::move(*file));
  }
}

std::optional<ContentHash::File> ContentHash::look_at(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return File{path, facts.st_size,
              int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
}

ContentHash::Answer ContentHash::ask() {
  const std::lock_guard lock(mutex_);
  if (answer_.state != State::kNone || paths_.empty()) return answer_;
  answer_.state = State::kComputing;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      name_this_thread("hash");
      lower_priority();
      Answer answer = compute(stop);
      const std::lock_guard inner(mutex_);
      answer_ = std::move(answer);
    });
  } catch (const std::system_error& e) {
    answer_ = {State::kFailed, "", fmt::format("no thread: {}", e.what())};
  }
  return answer_;
}

ContentHash::Answer ContentHash::compute(const std::stop_token& stop) const {
  const auto failed = [](std::string why) { return Answer{State::kFailed, "", std::move(why)}; };
  if (files_.size() != paths_.size()) return failed("a weight file is gone");
  std::string lines;
  std::string only;
  for (const File& file : files_) {
    const auto hex = hash_file(file.path, stop);
    const std::string name = name_in_folder(file.path);
    if (!hex) return failed(fmt::format("{} cannot be read", name));
    if (look_at(file.path) != file) {
      return failed(fmt::format("{} has changed since it was loaded", name));
    }
    lines += fmt::format("{}  {}\n", *hex, name);
    only = *hex;
  }
  if (files_.size() == 1) return {State::kReady, only, ""};
  Sha256 hash;
  hash.add(lines);
  return {State::kReady, hash.hex(), ""};
}

std::string_view name_of(ContentHash::State state) {
  switch (state) {
    case ContentHash::State::kNone:
      return "no weight files";
    case ContentHash::State::kComputing:
      return "computing";
    case ContentHash::State::kReady:
      return "ready";
    case ContentHash::State::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace octavo::checkpoint
