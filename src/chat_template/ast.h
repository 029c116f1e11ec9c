#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat_template/value.h"

// The parsed template. Chains (a + b + c, a.b.c|f, a if b else c) are flat lists, so that neither
// evaluation nor destruction recurses along them; real nesting is bounded by the parser.

namespace octavo::chat_template {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using NameId = int;

/// Arguments of a call, filter or test.
struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

class Evaluator;
struct Args;
using FilterFn = Value (*)(Evaluator&, const Value&, const Args&);
using TestFn = bool (*)(Evaluator&, const Value&, const Args&);

/// What follows a value: attribute, item, slice, call, filter or test.
struct Postfix {
  enum class Kind : uint8_t { kAttribute, kItem, kSlice, kCall, kFilter, kTest };
  Kind kind = Kind::kAttribute;
  int line = 0;
  std::string name;  // attribute, filter or test
  ExprPtr index;     // kItem
  ExprPtr slice[3];  // start, stop, step; null when absent
  CallArgs args;
  bool negated = false;  // `is not`
  FilterFn filter = nullptr;
  TestFn test = nullptr;
};

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
};

struct Expr {
  enum class Kind : uint8_t {
    kConst,
    kName,
    kList,
    kTuple,
    kDict,  // items: key, value, key, value, …
    kNegate,
    kPlus,
    kNot,
    kArithmetic,  // items joined by ops, left to right
    kConcat,      // items joined by ~
    kCompare,     // items joined by ops, chained as Python does
    kAnd,
    kOr,
    kCondition,  // items: value, test, otherwise (may be absent)
    kPostfix,    // items[0] followed by steps; in a filter block the base is the block's text
  };
  Kind kind = Kind::kConst;
  int line = 0;
  Value constant;
  NameId name = -1;
  std::vector<ExprPtr> items;
  std::vector<Op> ops;
  std::vector<Postfix> steps;
};

/// Where a value is stored: a name, `ns.attribute`, or several of them.
struct Target {
  enum class Kind : uint8_t { kName, kAttribute, kTuple };
  Kind kind = Kind::kName;
  NameId name = -1;
  std::string attribute;
  std::vector<Target> items;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  NameId id = -1;
  ExprPtr default_value;  // null: required
};

struct Stmt {
  enum class Kind : uint8_t {
    kText,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kWith,
    kGeneration,
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr test;  // null: else
    Body body;
  };
  Kind kind = Kind::kText;
  int line = 0;
  Value text;              // kText
  ExprPtr expr;            // kOutput, kFor (iterable), kSet (value), kCallBlock (the call)
  ExprPtr filter;          // kFor: condition; kSetBlock, kFilterBlock: filters on the body
  Target target;           // kFor, kSet, kSetBlock
  bool recursive = false;  // kFor
  Body body;
  Body else_body;                                    // kFor
  std::vector<Branch> branches;                      // kIf
  std::vector<Parameter> parameters;                 // kMacro, kCallBlock
  std::vector<std::pair<Target, ExprPtr>> bindings;  // kWith
  std::string macro_name;
  NameId macro_id = -1;
};

}  // namespace octavo::chat_template
