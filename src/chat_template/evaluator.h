#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/ast.h"
#include "chat_template/parser.h"

namespace octavo::chat_template {

/// Arguments of one call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments matched to a signature: `params` in order; throws Failure for one too many or unknown.
/// Missing ones are null.
class Bound {
 public:
  Bound(std::string_view function, const Args& args,
        std::initializer_list<std::string_view> params);
  bool has(size_t i) const { return values_[i] != nullptr; }
  const Value& get(size_t i) const;
  /// Typed access with a default; throws Failure on another type.
  int64_t integer(size_t i, int64_t otherwise) const;
  bool boolean(size_t i, bool otherwise) const;
  /// None counts as absent.
  const StrObj* string(size_t i) const;
  const StrObj& required_string(size_t i) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> params_;
  std::vector<const Value*> values_;
};

/// Something that can be called: macro, method of a value, global function.
struct CallableObj : Object {
  virtual Value call(Evaluator& evaluator, const Args& args) const = 0;
  /// Attributes (cycler.current, macro.name); undefined when there is none.
  virtual bool attribute(Evaluator&, std::string_view, Value&) const { return false; }
};

/// Variables of one block.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;
  const Value* find(NameId name) const;
  void set(NameId name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

/// Runs one template once. Not reusable; one thread.
class Evaluator {
 public:
  Evaluator(const ParsedTemplate& program, const Limits& limits, double now_wall_s);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Makes a variable of the template; names that it does not mention are dropped.
  void define(std::string_view name, Value value);
  /// The rendered text; ranges of {% generation %} blocks are appended to `generation`.
  StrObj run(std::vector<Span>& generation);

  // For builtins and callables.
  Meter& meter() { return meter_; }
  double now_wall_s() const { return now_wall_s_; }
  Value call(const Value& callee, const Args& args);
  /// value.name and value[key] as Jinja resolves them; undefined when there is none.
  Value attribute(const Value& value, std::string_view name);
  Value item(const Value& value, const Value& key);
  Value new_namespace(std::vector<std::pair<std::string, Value>> attributes);
  Value call_macro(const Stmt& macro, const ScopePtr& closure, const Args& args);
  Value run_loop(const Stmt& loop, const ScopePtr& closure, const Value& items, int level);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  class Nested;
  friend class Nested;
  class Capture;

  Value eval(const Expr& e);
  Value eval_node(const Expr& e);
  Value eval_name(const Expr& e);
  Value eval_dict(const Expr& e);
  Value eval_arithmetic(const Expr& e);
  Value eval_concat(const Expr& e);
  bool eval_compare(const Expr& e);
  Value eval_logic(const Expr& e, bool stop_at);
  std::vector<Value> eval_items(const Expr& e);
  Value eval_steps(Value base, const std::vector<Postfix>& steps);
  Value eval_step(const Value& base, const Postfix& step);
  Value slice(const Value& base, const Postfix& step);
  Args eval_args(const CallArgs& args);

  Flow exec(const Body& body);
  Flow exec_stmt(const Stmt& s);
  Flow exec_if(const Stmt& s);
  void exec_for(const Stmt& s, const Value& items, int level);
  void exec_set(const Stmt& s);
  void exec_macro(const Stmt& s);
  void exec_call_block(const Stmt& s);
  void exec_generation(const Stmt& s);
  void exec_with(const Stmt& s);
  /// What a body prints.
  Value capture(const Body& body);
  void assign(const Target& target, const Value& value);
  void bind_parameters(const Stmt& macro, const Args& args);
  void keep_scope();
  ScopePtr push_scope();

  const ParsedTemplate& program_;
  Meter meter_;
  double now_wall_s_;
  ScopePtr scope_;
  StrBuilder* out_ = nullptr;
  size_t outer_bytes_ = 0;  // printed by the blocks around the current capture
  std::vector<Span>* generation_ = nullptr;
  int depth_ = 0;       // nodes under evaluation
  int call_depth_ = 0;  // macros and recursive loops under evaluation
  NameId caller_id_, varargs_id_, kwargs_id_, loop_id_;
  std::vector<std::shared_ptr<const NamespaceObj>> namespaces_;
  std::vector<ScopePtr> kept_scopes_;
};

Value arithmetic(Evaluator& evaluator, Op op, const Value& a, const Value& b);

}  // namespace octavo::chat_template
