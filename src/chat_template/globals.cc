#include <array>

#include "chat_template/builtins.h"

// Global functions of templates.

namespace octavo::chat_template {
namespace {

using GlobalFn = Value (*)(Evaluator&, const Args&);

struct GlobalFunction final : CallableObj {
  GlobalFn fn = nullptr;
  Value call(Evaluator& evaluator, const Args& args) const override { return fn(evaluator, args); }
};

Value raise_exception(Evaluator& e, const Args& args) {
  const Bound b("raise_exception", args, {"message"});
  throw Failure{to_str(e.meter(), b.get(0)).str().text, true};
}

Value strftime_now(Evaluator& e, const Args& args) {
  const Bound b("strftime_now", args, {"format"});
  e.meter().charge(static_cast<int64_t>(b.required_string(0).text.size()));
  return Value::text(format_time(e.now_wall_s(), b.required_string(0).text));
}

constexpr int64_t kMaxRange = 100'000;  // the bound of Jinja's sandbox

Value range(Evaluator& e, const Args& args) {
  const Bound b("range", args, {"start", "stop", "step"});
  b.get(0);
  int64_t start = 0;
  int64_t stop = b.integer(0, 0);
  if (b.has(1)) {
    start = stop;
    stop = b.integer(1, 0);
  }
  const int64_t step = b.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    e.meter().charge();
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(e.meter(), std::move(items));
}

void add_pairs(Evaluator& e, const Args& args, std::vector<std::pair<Value, Value>>& entries) {
  if (args.positional.size() > 1) fail("dict expected at most 1 argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      entries = source.dict().entries;
    } else {
      for (const Value& v : iterate(e.meter(), source)) {
        std::vector<Value> pair = iterate(e.meter(), v);
        if (pair.size() != 2) fail("dictionary update sequence elements must have length 2");
        entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (const auto& [name, value] : args.named) entries.emplace_back(Value::text(name), value);
}

Value dict(Evaluator& e, const Args& args) {
  std::vector<std::pair<Value, Value>> entries;
  add_pairs(e, args, entries);
  return make_dict(e.meter(), std::move(entries));
}

Value new_namespace(Evaluator& e, const Args& args) {
  std::vector<std::pair<Value, Value>> entries;
  add_pairs(e, args, entries);
  std::vector<std::pair<std::string, Value>> attributes;
  for (auto& [k, v] : entries) {
    if (!k.is_string()) fail("attribute names must be strings");
    attributes.emplace_back(k.str().text, std::move(v));
  }
  return e.new_namespace(std::move(attributes));
}

struct Cycler final : CallableObj {
  std::vector<Value> items;
  mutable size_t at = 0;

  struct Step final : CallableObj {
    Value cycler;
    bool resets = false;
    Value call(Evaluator&, const Args&) const override {
      const auto& self = cycler.as<Cycler>();
      if (resets) {
        self.at = 0;
        return Value::none();
      }
      const Value v = self.items[self.at];
      self.at = (self.at + 1) % self.items.size();
      return v;
    }
  };
  Value call(Evaluator&, const Args&) const override { fail("'Cycler' object is not callable"); }
};

/// `next` and `reset` need the cycler as a value, so it is an object with functions in a namespace.
Value cycler(Evaluator& e, const Args& args) {
  if (args.positional.empty()) fail("at least one item has to be provided");
  auto c = std::make_shared<Cycler>();
  c->items = args.positional;
  for (const Value& v : c->items) c->depth = std::max(c->depth, depth_around(v));
  const Value self = Value::object(Type::kCallable, c);
  const auto step = [&](bool resets) {
    auto s = std::make_shared<Cycler::Step>();
    s->cycler = self;
    s->resets = resets;
    s->depth = depth_around(self);
    return Value::object(Type::kCallable, std::move(s));
  };
  return e.new_namespace({{"next", step(false)}, {"reset", step(true)}});
}

struct Joiner final : CallableObj {
  Value separator;
  mutable bool used = false;
  Value call(Evaluator&, const Args&) const override {
    return std::exchange(used, true) ? separator : Value::text("");
  }
};

Value joiner(Evaluator& e, const Args& args) {
  const Bound b("joiner", args, {"sep"});
  auto j = std::make_shared<Joiner>();
  j->separator = b.has(0) ? to_str(e.meter(), b.get(0)) : Value::text(", ");
  return Value::object(Type::kCallable, std::move(j));
}

struct Global {
  std::string_view name;
  GlobalFn fn;
};
constexpr auto kGlobals = std::to_array<Global>({
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range},
    {"dict", dict},
    {"namespace", new_namespace},
    {"cycler", cycler},
    {"joiner", joiner},
});

}  // namespace

Value find_global(std::string_view name) {
  for (const Global& g : kGlobals) {
    if (g.name != name) continue;
    auto f = std::make_shared<GlobalFunction>();
    f->fn = g.fn;
    return Value::object(Type::kCallable, std::move(f));
  }
  return {};
}

}  // namespace octavo::chat_template
