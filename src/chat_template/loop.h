#pragma once

#include <string_view>
#include <vector>

#include "chat_template/evaluator.h"

namespace octavo::chat_template {

/// The `loop` variable of a `{% for %}`.
struct LoopObj final : Object {
  std::vector<Value> items;
  mutable size_t index0 = 0;
  int level = 0;  // of recursive loops, from 0
  const Stmt* statement = nullptr;
  ScopePtr closure;  // where the loop stands, for loop(...)
  mutable bool changed_before = false;
  mutable std::vector<Value> last_changed;

  bool attribute(Evaluator& evaluator, const Value& self, std::string_view name, Value& out) const;
  /// loop(items): runs the same loop on other items.
  Value recurse(Evaluator& evaluator, const Args& args) const;
};

}  // namespace octavo::chat_template
