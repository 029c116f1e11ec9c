#include "chat_template/parser.h"

#include <fmt/format.h>

#include <charconv>
#include <unordered_map>

#include "chat_template/builtins.h"
#include "chat_template/lexer.h"

namespace octavo::chat_template {

NameId ParsedTemplate::find_name(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<NameId>(i);
  }
  return -1;
}

namespace {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ParsedTemplate run() {
    ParsedTemplate out;
    std::string end;
    out.body = parse_body({}, end);
    out.names = std::move(names_);
    return out;
  }

 private:
  /// Counts nesting; every function that can call itself through others holds one.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxSyntaxDepth) {
        parser_.fail_here(fmt::format("nested deeper than {} levels", kMaxSyntaxDepth));
      }
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  // ---- tokens

  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token t = tokens_[pos_];
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return t;
  }
  bool at_op(std::string_view op) const {
    return current().type == TokenType::kOperator && current().text == op;
  }
  bool at_name(std::string_view name) const {
    return current().type == TokenType::kName && current().text == name;
  }
  bool skip_op(std::string_view op) { return at_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }
  [[noreturn]] void fail_here(std::string message) const {
    throw Failure{std::move(message), false, current().line};
  }
  [[noreturn]] void expected(std::string_view what) const {
    if (current().type == TokenType::kEnd) {
      fail_here(fmt::format("unexpected end of template, expected {}", what));
    }
    fail_here(fmt::format("expected {}, got '{}'", what, current().text));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) expected(fmt::format("'{}'", op));
  }
  void expect_block_end() {
    if (current().type != TokenType::kBlockEnd) expected("end of statement block");
    next();
  }
  std::string expect_name() {
    if (current().type != TokenType::kName) expected("a name");
    return next().text;
  }
  NameId intern(const std::string& name) {
    const auto [it, added] = ids_.try_emplace(name, static_cast<NameId>(names_.size()));
    if (added) names_.push_back(name);
    return it->second;
  }
  ExprPtr make(Expr::Kind kind) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = current().line;
    return e;
  }
  ExprPtr make_constant(Value value) const {
    auto e = make(Expr::Kind::kConst);
    e->constant = std::move(value);
    return e;
  }

  // ---- statements

  /// Statements up to a tag named in `ends`, whose name is consumed and returned in `end`. With no
  /// ends: up to the end of the template.
  Body parse_body(const std::vector<std::string_view>& ends, std::string& end) {
    const Nested nested(*this);
    Body body;
    while (true) {
      switch (current().type) {
        case TokenType::kEnd:
          if (ends.empty()) return body;
          expected(fmt::format("'{}'", ends.back()));
        case TokenType::kText:
          body.push_back(make_stmt(Stmt::Kind::kText));
          body.back()->text = Value::text(next().text);
          break;
        case TokenType::kVariableBegin:
          next();
          body.push_back(make_stmt(Stmt::Kind::kOutput));
          body.back()->expr = parse_tuple(true);
          if (current().type != TokenType::kVariableEnd) expected("end of print statement");
          next();
          break;
        default: {
          next();  // kBlockBegin
          if (current().type != TokenType::kName) expected("tag name");
          for (const std::string_view candidate : ends) {
            if (current().text != candidate) continue;
            end = next().text;
            return body;
          }
          body.push_back(parse_statement());
        }
      }
    }
  }
  /// A body that ends with one certain tag.
  Body parse_body_to(std::string_view end_tag) {
    std::string end;
    Body body = parse_body({end_tag}, end);
    expect_block_end();
    return body;
  }
  std::unique_ptr<Stmt> make_stmt(Stmt::Kind kind) const {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = current().line;
    return s;
  }

  std::unique_ptr<Stmt> parse_statement() {
    const Token tag = current();
    if (skip_name("if")) return parse_if();
    if (skip_name("for")) return parse_for();
    if (skip_name("set")) return parse_set();
    if (skip_name("macro")) return parse_macro();
    if (skip_name("call")) return parse_call_block();
    if (skip_name("filter")) return parse_filter_block();
    if (skip_name("with")) return parse_with();
    if (skip_name("generation")) {
      auto s = make_stmt(Stmt::Kind::kGeneration);
      expect_block_end();
      s->body = parse_body_to("endgeneration");
      return s;
    }
    if (tag.text == "break" || tag.text == "continue") {
      next();
      if (loops_ == 0) fail_here(fmt::format("'{}' outside of a loop", tag.text));
      auto s = make_stmt(tag.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue);
      expect_block_end();
      return s;
    }
    fail_here(fmt::format("unknown or unsupported tag '{}'", tag.text));
  }

  std::unique_ptr<Stmt> parse_if() {
    auto s = make_stmt(Stmt::Kind::kIf);
    std::string end = "if";
    while (end != "endif") {
      Stmt::Branch branch;
      if (end != "else") branch.test = parse_tuple(false);
      const bool is_else = end == "else";
      expect_block_end();
      branch.body =
          is_else ? parse_body({"endif"}, end) : parse_body({"elif", "else", "endif"}, end);
      s->branches.push_back(std::move(branch));
    }
    expect_block_end();
    return s;
  }

  std::unique_ptr<Stmt> parse_for() {
    auto s = make_stmt(Stmt::Kind::kFor);
    s->target = parse_target(false);
    if (!skip_name("in")) expected("'in'");
    s->expr = parse_tuple(false);
    if (skip_name("if")) s->filter = parse_expression();
    s->recursive = skip_name("recursive");
    expect_block_end();
    ++loops_;
    std::string end;
    s->body = parse_body({"else", "endfor"}, end);
    --loops_;
    if (end == "else") {
      expect_block_end();
      s->else_body = parse_body({"endfor"}, end);
    }
    expect_block_end();
    return s;
  }

  std::unique_ptr<Stmt> parse_set() {
    auto s = make_stmt(Stmt::Kind::kSet);
    s->target = parse_target(true);
    if (skip_op("=")) {
      s->expr = parse_tuple(true);
      expect_block_end();
      return s;
    }
    s->kind = Stmt::Kind::kSetBlock;
    if (skip_op("|")) s->filter = parse_filters();
    expect_block_end();
    s->body = parse_block_body("endset");
    return s;
  }

  /// A body that Jinja compiles as a function: break and continue do not reach a loop outside.
  Body parse_block_body(std::string_view end_tag) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse_body_to(end_tag);
    loops_ = loops;
    return body;
  }

  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    expect_op("(");
    while (!at_op(")")) {
      if (!parameters.empty()) expect_op(",");
      if (at_op(")")) break;
      Parameter p;
      p.name = expect_name();
      p.id = intern(p.name);
      if (skip_op("=")) {
        p.default_value = parse_expression();
      } else if (!parameters.empty() && parameters.back().default_value) {
        fail_here("non-default argument follows default argument");
      }
      parameters.push_back(std::move(p));
    }
    expect_op(")");
    return parameters;
  }

  std::unique_ptr<Stmt> parse_macro() {
    auto s = make_stmt(Stmt::Kind::kMacro);
    s->macro_name = expect_name();
    s->macro_id = intern(s->macro_name);
    s->parameters = parse_parameters();
    expect_block_end();
    s->body = parse_block_body("endmacro");
    return s;
  }

  std::unique_ptr<Stmt> parse_call_block() {
    auto s = make_stmt(Stmt::Kind::kCallBlock);
    s->macro_name = "caller";
    if (at_op("(")) s->parameters = parse_parameters();
    s->expr = parse_unary(true);
    const bool is_call =
        s->expr->kind == Expr::Kind::kPostfix && s->expr->steps.back().kind == Postfix::Kind::kCall;
    if (!is_call) fail_here("expected call");
    expect_block_end();
    s->body = parse_block_body("endcall");
    return s;
  }

  std::unique_ptr<Stmt> parse_filter_block() {
    auto s = make_stmt(Stmt::Kind::kFilterBlock);
    s->filter = parse_filters();
    expect_block_end();
    s->body = parse_block_body("endfilter");
    return s;
  }

  std::unique_ptr<Stmt> parse_with() {
    auto s = make_stmt(Stmt::Kind::kWith);
    while (current().type != TokenType::kBlockEnd) {
      if (!s->bindings.empty()) expect_op(",");
      Target target = parse_target(false);
      expect_op("=");
      s->bindings.emplace_back(std::move(target), parse_expression());
    }
    expect_block_end();
    s->body = parse_body_to("endwith");
    return s;
  }

  Target parse_target(bool with_namespace) {
    const Nested nested(*this);
    Target first = parse_one_target(with_namespace);
    if (!at_op(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.items.push_back(std::move(first));
    while (skip_op(",")) {
      if (current().type != TokenType::kName && !at_op("(")) break;
      if (at_name("in")) break;
      tuple.items.push_back(parse_one_target(with_namespace));
    }
    return tuple;
  }
  Target parse_one_target(bool with_namespace) {
    if (skip_op("(")) {
      Target inner = parse_target(with_namespace);
      expect_op(")");
      return inner;
    }
    Target target;
    const std::string name = expect_name();
    if (is_reserved(name)) fail_here(fmt::format("can't assign to '{}'", name));
    target.name = intern(name);
    if (with_namespace && skip_op(".")) {
      target.kind = Target::Kind::kAttribute;
      target.attribute = expect_name();
    }
    return target;
  }
  static bool is_reserved(std::string_view name) {
    return name == "true" || name == "false" || name == "none" || name == "True" ||
           name == "False" || name == "None";
  }

  // ---- expressions, loosest binding first

  /// Expressions separated by commas: a tuple if there is a comma. `conditional`: whether
  /// `a if b else c` is read without parentheses.
  ExprPtr parse_tuple(bool conditional) {
    const int line = current().line;
    std::vector<ExprPtr> items;
    bool comma = false;
    while (true) {
      if (!items.empty() && ends_tuple()) break;
      items.push_back(conditional ? parse_expression() : parse_or());
      if (!skip_op(",")) break;
      comma = true;
    }
    if (!comma) return std::move(items[0]);
    auto tuple = make(Expr::Kind::kTuple);
    tuple->line = line;
    tuple->items = std::move(items);
    return tuple;
  }
  bool ends_tuple() const {
    return current().type == TokenType::kVariableEnd || current().type == TokenType::kBlockEnd ||
           at_op(")") || at_name("recursive");
  }

  ExprPtr parse_expression() {
    const Nested nested(*this);
    ExprPtr value = parse_or();
    while (skip_name("if")) {
      auto e = make(Expr::Kind::kCondition);
      e->items.push_back(std::move(value));
      e->items.push_back(parse_or());
      const bool has_else = skip_name("else");
      if (has_else) e->items.push_back(parse_expression());
      value = std::move(e);
      if (has_else) break;
      if (at_name("if")) fail_here("'if' without 'else' before another 'if'");
    }
    return value;
  }

  template <class Operand>
  ExprPtr parse_logic(std::string_view word, Expr::Kind kind, Operand operand) {
    ExprPtr left = operand();
    if (!at_name(word)) return left;
    auto e = make(kind);
    e->items.push_back(std::move(left));
    while (skip_name(word)) e->items.push_back(operand());
    return e;
  }
  ExprPtr parse_or() {
    return parse_logic("or", Expr::Kind::kOr, [this] { return parse_and(); });
  }
  ExprPtr parse_and() {
    return parse_logic("and", Expr::Kind::kAnd, [this] { return parse_not(); });
  }
  ExprPtr parse_not() {
    if (!at_name("not")) return parse_compare();
    const Nested nested(*this);
    auto e = make(Expr::Kind::kNot);
    next();
    e->items.push_back(parse_not());
    return e;
  }

  bool next_comparison(Op& op) {
    static constexpr std::pair<std::string_view, Op> kComparisons[] = {
        {"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
        {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
    for (const auto& [text, candidate] : kComparisons) {
      if (!skip_op(text)) continue;
      op = candidate;
      return true;
    }
    if (skip_name("in")) {
      op = Op::kIn;
      return true;
    }
    if (at_name("not") && ahead().type == TokenType::kName && ahead().text == "in") {
      next();
      next();
      op = Op::kNotIn;
      return true;
    }
    return false;
  }
  ExprPtr parse_compare() {
    ExprPtr left = parse_sum();
    Op op{};
    if (!next_comparison(op)) return left;
    auto e = make(Expr::Kind::kCompare);
    e->items.push_back(std::move(left));
    do {
      e->ops.push_back(op);
      e->items.push_back(parse_sum());
    } while (next_comparison(op));
    return e;
  }

  using OpTable = std::initializer_list<std::pair<std::string_view, Op>>;
  bool next_arithmetic(OpTable table, Op& op) {
    for (const auto& [text, candidate] : table) {
      if (!skip_op(text)) continue;
      op = candidate;
      return true;
    }
    return false;
  }
  template <class Operand>
  ExprPtr parse_arithmetic(OpTable table, Operand operand) {
    ExprPtr left = operand();
    Op op{};
    if (!next_arithmetic(table, op)) return left;
    auto e = make(Expr::Kind::kArithmetic);
    e->items.push_back(std::move(left));
    do {
      e->ops.push_back(op);
      e->items.push_back(operand());
    } while (next_arithmetic(table, op));
    return e;
  }
  ExprPtr parse_sum() {
    return parse_arithmetic({{"+", Op::kAdd}, {"-", Op::kSub}}, [this] { return parse_concat(); });
  }
  ExprPtr parse_concat() {
    ExprPtr left = parse_product();
    if (!at_op("~")) return left;
    auto e = make(Expr::Kind::kConcat);
    e->items.push_back(std::move(left));
    while (skip_op("~")) e->items.push_back(parse_product());
    return e;
  }
  ExprPtr parse_product() {
    return parse_arithmetic(
        {{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}},
        [this] { return parse_power(); });
  }
  ExprPtr parse_power() {
    return parse_arithmetic({{"**", Op::kPow}}, [this] { return parse_unary(true); });
  }

  /// Jinja binds a filter to what follows a sign and then to the signed value: -3|abs is 3.
  ExprPtr parse_unary(bool with_filter) {
    ExprPtr e;
    if (at_op("-") || at_op("+")) {
      const Nested nested(*this);
      e = make(at_op("-") ? Expr::Kind::kNegate : Expr::Kind::kPlus);
      next();
      e->items.push_back(parse_unary(false));
    } else {
      e = parse_primary();
    }
    return parse_postfix(std::move(e), with_filter);
  }

  ExprPtr parse_primary() {
    const Token t = current();
    switch (t.type) {
      case TokenType::kName:
        next();
        if (t.text == "true" || t.text == "True") return make_constant(Value::boolean(true));
        if (t.text == "false" || t.text == "False") return make_constant(Value::boolean(false));
        if (t.text == "none" || t.text == "None") return make_constant(Value::none());
        {
          auto e = make(Expr::Kind::kName);
          e->line = t.line;
          e->name = intern(t.text);
          return e;
        }
      case TokenType::kString: {
        std::string text = next().text;
        while (current().type == TokenType::kString) text += next().text;
        return make_constant(Value::text(std::move(text)));
      }
      case TokenType::kInteger:
        return parse_integer();
      case TokenType::kFloat: {
        next();
        double f = 0;
        std::from_chars(t.text.data(), t.text.data() + t.text.size(), f);
        return make_constant(Value::floating(f));
      }
      default:
        break;
    }
    const Nested nested(*this);
    if (skip_op("(")) return parse_parenthesis();
    if (skip_op("[")) return parse_list();
    if (skip_op("{")) return parse_dict();
    if (t.type == TokenType::kEnd) expected("an expression");
    fail_here(fmt::format("expected an expression, got '{}'", t.text));
  }

  ExprPtr parse_integer() {
    const Token t = next();
    int base = 10;
    std::string_view digits = t.text;
    if (digits.size() > 1 && digits[0] == '0') {
      const char kind = digits[1];
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (base != 10) digits.remove_prefix(2);
    }
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
      fail_here(fmt::format("'{}' is not an integer of 64 bits", t.text));
    }
    return make_constant(Value::integer(value));
  }

  ExprPtr parse_parenthesis() {
    if (skip_op(")")) return make(Expr::Kind::kTuple);
    ExprPtr e = parse_tuple(true);
    expect_op(")");
    return e;
  }
  ExprPtr parse_list() {
    auto e = make(Expr::Kind::kList);
    while (!at_op("]")) {
      if (!e->items.empty()) expect_op(",");
      if (at_op("]")) break;
      e->items.push_back(parse_expression());
    }
    expect_op("]");
    return e;
  }
  ExprPtr parse_dict() {
    auto e = make(Expr::Kind::kDict);
    while (!at_op("}")) {
      if (!e->items.empty()) expect_op(",");
      if (at_op("}")) break;
      e->items.push_back(parse_expression());
      expect_op(":");
      e->items.push_back(parse_expression());
    }
    expect_op("}");
    return e;
  }

  // ---- what follows a value

  ExprPtr parse_postfix(ExprPtr base, bool with_filter) {
    std::vector<Postfix> steps;
    bool filtered = false;
    while (true) {
      if (at_op(".") && !filtered) {
        steps.push_back(parse_attribute());
      } else if (at_op("[") && !filtered) {
        steps.push_back(parse_subscript());
      } else if (at_op("(")) {
        steps.push_back(parse_call());
      } else if (with_filter && at_op("|")) {
        next();
        steps.push_back(parse_filter());
        filtered = true;
      } else if (with_filter && at_name("is")) {
        steps.push_back(parse_test());
        filtered = true;
      } else {
        break;
      }
    }
    if (steps.empty()) return base;
    auto e = make(Expr::Kind::kPostfix);
    e->line = base->line;
    e->items.push_back(std::move(base));
    e->steps = std::move(steps);
    return e;
  }

  Postfix make_step(Postfix::Kind kind) const {
    Postfix p;
    p.kind = kind;
    p.line = current().line;
    return p;
  }
  Postfix parse_attribute() {
    next();
    Postfix p = make_step(Postfix::Kind::kAttribute);
    if (current().type == TokenType::kInteger) {
      p.kind = Postfix::Kind::kItem;
      p.index = parse_integer();
    } else {
      p.name = expect_name();
    }
    return p;
  }
  Postfix parse_subscript() {
    next();
    const Nested nested(*this);
    Postfix p = make_step(Postfix::Kind::kItem);
    if (!at_op(":")) {
      ExprPtr index = parse_expression();
      if (at_op(",")) {
        auto tuple = make(Expr::Kind::kTuple);
        tuple->items.push_back(std::move(index));
        while (skip_op(",")) {
          if (at_op("]")) break;
          tuple->items.push_back(parse_expression());
        }
        index = std::move(tuple);
      }
      if (skip_op("]")) {
        p.index = std::move(index);
        return p;
      }
      p.slice[0] = std::move(index);
    }
    p.kind = Postfix::Kind::kSlice;
    for (int part = 1; part < 3 && skip_op(":"); ++part) {
      if (!at_op(":") && !at_op("]")) p.slice[part] = parse_expression();
    }
    expect_op("]");
    return p;
  }
  Postfix parse_call() {
    Postfix p = make_step(Postfix::Kind::kCall);
    p.args = parse_arguments();
    return p;
  }

  CallArgs parse_arguments() {
    const Nested nested(*this);
    CallArgs args;
    expect_op("(");
    bool first = true;
    while (!at_op(")")) {
      if (!first) expect_op(",");
      if (at_op(")")) break;
      first = false;
      const bool named = current().type == TokenType::kName &&
                         ahead().type == TokenType::kOperator && ahead().text == "=";
      if (named) {
        std::string name = next().text;
        next();
        args.named.emplace_back(std::move(name), parse_expression());
      } else if (skip_op("**")) {
        if (args.star_star) fail_here("invalid syntax for function call expression");
        args.star_star = parse_expression();
      } else if (skip_op("*")) {
        if (args.star) fail_here("invalid syntax for function call expression");
        args.star = parse_expression();
      } else {
        if (!args.named.empty() || args.star || args.star_star) {
          fail_here("positional argument follows keyword argument");
        }
        args.positional.push_back(parse_expression());
      }
    }
    expect_op(")");
    return args;
  }

  std::string parse_dotted_name() {
    std::string name = expect_name();
    while (skip_op(".")) name.append(1, '.').append(expect_name());
    return name;
  }
  /// Behind the bar.
  Postfix parse_filter() {
    Postfix p = make_step(Postfix::Kind::kFilter);
    p.name = parse_dotted_name();
    p.filter = find_filter(p.name);
    if (at_op("(")) p.args = parse_arguments();
    return p;
  }
  /// The filters of a filter or set block: a chain without a base.
  ExprPtr parse_filters() {
    auto e = make(Expr::Kind::kPostfix);
    e->steps.push_back(parse_filter());
    while (skip_op("|")) e->steps.push_back(parse_filter());
    return e;
  }

  Postfix parse_test() {
    next();
    Postfix p = make_step(Postfix::Kind::kTest);
    p.negated = skip_name("not");
    p.name = parse_dotted_name();
    p.test = find_test(p.name);
    if (at_op("(")) {
      p.args = parse_arguments();
    } else if (starts_test_argument()) {
      if (at_name("is")) fail_here("You cannot chain multiple tests with is");
      const Nested nested(*this);
      p.args.positional.push_back(parse_postfix(parse_primary(), false));
    }
    return p;
  }
  bool starts_test_argument() const {
    switch (current().type) {
      case TokenType::kName:
        return !at_name("else") && !at_name("or") && !at_name("and") && !at_name("if") &&
               !at_name("in") && !at_name("not") && !at_name("recursive");
      case TokenType::kString:
      case TokenType::kInteger:
      case TokenType::kFloat:
        return true;
      default:
        return at_op("[") || at_op("{");
    }
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace

ParsedTemplate parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace octavo::chat_template
