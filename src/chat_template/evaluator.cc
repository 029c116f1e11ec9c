#include "chat_template/evaluator.h"

#include <fmt/format.h>

#include "chat_template/builtins.h"
#include "chat_template/loop.h"
#include "chat_template/text.h"

// Expressions. Statements are in statements.cc.

namespace octavo::chat_template {
namespace {
/// Nodes under evaluation at one time: bounds the C++ stack (a node takes well under 1 KiB).
constexpr int kMaxEvalDepth = 900;
}  // namespace

class Evaluator::Nested {
 public:
  explicit Nested(Evaluator& e) : e_(e) {
    e_.meter_.charge();
    if (++e_.depth_ > kMaxEvalDepth) {
      --e_.depth_;
      fail("maximum recursion depth exceeded");
    }
  }
  ~Nested() { --e_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Evaluator& e_;
};

Bound::Bound(std::string_view function, const Args& args,
             std::initializer_list<std::string_view> params)
    : function_(function), params_(params), values_(params.size(), nullptr) {
  if (args.positional.size() > params.size()) {
    fail(fmt::format("{}() takes at most {} arguments ({} given)", function, params.size(),
                     args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < params_.size() && params_[i] != name) ++i;
    if (i == params_.size()) {
      fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    }
    if (values_[i] != nullptr) {
      fail(fmt::format("{}() got multiple values for argument '{}'", function, name));
    }
    values_[i] = &value;
  }
}

const Value& Bound::get(size_t i) const {
  if (values_[i] == nullptr) {
    fail(fmt::format("{}() missing required argument '{}'", function_, params_[i]));
  }
  return *values_[i];
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  if (!get(i).is_integral()) {
    fail(fmt::format("{}(): '{}' must be an integer, not {}", function_, params_[i],
                     type_name(get(i))));
  }
  return get(i).as_int();
}

bool Bound::boolean(size_t i, bool otherwise) const { return has(i) ? truthy(get(i)) : otherwise; }

const StrObj* Bound::string(size_t i) const {
  if (!has(i) || get(i).is_none()) return nullptr;
  if (!get(i).is_string()) {
    if (get(i).is_undefined()) fail(std::string(get(i).why()));
    fail(fmt::format("{}(): '{}' must be a string, not {}", function_, params_[i],
                     type_name(get(i))));
  }
  return &get(i).str();
}

const StrObj& Bound::required_string(size_t i) const {
  get(i);
  const StrObj* s = string(i);
  if (s == nullptr) fail(fmt::format("{}(): '{}' must be a string", function_, params_[i]));
  return *s;
}

const Value* Scope::find(NameId name) const {
  for (const Scope* s = this; s != nullptr; s = s->parent.get()) {
    for (const auto& [id, value] : s->variables) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(NameId name, Value value) {
  for (auto& [id, v] : variables) {
    if (id == name) {
      v = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Value Evaluator::eval(const Expr& e) {
  const Nested nested(*this);
  try {
    return eval_node(e);
  } catch (Failure& f) {
    if (f.line == 0) f.line = e.line;
    throw;
  }
}

Value Evaluator::eval_node(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::kConst:
      return e.constant;
    case Expr::Kind::kName:
      return eval_name(e);
    case Expr::Kind::kList:
      return make_list(meter_, eval_items(e));
    case Expr::Kind::kTuple:
      return make_list(meter_, eval_items(e), ListKind::kTuple);
    case Expr::Kind::kDict:
      return eval_dict(e);
    case Expr::Kind::kNegate: {
      const Value v = eval(*e.items[0]);
      if (v.is(Type::kFloat)) return Value::floating(-v.as_double());
      return arithmetic(*this, Op::kSub, Value::integer(0), v);
    }
    case Expr::Kind::kPlus:
      return arithmetic(*this, Op::kAdd, Value::integer(0), eval(*e.items[0]));
    case Expr::Kind::kNot:
      return Value::boolean(!truthy(eval(*e.items[0])));
    case Expr::Kind::kArithmetic:
      return eval_arithmetic(e);
    case Expr::Kind::kConcat:
      return eval_concat(e);
    case Expr::Kind::kCompare:
      return Value::boolean(eval_compare(e));
    case Expr::Kind::kAnd:
      return eval_logic(e, false);
    case Expr::Kind::kOr:
      return eval_logic(e, true);
    case Expr::Kind::kCondition:
      if (truthy(eval(*e.items[1]))) return eval(*e.items[0]);
      if (e.items.size() > 2) return eval(*e.items[2]);
      return Value::undefined(
          "the inline if-expression evaluated to false and no else section was defined.");
    case Expr::Kind::kPostfix:
      return eval_steps(eval(*e.items[0]), e.steps);
  }
  return {};
}

Value Evaluator::eval_name(const Expr& e) {
  if (const Value* v = scope_->find(e.name)) return *v;
  const std::string& name = program_.names[static_cast<size_t>(e.name)];
  Value global = find_global(name);
  if (!global.is_undefined()) return global;
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

std::vector<Value> Evaluator::eval_items(const Expr& e) {
  std::vector<Value> values;
  values.reserve(e.items.size());
  for (const ExprPtr& item : e.items) values.push_back(eval(*item));
  return values;
}

Value Evaluator::eval_dict(const Expr& e) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
    Value key = eval(*e.items[i]);
    entries.emplace_back(std::move(key), eval(*e.items[i + 1]));
  }
  return make_dict(meter_, std::move(entries));
}

Value Evaluator::eval_arithmetic(const Expr& e) {
  Value left = eval(*e.items[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.items[i + 1]);
    if (e.ops[i] != Op::kAdd || !left.is_string() || !right.is_string()) {
      left = arithmetic(*this, e.ops[i], left, right);
      continue;
    }
    // A run of string additions is built in one piece: linear in its length.
    StrBuilder joined(meter_);
    joined.append(left.str());
    joined.append(right.str());
    right = Value();
    for (; i + 1 < e.ops.size() && e.ops[i + 1] == Op::kAdd; ++i) {
      right = eval(*e.items[i + 2]);
      if (!right.is_string()) break;
      joined.append(right.str());
      right = Value();
    }
    left = joined.take();
    if (i + 1 < e.ops.size() && e.ops[i + 1] == Op::kAdd) {
      left = arithmetic(*this, Op::kAdd, left, right);
      ++i;
    }
  }
  return left;
}

Value Evaluator::eval_concat(const Expr& e) {
  StrBuilder out(meter_);
  for (const ExprPtr& item : e.items) append_str(meter_, out, eval(*item));
  return out.take();
}

bool Evaluator::eval_compare(const Expr& e) {
  Value left = eval(*e.items[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.items[i + 1]);
    bool holds = false;
    switch (e.ops[i]) {
      case Op::kEq:
        holds = equals(meter_, left, right);
        break;
      case Op::kNe:
        holds = !equals(meter_, left, right);
        break;
      case Op::kLt:
        holds = less(meter_, left, right);
        break;
      case Op::kGt:
        holds = less(meter_, right, left);
        break;
      case Op::kLe:
        holds = less(meter_, left, right) || equals(meter_, left, right);
        break;
      case Op::kGe:
        holds = less(meter_, right, left) || equals(meter_, left, right);
        break;
      case Op::kIn:
        holds = contains(meter_, right, left);
        break;
      default:
        holds = !contains(meter_, right, left);
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::eval_logic(const Expr& e, bool stop_at) {
  Value v;
  for (const ExprPtr& item : e.items) {
    v = eval(*item);
    if (truthy(v) == stop_at) break;
  }
  return v;
}

Value Evaluator::eval_steps(Value base, const std::vector<Postfix>& steps) {
  for (const Postfix& step : steps) {
    meter_.charge();
    try {
      base = eval_step(base, step);
    } catch (Failure& f) {
      if (f.line == 0) f.line = step.line;
      throw;
    }
  }
  return base;
}

Value Evaluator::eval_step(const Value& base, const Postfix& step) {
  switch (step.kind) {
    case Postfix::Kind::kAttribute:
      return attribute(base, step.name);
    case Postfix::Kind::kItem:
      return item(base, eval(*step.index));
    case Postfix::Kind::kSlice:
      return slice(base, step);
    case Postfix::Kind::kCall:
      return call(base, eval_args(step.args));
    case Postfix::Kind::kFilter:
      if (step.filter == nullptr) fail(fmt::format("No filter named '{}'.", step.name));
      return step.filter(*this, base, eval_args(step.args));
    case Postfix::Kind::kTest:
      if (step.test == nullptr) fail(fmt::format("No test named '{}'.", step.name));
      return Value::boolean(step.test(*this, base, eval_args(step.args)) != step.negated);
  }
  return {};
}

Args Evaluator::eval_args(const CallArgs& args) {
  Args out;
  for (const ExprPtr& e : args.positional) out.positional.push_back(eval(*e));
  for (const auto& [name, e] : args.named) out.named.emplace_back(name, eval(*e));
  if (args.star) {
    for (Value& v : iterate(meter_, eval(*args.star))) out.positional.push_back(std::move(v));
  }
  if (args.star_star) {
    const Value extra = eval(*args.star_star);
    if (!extra.is_dict()) fail("argument after ** must be a mapping");
    meter_.charge(static_cast<int64_t>(extra.dict().entries.size()));
    for (const auto& [key, value] : extra.dict().entries) {
      if (!key.is_string()) fail("keywords must be strings");
      out.named.emplace_back(key.str().text, value);
    }
  }
  return out;
}

namespace {
/// Python's slice.indices(): clamps the bounds for `size` items.
struct SliceRange {
  int64_t start, stop, step;
};
SliceRange slice_range(const Value* parts, int64_t size) {
  const auto number = [&](int i, int64_t otherwise) {
    const Value& v = parts[i];
    if (v.is_none()) return otherwise;
    if (!v.is_integral()) fail("slice indices must be integers or None");
    return v.as_int();
  };
  SliceRange r{};
  r.step = number(2, 1);
  if (r.step == 0) fail("slice step cannot be zero");
  if (r.step == INT64_MIN) r.step = INT64_MIN + 1;
  const int64_t low = r.step < 0 ? -1 : 0;
  const int64_t high = r.step < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t v) {
    if (v < 0) v = v < -size ? -1 : v + size;
    return v < low ? low : v > high ? high : v;
  };
  const auto bound = [&](int i, int64_t otherwise) {
    return parts[i].is_none() ? otherwise : clamp(number(i, 0));
  };
  r.start = bound(0, r.step < 0 ? high : low);
  r.stop = bound(1, r.step < 0 ? low : high);
  return r;
}

Value slice_string(Meter& meter, const StrObj& s, const Value* parts) {
  const std::string_view text = s.text;
  meter.charge_bytes(text.size());
  const auto size = static_cast<int64_t>(count_chars(text));
  const SliceRange r = slice_range(parts, size);
  const bool ascii = size == static_cast<int64_t>(text.size());
  std::vector<size_t> starts;  // byte offset of each character, if they differ
  if (!ascii) {
    meter.charge(size / 8);
    for (size_t at = 0; at < text.size(); at += char_size(text, at)) starts.push_back(at);
    starts.push_back(text.size());
  }
  const auto offset = [&](int64_t i) {
    return ascii ? static_cast<size_t>(i) : starts[static_cast<size_t>(i)];
  };
  StrBuilder out(meter);
  if (r.step == 1) {
    if (r.start < r.stop) out.append(s, offset(r.start), offset(r.stop));
    return out.take();
  }
  for (int64_t i = r.start; r.step > 0 ? i < r.stop : i > r.stop;) {
    meter.charge();
    out.append(s, offset(i), offset(i + 1));
    if (r.step > 0 ? i > INT64_MAX - r.step : i < INT64_MIN - r.step) break;
    i += r.step;
  }
  return out.take();
}
}  // namespace

Value Evaluator::slice(const Value& base, const Postfix& step) {
  Value parts[3];
  for (int i = 0; i < 3; ++i) {
    parts[i] = step.slice[i] ? eval(*step.slice[i]) : Value::none();
    if (parts[i].is_undefined()) fail(std::string(parts[i].why()));
  }
  if (base.is_undefined()) fail(std::string(base.why()));
  if (base.is_string()) return slice_string(meter_, base.str(), parts);
  if (!base.is_list() || base.list().kind == ListKind::kGenerator) {
    return Value::undefined(fmt::format("'{}' object is not sliceable", type_name(base)));
  }
  const auto& items = base.list().items;
  const SliceRange r = slice_range(parts, static_cast<int64_t>(items.size()));
  std::vector<Value> out;
  for (int64_t i = r.start; r.step > 0 ? i < r.stop : i > r.stop;) {
    out.push_back(items[static_cast<size_t>(i)]);
    if (r.step > 0 ? i > INT64_MAX - r.step : i < INT64_MIN - r.step) break;
    i += r.step;
  }
  return make_list(meter_, std::move(out), base.list().kind);
}

Value Evaluator::call(const Value& callee, const Args& args) {
  const Nested nested(*this);
  if (callee.is(Type::kCallable)) return callee.as<CallableObj>().call(*this, args);
  if (callee.is(Type::kLoop)) return callee.as<LoopObj>().recurse(*this, args);
  if (callee.is_undefined()) fail(std::string(callee.why()));
  fail(fmt::format("'{}' object is not callable", type_name(callee)));
}

Value Evaluator::attribute(const Value& value, std::string_view name) {
  Value out;
  switch (value.type()) {
    case Type::kUndefined:
      fail(std::string(value.why()));
    case Type::kNamespace:
      if (const Value* v = value.as<NamespaceObj>().find(name)) return *v;
      break;
    case Type::kLoop:
      if (value.as<LoopObj>().attribute(*this, value, name, out)) return out;
      break;
    case Type::kCallable:
      if (value.as<CallableObj>().attribute(*this, name, out)) return out;
      break;
    default:
      // Python's attributes come before keys: `d.items` is the method even if there is such a key.
      if (find_method(*this, value, name, out)) return out;
      if (value.is_dict()) {
        if (value.dict().index.empty()) {
          meter_.charge(static_cast<int64_t>(value.dict().entries.size() / 8));
        }
        if (const Value* v = value.dict().find(name)) return *v;
      }
  }
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), name));
}

Value Evaluator::item(const Value& value, const Value& key) {
  if (value.is_undefined()) fail(std::string(value.why()));
  if (value.is_dict()) {
    for (const auto& [k, v] : value.dict().entries) {
      if (key.is_string()) break;
      if (equals(meter_, k, key)) return v;
    }
  }
  const bool sequence =
      value.is_string() || (value.is_list() && value.list().kind != ListKind::kGenerator);
  if (sequence && key.is_integral()) {
    Value out;
    int64_t i = key.as_int();
    if (value.is_string()) {
      if (char_at(meter_, value.str(), i, out)) return out;
    } else {
      const auto size = static_cast<int64_t>(value.list().items.size());
      if (i < 0) i += size;
      if (i >= 0 && i < size) return value.list().items[static_cast<size_t>(i)];
    }
    return Value::undefined(
        fmt::format("{} object has no element {}", type_name(value), key.as_int()));
  }
  if (!key.is_string()) {
    if (key.is_undefined()) fail(std::string(key.why()));
    StrBuilder shown(meter_);
    append_repr(meter_, shown, key);
    return Value::undefined(
        fmt::format("{} object has no element {}", type_name(value), shown.text()));
  }
  const std::string& name = key.str().text;
  if (value.is_dict()) {
    if (value.dict().index.empty()) {
      meter_.charge(static_cast<int64_t>(value.dict().entries.size() / 8));
    }
    if (const Value* v = value.dict().find(name)) return *v;
    Value method;
    if (find_method(*this, value, name, method)) return method;
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  }
  return attribute(value, name);
}

Value Evaluator::new_namespace(std::vector<std::pair<std::string, Value>> attributes) {
  meter_.charge(8 + static_cast<int64_t>(attributes.size()));
  auto ns = std::make_shared<NamespaceObj>();
  ns->attributes = std::move(attributes);
  namespaces_.push_back(ns);
  return Value::object(Type::kNamespace, std::move(ns));
}

}  // namespace octavo::chat_template
