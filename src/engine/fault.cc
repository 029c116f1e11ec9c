#include "engine/fault.h"

#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

namespace octavo::engine {

#ifdef OCTAVO_FAULT_HOOKS

FaultHook::FaultHook(const std::string& text) {
  const std::string_view view = text;
  const size_t at = view.find('@');
  if (at == std::string_view::npos) return;
  const std::string_view number = view.substr(at + 1);
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), step_);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || step_ < 1) return;
  if (view.substr(0, at) == "kill") kind_ = Kind::kKill;
  if (view.substr(0, at) == "stall") kind_ = Kind::kStall;
}

Status FaultHook::check(const std::string& text) {
  if (text.empty() || FaultHook(text).kind_ != Kind::kNone) return {};
  return Error{Code::kInvalidArgument,
               "OCTAVO_FAULT is '" + text + "'; allowed are kill@N and stall@N, N from 1"};
}

Status FaultHook::before_step(int64_t step) {
  if (kind_ == Kind::kNone || step != step_) return {};
  if (kind_ == Kind::kKill) return Error{Code::kInternal, "the fault hook killed this step"};
  while (!released_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return {};
}

#else

FaultHook::FaultHook(const std::string&) {}
Status FaultHook::check(const std::string& text) {
  if (text.empty()) return {};
  return Error{Code::kInvalidArgument,
               "OCTAVO_FAULT is set, but this build has no fault hooks (OCTAVO_FAULT_HOOKS)"};
}
Status FaultHook::before_step(int64_t) { return {}; }

#endif

}  // namespace octavo::engine
