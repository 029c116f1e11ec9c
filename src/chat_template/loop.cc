#include "chat_template/loop.h"

namespace octavo::chat_template {
namespace {

/// loop.cycle and loop.changed: functions of the loop they were taken from.
struct LoopMethod final : CallableObj {
  Value loop;
  bool is_cycle = false;

  Value call(Evaluator& evaluator, const Args& args) const override {
    const auto& self = loop.as<LoopObj>();
    if (is_cycle) {
      if (args.positional.empty()) fail("no items for cycling given");
      return args.positional[self.index0 % args.positional.size()];
    }
    bool same = self.changed_before && self.last_changed.size() == args.positional.size();
    for (size_t i = 0; same && i < args.positional.size(); ++i) {
      same = equals(evaluator.meter(), self.last_changed[i], args.positional[i]);
    }
    if (same) return Value::boolean(false);
    self.changed_before = true;
    // What the loop keeps must not be able to contain the loop.
    for (const Value& v : args.positional) {
      if (!v.is_string() && !v.is_number() && !v.is_none() && !v.is_undefined() && !v.is_list() &&
          !v.is_dict()) {
        fail("loop.changed() takes plain values");
      }
    }
    self.last_changed = args.positional;
    return Value::boolean(true);
  }
};

}  // namespace

bool LoopObj::attribute(Evaluator& evaluator, const Value& self, std::string_view name,
                        Value& out) const {
  const auto count = static_cast<int64_t>(items.size());
  const auto index = static_cast<int64_t>(index0);
  if (name == "index") {
    out = Value::integer(index + 1);
  } else if (name == "index0") {
    out = Value::integer(index);
  } else if (name == "revindex") {
    out = Value::integer(count - index);
  } else if (name == "revindex0") {
    out = Value::integer(count - index - 1);
  } else if (name == "first") {
    out = Value::boolean(index == 0);
  } else if (name == "last") {
    out = Value::boolean(index + 1 == count);
  } else if (name == "length") {
    out = Value::integer(count);
  } else if (name == "depth") {
    out = Value::integer(level + 1);
  } else if (name == "depth0") {
    out = Value::integer(level);
  } else if (name == "previtem") {
    out = index > 0 ? items[index0 - 1] : Value::undefined("there is no previous item");
  } else if (name == "nextitem") {
    out = index + 1 < count ? items[index0 + 1] : Value::undefined("there is no next item");
  } else if (name == "cycle" || name == "changed") {
    evaluator.meter().charge();
    auto method = std::make_shared<LoopMethod>();
    method->loop = self;
    method->depth = depth_around(self);
    method->is_cycle = name == "cycle";
    out = Value::object(Type::kCallable, std::move(method));
  } else {
    return false;
  }
  return true;
}

Value LoopObj::recurse(Evaluator& evaluator, const Args& args) const {
  if (!statement->recursive) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound("loop", args, {"iterable"});
  return evaluator.run_loop(*statement, closure, bound.get(0), level + 1);
}

}  // namespace octavo::chat_template
