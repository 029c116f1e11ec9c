#include "config/flags.h"

#include <algorithm>

namespace octavo::config {
namespace {

constexpr auto kTitles = std::to_array<std::string_view>({
    "positional arguments",
    "options",
    "Frontend",
    "ModelConfig",
    "LoadConfig",
    "AttentionConfig",
    "MambaConfig",
    "StructuredOutputsConfig",
    "ParallelConfig",
    "CacheConfig",
    "OffloadConfig",
    "MultiModalConfig",
    "LoRAConfig",
    "LoggingConfig",
    "ObservabilityConfig",
    "SchedulerConfig",
    "CompilationConfig",
    "KernelConfig",
    "VllmConfig",
    "octavo",
});
static_assert(kTitles.size() == size_t(Group::kNumGroups), "one title per Group");

std::vector<const Flag*> collect() {
  std::vector<const Flag*> flags;
  for (const auto part :
       {engine_flags(), frontend_flags(), octavo_flags(), no_effect_flags(), later_flags()}) {
    for (const Flag& flag : part) flags.push_back(&flag);
  }
  std::stable_sort(flags.begin(), flags.end(),
                   [](const Flag* a, const Flag* b) { return a->group < b->group; });
  return flags;
}

}  // namespace

std::string_view title_of(Group group) { return kTitles[static_cast<size_t>(group)]; }

const std::vector<const Flag*>& all_flags() {
  static const std::vector<const Flag*> flags = collect();
  return flags;
}

const Flag* find_flag(std::string_view name) {
  for (const Flag* flag : all_flags()) {
    if (flag->name == name) return flag;
  }
  return nullptr;
}

}  // namespace octavo::config
