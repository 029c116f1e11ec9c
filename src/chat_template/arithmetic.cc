#include <fmt/format.h>

#include <cmath>

#include "chat_template/builtins.h"
#include "chat_template/evaluator.h"
#include "chat_template/text.h"

// Python's operators on numbers, strings and lists.

namespace octavo::chat_template {
namespace {

std::string_view symbol(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void fail_overflow() { fail("integer result does not fit into 64 bits"); }
[[noreturn]] void fail_zero() { fail("division by zero"); }

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail_zero();
    return Value::floating(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent == 0) return Value::integer(result);
    if (__builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
}

Value on_integers(Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &r)) fail_overflow();
      return Value::integer(r);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &r)) fail_overflow();
      return Value::integer(r);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &r)) fail_overflow();
      return Value::integer(r);
    case Op::kDiv:
      if (b == 0) fail_zero();
      return Value::floating(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDiv:
      if (b == 0) fail_zero();
      if (b == -1) return on_integers(Op::kSub, 0, a);  // INT64_MIN / -1 overflows
      r = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --r;
      return Value::integer(r);
    case Op::kMod:
      if (b == 0) fail_zero();
      if (b == -1) return Value::integer(0);
      r = a % b;
      if (r != 0 && (r < 0) != (b < 0)) r += b;
      return Value::integer(r);
    default:
      return power(a, b);
  }
}

Value on_floats(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::floating(a + b);
    case Op::kSub:
      return Value::floating(a - b);
    case Op::kMul:
      return Value::floating(a * b);
    case Op::kDiv:
      if (b == 0) fail_zero();
      return Value::floating(a / b);
    case Op::kFloorDiv:
      if (b == 0) fail_zero();
      return Value::floating(std::floor(a / b));
    case Op::kMod: {
      if (b == 0) fail_zero();
      double r = std::fmod(a, b);
      if (r != 0 && (r < 0) != (b < 0)) r += b;
      return Value::floating(r);
    }
    default:
      return Value::floating(std::pow(a, b));
  }
}

Value repeat_list(Meter& meter, const ListObj& list, int64_t times) {
  std::vector<Value> items;
  const auto size = static_cast<int64_t>(list.items.size());
  if (times > 0 && size > 0) {
    if (times > meter.limits().max_steps / size) meter.charge(meter.limits().max_steps + 1);
    meter.charge(times * size);  // before the memory is taken
    for (int64_t i = 0; i < times; ++i) {
      items.insert(items.end(), list.items.begin(), list.items.end());
    }
  }
  return make_list(meter, std::move(items), list.kind);
}

Value add_lists(Meter& meter, const ListObj& a, const ListObj& b) {
  std::vector<Value> items;
  items.reserve(a.items.size() + b.items.size());
  meter.charge(static_cast<int64_t>(a.items.size() + b.items.size()) / 8);
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return make_list(meter, std::move(items), a.kind);
}

bool is_sequence(const Value& v) { return v.is_list() && v.list().kind != ListKind::kGenerator; }

}  // namespace

Value arithmetic(Evaluator& evaluator, Op op, const Value& a, const Value& b) {
  Meter& meter = evaluator.meter();
  if (a.is_undefined()) fail(std::string(a.why()));
  if (a.is_string() && op == Op::kMod) return format_percent(evaluator, a.str(), b);
  if (b.is_undefined()) fail(std::string(b.why()));
  if (a.is_integral() && b.is_integral()) return on_integers(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return on_floats(op, a.as_double(), b.as_double());
  if (op == Op::kAdd) {
    if (a.is_string() && b.is_string()) return concat(meter, a.str(), b.str());
    if (is_sequence(a) && is_sequence(b) && a.list().kind == b.list().kind) {
      return add_lists(meter, a.list(), b.list());
    }
    if (a.is_string()) {
      fail(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
    }
  }
  if (op == Op::kMul) {
    if (a.is_string() && b.is_integral()) return repeat(meter, a.str(), b.as_int());
    if (b.is_string() && a.is_integral()) return repeat(meter, b.str(), a.as_int());
    if (is_sequence(a) && b.is_integral()) return repeat_list(meter, a.list(), b.as_int());
    if (is_sequence(b) && a.is_integral()) return repeat_list(meter, b.list(), a.as_int());
  }
  fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a),
                   type_name(b)));
}

}  // namespace octavo::chat_template
