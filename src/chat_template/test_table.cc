#include <fmt/format.h>

#include <array>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// What may follow `is`.

namespace octavo::chat_template {
namespace {

template <Type type>
bool has_type(Evaluator&, const Value& v, const Args&) {
  return v.is(type);
}
bool is_defined(Evaluator&, const Value& v, const Args&) { return !v.is_undefined(); }
bool is_true(Evaluator&, const Value& v, const Args&) { return v.is(Type::kBool) && v.as_bool(); }
bool is_false(Evaluator&, const Value& v, const Args&) { return v.is(Type::kBool) && !v.as_bool(); }
bool is_number(Evaluator&, const Value& v, const Args&) { return v.is_number(); }
bool is_callable(Evaluator&, const Value& v, const Args&) {
  return v.is(Type::kCallable) || v.is(Type::kLoop);
}
bool is_iterable(Evaluator&, const Value& v, const Args&) {
  return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
}
bool is_sequence(Evaluator&, const Value& v, const Args&) {
  if (v.is_list()) return v.list().kind != ListKind::kGenerator;
  return v.is_string() || v.is_dict();
}

const Value& only(const Args& args, std::string_view test) {
  return Bound(test, args, {"other"}).get(0);
}
bool is_eq(Evaluator& e, const Value& v, const Args& args) {
  return equals(e.meter(), v, only(args, "eq"));
}
bool is_ne(Evaluator& e, const Value& v, const Args& args) {
  return !equals(e.meter(), v, only(args, "ne"));
}
bool is_lt(Evaluator& e, const Value& v, const Args& args) {
  return less(e.meter(), v, only(args, "lt"));
}
bool is_gt(Evaluator& e, const Value& v, const Args& args) {
  return less(e.meter(), only(args, "gt"), v);
}
bool is_le(Evaluator& e, const Value& v, const Args& args) {
  return is_lt(e, v, args) || is_eq(e, v, args);
}
bool is_ge(Evaluator& e, const Value& v, const Args& args) {
  return is_gt(e, v, args) || is_eq(e, v, args);
}
bool is_in(Evaluator& e, const Value& v, const Args& args) {
  return contains(e.meter(), only(args, "in"), v);
}
bool is_same_as(Evaluator& e, const Value& v, const Args& args) {
  const Value& other = only(args, "sameas");
  if (v.type() != other.type()) return false;
  if (v.is_list() || v.is_dict()) return v.ref() == other.ref();
  return equals(e.meter(), v, other);
}

int64_t integer(const Value& v) {
  if (v.is_undefined()) fail(std::string(v.why()));
  if (!v.is_integral()) fail(fmt::format("expected an integer, got {}", type_name(v)));
  return v.as_int();
}
bool is_even(Evaluator&, const Value& v, const Args&) { return integer(v) % 2 == 0; }
bool is_odd(Evaluator&, const Value& v, const Args&) { return integer(v) % 2 != 0; }
bool is_divisible_by(Evaluator&, const Value& v, const Args& args) {
  const int64_t by = integer(only(args, "divisibleby"));
  if (by == 0) fail("integer modulo by zero");
  return by == -1 || integer(v) % by == 0;
}
bool is_lower_text(Evaluator& e, const Value& v, const Args&) {
  return is_lower(to_str(e.meter(), v).str().text);
}
bool is_upper_text(Evaluator& e, const Value& v, const Args&) {
  return is_upper(to_str(e.meter(), v).str().text);
}
bool names_filter(Evaluator&, const Value& v, const Args&) {
  return v.is_string() && find_filter(v.str().text) != nullptr;
}
bool names_test(Evaluator&, const Value& v, const Args&) {
  return v.is_string() && find_test(v.str().text) != nullptr;
}
bool is_escaped(Evaluator&, const Value&, const Args&) { return false; }

struct Row {
  std::string_view name;
  TestFn fn;
};
constexpr auto kTests = std::to_array<Row>({
    {"defined", is_defined},
    {"undefined", has_type<Type::kUndefined>},
    {"none", has_type<Type::kNone>},
    {"boolean", has_type<Type::kBool>},
    {"true", is_true},
    {"false", is_false},
    {"integer", has_type<Type::kInt>},
    {"float", has_type<Type::kFloat>},
    {"number", is_number},
    {"string", has_type<Type::kString>},
    {"mapping", has_type<Type::kDict>},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"sameas", is_same_as},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"==", is_eq},
    {"ne", is_ne},
    {"!=", is_ne},
    {"lt", is_lt},
    {"lessthan", is_lt},
    {"<", is_lt},
    {"gt", is_gt},
    {"greaterthan", is_gt},
    {">", is_gt},
    {"le", is_le},
    {"<=", is_le},
    {"ge", is_ge},
    {">=", is_ge},
    {"in", is_in},
    {"even", is_even},
    {"odd", is_odd},
    {"divisibleby", is_divisible_by},
    {"lower", is_lower_text},
    {"upper", is_upper_text},
    {"filter", names_filter},
    {"test", names_test},
    {"escaped", is_escaped},
});

}  // namespace

TestFn find_test(std::string_view name) {
  for (const Row& row : kTests) {
    if (row.name == name) return row.fn;
  }
  return nullptr;
}

}  // namespace octavo::chat_template
