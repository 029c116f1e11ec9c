#include "chat_template/inspect.h"

#include <unordered_map>
#include <vector>

namespace octavo::chat_template {
namespace {

/// What a value may be, as far as this analysis needs to know.
using Shape = uint8_t;
constexpr Shape kNothing = 0, kMessages = 1, kMessage = 2, kContent = 4, kPart = 8;

class Inspector {
 public:
  explicit Inspector(const ParsedTemplate& program) : program_(program) {
    shapes_.resize(program.names.size(), kNothing);
    const NameId messages = program.find_name("messages");
    if (messages >= 0) shapes_[static_cast<size_t>(messages)] = kMessages;
  }

  bool run() {
    collect_macros(program_.body);
    // A name may be used above the line that gives it its shape (in a macro); shapes only grow.
    constexpr int kPasses = 4;
    for (int pass = 0; pass < kPasses; ++pass) walk(program_.body);
    return found_;
  }

 private:
  void collect_macros(const Body& body) {
    for (const auto& s : body) {
      if (s->kind == Stmt::Kind::kMacro) macros_[s->macro_id] = s.get();
      for (const auto& branch : s->branches) collect_macros(branch.body);
      collect_macros(s->body);
      collect_macros(s->else_body);
    }
  }

  void add(const Target& target, Shape shape) {
    if (target.kind == Target::Kind::kName) {
      shapes_[static_cast<size_t>(target.name)] |= shape;
    } else if (target.kind == Target::Kind::kAttribute) {
      attributes_[target.attribute] |= shape;
    }
  }

  void walk(const Body& body) {
    for (const auto& s : body) {
      const Shape shape = s->expr ? look(*s->expr) : kNothing;
      if (s->filter && s->kind == Stmt::Kind::kFor) look(*s->filter);
      switch (s->kind) {
        case Stmt::Kind::kFor:
          if (shape & kContent) found_ = true;
          add(s->target, (shape & kMessages) ? kMessage : (shape & kContent) ? kPart : kNothing);
          break;
        case Stmt::Kind::kSet:
          add(s->target, shape);
          break;
        case Stmt::Kind::kWith:
          for (const auto& [target, expr] : s->bindings) add(target, look(*expr));
          break;
        default:
          break;
      }
      for (const auto& branch : s->branches) {
        if (branch.test) look(*branch.test);
        walk(branch.body);
      }
      walk(s->body);
      walk(s->else_body);
    }
  }

  Shape look(const Expr& e) {
    Shape shape = kNothing;
    for (const ExprPtr& item : e.items) {
      const Shape inner = look(*item);
      // `a or b`, `a if t else b` and lists added together are what their parts are.
      if (e.kind == Expr::Kind::kOr || e.kind == Expr::Kind::kAnd ||
          e.kind == Expr::Kind::kCondition || e.kind == Expr::Kind::kPostfix) {
        shape |= inner;
      }
      if (e.kind == Expr::Kind::kArithmetic) shape |= inner & kMessages;
    }
    if (e.kind == Expr::Kind::kName && e.name >= 0) return shapes_[static_cast<size_t>(e.name)];
    if (e.kind != Expr::Kind::kPostfix) return shape;
    const Expr* base = e.items.empty() ? nullptr : e.items[0].get();
    for (const Postfix& step : e.steps) shape = look_step(base, shape, step);
    return shape;
  }

  Shape look_step(const Expr* base, Shape shape, const Postfix& step) {
    look_args(base, step);
    switch (step.kind) {
      case Postfix::Kind::kAttribute:
        return member(shape, step.name);
      case Postfix::Kind::kItem: {
        look(*step.index);
        const Value& key = step.index->constant;
        if (key.is_string()) return member(shape, key.str().text);
        return (shape & kMessages) ? kMessage : (shape & kContent) ? kPart : kNothing;
      }
      case Postfix::Kind::kSlice:
        return shape & kMessages;  // a slice of content may be of a string
      case Postfix::Kind::kFilter:
        if (step.name == "first" || step.name == "last") {
          return (shape & kMessages) ? kMessage : kNothing;
        }
        if (step.name == "list" || step.name == "reverse" || step.name == "selectattr" ||
            step.name == "rejectattr" || step.name == "default") {
          return shape;
        }
        return kNothing;
      default:
        return kNothing;
    }
  }

  Shape member(Shape shape, std::string_view name) {
    if (shape & kPart) found_ = true;  // content[0].text
    if ((shape & kMessage) && name == "content") return kContent;
    const auto it = attributes_.find(std::string(name));
    return it == attributes_.end() ? kNothing : it->second;
  }

  /// Arguments give their shapes to the parameters of a macro that is called by its name.
  void look_args(const Expr* base, const Postfix& step) {
    const Stmt* macro = nullptr;
    if (step.kind == Postfix::Kind::kCall && base != nullptr && base->kind == Expr::Kind::kName) {
      const auto it = macros_.find(base->name);
      if (it != macros_.end()) macro = it->second;
    }
    for (size_t i = 0; i < step.args.positional.size(); ++i) {
      const Shape shape = look(*step.args.positional[i]);
      if (macro != nullptr && i < macro->parameters.size()) {
        shapes_[static_cast<size_t>(macro->parameters[i].id)] |= shape;
      }
    }
    for (const auto& [name, value] : step.args.named) {
      const Shape shape = look(*value);
      if (macro == nullptr) continue;
      for (const Parameter& p : macro->parameters) {
        if (p.name == name) shapes_[static_cast<size_t>(p.id)] |= shape;
      }
    }
  }

  const ParsedTemplate& program_;
  std::vector<Shape> shapes_;                          // by NameId
  std::unordered_map<std::string, Shape> attributes_;  // of namespaces
  std::unordered_map<NameId, const Stmt*> macros_;
  bool found_ = false;
};

}  // namespace

bool reads_content_parts(const ParsedTemplate& program) { return Inspector(program).run(); }

}  // namespace octavo::chat_template
