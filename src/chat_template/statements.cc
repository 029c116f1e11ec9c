#include <fmt/format.h>

#include <algorithm>

#include "chat_template/builtins.h"
#include "chat_template/evaluator.h"
#include "chat_template/loop.h"

// Statements, macros and scopes. Expressions are in evaluator.cc.

namespace octavo::chat_template {

namespace {
struct MacroObj final : CallableObj {
  const Stmt* statement = nullptr;
  ScopePtr closure;

  Value call(Evaluator& evaluator, const Args& args) const override {
    return evaluator.call_macro(*statement, closure, args);
  }
  bool attribute(Evaluator& evaluator, std::string_view name, Value& out) const override {
    if (name == "name") {
      out = Value::text(statement->macro_name);
      return true;
    }
    if (name == "arguments") {
      std::vector<Value> names;
      for (const Parameter& p : statement->parameters) names.push_back(Value::text(p.name));
      out = make_list(evaluator.meter(), std::move(names), ListKind::kTuple);
      return true;
    }
    return false;
  }
};

/// Restores a value when the block ends, by failure too.
template <class T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(before_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T before_;
};

/// Depth of macro calls and recursive loops.
class CallDepth {
 public:
  CallDepth(int& depth, int max) : depth_(depth) {
    if (depth_ >= max) fail("maximum recursion depth exceeded");
    ++depth_;
  }
  ~CallDepth() { --depth_; }
  CallDepth(const CallDepth&) = delete;
  CallDepth& operator=(const CallDepth&) = delete;

 private:
  int& depth_;
};
}  // namespace

Evaluator::Evaluator(const ParsedTemplate& program, const Limits& limits, double now_wall_s)
    : program_(program),
      meter_(limits),
      now_wall_s_(now_wall_s),
      scope_(std::make_shared<Scope>()),
      caller_id_(program.find_name("caller")),
      varargs_id_(program.find_name("varargs")),
      kwargs_id_(program.find_name("kwargs")),
      loop_id_(program.find_name("loop")) {}

Evaluator::~Evaluator() {
  // Namespaces and scopes with macros may form cycles.
  for (const auto& ns : namespaces_) ns->attributes.clear();
  for (const ScopePtr& scope : kept_scopes_) scope->variables.clear();
}

void Evaluator::define(std::string_view name, Value value) {
  const NameId id = program_.find_name(name);
  if (id >= 0) scope_->set(id, std::move(value));
}

StrObj Evaluator::run(std::vector<Span>& generation) {
  StrBuilder out(meter_);
  out_ = &out;
  generation_ = &generation;
  scope_ = push_scope();  // what the template sets hides what it was given
  exec(program_.body);
  return out.take_object();
}

ScopePtr Evaluator::push_scope() {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

Evaluator::Flow Evaluator::exec(const Body& body) {
  meter_.charge();
  for (const auto& s : body) {
    meter_.charge();
    Flow flow = Flow::kNormal;
    try {
      flow = exec_stmt(*s);
    } catch (Failure& f) {
      if (f.line == 0) f.line = s->line;
      throw;
    }
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec_stmt(const Stmt& s) {
  switch (s.kind) {
    case Stmt::Kind::kText:
      out_->append(s.text.str());
      break;
    case Stmt::Kind::kOutput:
      append_str(meter_, *out_, eval(*s.expr));
      break;
    case Stmt::Kind::kIf:
      return exec_if(s);
    case Stmt::Kind::kFor:
      exec_for(s, eval(*s.expr), 0);
      break;
    case Stmt::Kind::kSet:
      assign(s.target, eval(*s.expr));
      break;
    case Stmt::Kind::kSetBlock:
      exec_set(s);
      break;
    case Stmt::Kind::kMacro:
      exec_macro(s);
      break;
    case Stmt::Kind::kCallBlock:
      exec_call_block(s);
      break;
    case Stmt::Kind::kFilterBlock:
      append_str(meter_, *out_, eval_steps(capture(s.body), s.filter->steps));
      break;
    case Stmt::Kind::kWith:
      exec_with(s);
      break;
    case Stmt::Kind::kGeneration:
      exec_generation(s);
      break;
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::exec_if(const Stmt& s) {
  for (const Stmt::Branch& branch : s.branches) {
    if (!branch.test || truthy(eval(*branch.test))) return exec(branch.body);
  }
  return Flow::kNormal;
}

void Evaluator::exec_for(const Stmt& s, const Value& items, int level) {
  auto loop = std::make_shared<LoopObj>();
  loop->items = iterate(meter_, items);
  for (const Value& v : loop->items) loop->depth = std::max(loop->depth, depth_around(v));
  loop->level = level;
  loop->statement = &s;
  if (s.recursive) {
    keep_scope();
    loop->closure = scope_;
  }
  const ScopePtr outer = scope_;
  const Restore<ScopePtr> restore(scope_, outer);
  if (s.filter) {
    std::vector<Value> kept;
    for (Value& v : loop->items) {
      scope_ = outer;
      scope_ = push_scope();
      assign(s.target, v);
      if (truthy(eval(*s.filter))) kept.push_back(std::move(v));
    }
    loop->items = std::move(kept);
  }
  const Value self = Value::object(Type::kLoop, loop);
  for (size_t i = 0; i < loop->items.size(); ++i) {
    scope_ = outer;
    scope_ = push_scope();
    loop->index0 = i;
    if (loop_id_ >= 0) scope_->set(loop_id_, self);
    assign(s.target, loop->items[i]);
    if (exec(s.body) == Flow::kBreak) break;
  }
  if (loop->items.empty()) {
    scope_ = outer;
    scope_ = push_scope();
    exec(s.else_body);
  }
}

Value Evaluator::run_loop(const Stmt& loop, const ScopePtr& closure, const Value& items,
                          int depth) {
  const CallDepth call(call_depth_, meter_.limits().max_depth);
  StrBuilder out(meter_);
  const Restore<size_t> outer(outer_bytes_, outer_bytes_ + out_->size());
  const Restore<StrBuilder*> output(out_, &out);
  const Restore<ScopePtr> scope(scope_, closure);
  exec_for(loop, items, depth);
  return out.take();
}

void Evaluator::exec_set(const Stmt& s) {
  Value text = capture(s.body);
  if (s.filter) text = eval_steps(std::move(text), s.filter->steps);
  assign(s.target, text);
}

Value Evaluator::capture(const Body& body) {
  StrBuilder out(meter_);
  const Restore<size_t> outer(outer_bytes_, outer_bytes_ + out_->size());
  const Restore<StrBuilder*> output(out_, &out);
  const Restore<ScopePtr> scope(scope_, push_scope());
  exec(body);
  return out.take();
}

void Evaluator::exec_macro(const Stmt& s) {
  keep_scope();
  auto macro = std::make_shared<MacroObj>();
  macro->statement = &s;
  macro->closure = scope_;
  scope_->set(s.macro_id, Value::object(Type::kCallable, std::move(macro)));
}

/// Macros and recursive loops refer to the scope that holds them: it is emptied at the end.
void Evaluator::keep_scope() {
  meter_.charge(4);
  if (kept_scopes_.empty() || kept_scopes_.back() != scope_) kept_scopes_.push_back(scope_);
}

void Evaluator::exec_call_block(const Stmt& s) {
  keep_scope();
  auto caller = std::make_shared<MacroObj>();
  caller->statement = &s;
  caller->closure = scope_;
  // The last step of the expression is the call that gets the block as its caller.
  const std::vector<Postfix>& steps = s.expr->steps;
  Value callee = eval(*s.expr->items[0]);
  for (size_t i = 0; i + 1 < steps.size(); ++i) callee = eval_step(callee, steps[i]);
  Args args = eval_args(steps.back().args);
  args.named.emplace_back("caller", Value::object(Type::kCallable, std::move(caller)));
  append_str(meter_, *out_, call(callee, args));
}

void Evaluator::bind_parameters(const Stmt& macro, const Args& args) {
  const auto& params = macro.parameters;
  std::vector<const Value*> given(params.size(), nullptr);
  std::vector<Value> varargs;
  std::vector<std::pair<Value, Value>> kwargs;
  Value caller;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < params.size()) {
      given[i] = &args.positional[i];
    } else {
      varargs.push_back(args.positional[i]);
    }
  }
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < params.size() && params[i].name != name) ++i;
    if (i < params.size()) {
      given[i] = &value;
    } else if (name == "caller") {
      caller = value;
    } else {
      kwargs.emplace_back(Value::text(name), value);
    }
  }
  if (!varargs.empty() && varargs_id_ < 0) {
    fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.macro_name,
                     params.size()));
  }
  if (!kwargs.empty() && kwargs_id_ < 0) {
    fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.macro_name,
                     kwargs[0].first.str().text));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    Value v = Value::undefined(fmt::format("parameter '{}' was not provided", params[i].name));
    if (given[i] != nullptr) {
      v = *given[i];
    } else if (params[i].default_value) {
      v = eval(*params[i].default_value);
    }
    scope_->set(params[i].id, std::move(v));
  }
  if (caller_id_ >= 0 && macro.kind == Stmt::Kind::kMacro) {
    if (caller.is_undefined()) caller = Value::undefined("No caller defined");
    scope_->set(caller_id_, std::move(caller));
  }
  if (varargs_id_ >= 0) {
    scope_->set(varargs_id_, make_list(meter_, std::move(varargs), ListKind::kTuple));
  }
  if (kwargs_id_ >= 0) scope_->set(kwargs_id_, make_dict(meter_, std::move(kwargs)));
}

Value Evaluator::call_macro(const Stmt& macro, const ScopePtr& closure, const Args& args) {
  const CallDepth call(call_depth_, meter_.limits().max_depth);
  StrBuilder out(meter_);
  const Restore<size_t> outer(outer_bytes_, outer_bytes_ + out_->size());
  const Restore<StrBuilder*> output(out_, &out);
  const Restore<ScopePtr> scope(scope_, closure);
  scope_ = push_scope();
  bind_parameters(macro, args);
  exec(macro.body);
  return out.take();
}

void Evaluator::exec_generation(const Stmt& s) {
  const size_t begin = outer_bytes_ + out_->size();
  {
    const Restore<ScopePtr> scope(scope_, push_scope());
    exec(s.body);
  }
  meter_.charge();
  generation_->push_back({begin, outer_bytes_ + out_->size()});
}

void Evaluator::exec_with(const Stmt& s) {
  // The values see the outside, not each other.
  std::vector<Value> values;
  for (const auto& binding : s.bindings) values.push_back(eval(*binding.second));
  const Restore<ScopePtr> scope(scope_, push_scope());
  for (size_t i = 0; i < values.size(); ++i) assign(s.bindings[i].first, values[i]);
  exec(s.body);
}

void Evaluator::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kName:
      scope_->set(target.name, value);
      return;
    case Target::Kind::kAttribute: {
      const Value* ns = scope_->find(target.name);
      if (ns == nullptr || !ns->is(Type::kNamespace)) {
        fail("cannot assign attribute on non-namespace object");
      }
      ns->as<NamespaceObj>().set(target.attribute, value);
      meter_.charge();
      return;
    }
    case Target::Kind::kTuple: {
      const std::vector<Value> items = iterate(meter_, value);
      if (items.size() != target.items.size()) {
        fail(fmt::format("{} values to unpack (expected {}, got {})",
                         items.size() < target.items.size() ? "not enough" : "too many",
                         target.items.size(), items.size()));
      }
      for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
    }
  }
}

}  // namespace octavo::chat_template
