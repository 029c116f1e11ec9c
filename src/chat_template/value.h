#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat_template/chat_template.h"

// Values of a running template: Python's data model as far as chat templates can see it. Lists,
// dicts and strings never change after creation, as in the sandbox that publishers test against.

namespace octavo::chat_template {

/// Thrown inside this room only; ChatTemplate turns it into an Error.
struct Failure {
  std::string message;
  bool from_template = false;  // raise_exception: the text is the template's own
  int line = 0;                // 0 until the statement that failed adds it
};
[[noreturn]] void fail(std::string message);

/// Counts work and memory of one rendering; throws Failure beyond the limits. Every value that is
/// made is charged, so the step limit bounds memory too.
class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits), steps_left_(limits.max_steps) {}
  void charge(int64_t steps = 1) {
    steps_left_ -= steps;
    if (steps_left_ < 0) fail_steps();
  }
  /// Cost of touching `size` bytes, as steps.
  void charge_bytes(size_t size) { charge(static_cast<int64_t>(size / kBytesPerStep)); }
  /// Refuses a string of `size` bytes before it is built.
  void check_size(size_t size) const {
    if (size > limits_.max_output_bytes) fail_size();
  }
  const Limits& limits() const { return limits_; }

 private:
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_size() const;
  static constexpr size_t kBytesPerStep = 64;  // a copied cache line costs about one small node
  Limits limits_;
  int64_t steps_left_;
};

/// Nesting that values may reach: bounds every recursion over data.
inline constexpr int kMaxDataDepth = 200;

enum class Type : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,  // lists, tuples and exhausted generators; see ListKind
  kDict,
  kNamespace,
  kCallable,
  kLoop,
};

struct Object {
  virtual ~Object() = default;
  /// Levels of values inside: everything that owns values counts, so that no chain of them gets
  /// deep enough to overflow the stack when it is destroyed.
  int depth = 0;
};
/// 1 + the depth of `v`; throws Failure beyond kMaxDataDepth.
int depth_around(const class Value& v);

struct StrObj;
struct ListObj;
struct DictObj;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Type::kNone); }
  static Value boolean(bool b) {
    Value v(Type::kBool);
    v.int_ = b;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Type::kInt);
    v.int_ = i;
    return v;
  }
  static Value floating(double f) {
    Value v(Type::kFloat);
    v.float_ = f;
    return v;
  }
  static Value object(Type type, std::shared_ptr<const Object> ref) {
    Value v(type);
    v.ref_ = std::move(ref);
    return v;
  }
  /// Trusted text (the template's own).
  static Value text(std::string text);
  /// Undefined that explains itself when it is used: `why` as Jinja words it.
  static Value undefined(std::string why);

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::kUndefined; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_string() const { return type_ == Type::kString; }
  bool is_list() const { return type_ == Type::kList; }
  bool is_dict() const { return type_ == Type::kDict; }
  /// Python's int, bool included.
  bool is_integral() const { return type_ == Type::kInt || type_ == Type::kBool; }
  bool is_number() const { return is_integral() || type_ == Type::kFloat; }

  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_double() const { return type_ == Type::kFloat ? float_ : static_cast<double>(int_); }
  const StrObj& str() const;
  const ListObj& list() const;
  const DictObj& dict() const;
  const std::shared_ptr<const Object>& ref() const { return ref_; }
  template <class T>
  const T& as() const {
    return static_cast<const T&>(*ref_);
  }
  /// Why this undefined value is undefined.
  std::string_view why() const;

 private:
  explicit Value(Type type) : type_(type) {}
  Type type_ = Type::kUndefined;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<const Object> ref_;
};

/// Text with the byte ranges that came from the request, sorted and merged.
struct StrObj final : Object {
  std::string text;
  std::vector<Span> untrusted;
};

enum class ListKind : uint8_t { kList, kTuple, kGenerator };

struct ListObj final : Object {
  ListKind kind = ListKind::kList;
  std::vector<Value> items;
};

struct DictObj final : Object {
  std::vector<std::pair<Value, Value>> entries;
  /// Places of string keys; filled only for dicts too large to scan.
  std::unordered_map<std::string_view, size_t> index;

  const Value* find(std::string_view key) const;
};

/// Mutable by `{% set ns.x = … %}`. All of one rendering are kept alive and emptied at its end,
/// because they can refer to themselves.
struct NamespaceObj final : Object {
  mutable std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value) const;
};

inline const StrObj& Value::str() const { return static_cast<const StrObj&>(*ref_); }
inline const ListObj& Value::list() const { return static_cast<const ListObj&>(*ref_); }
inline const DictObj& Value::dict() const { return static_cast<const DictObj&>(*ref_); }

/// Containers; throw Failure when nested deeper than kMaxDataDepth. They charge their items.
Value make_list(Meter& meter, std::vector<Value> items, ListKind kind = ListKind::kList);
/// Later entries replace earlier ones with an equal key, in the earlier one's place.
Value make_dict(Meter& meter, std::vector<std::pair<Value, Value>> entries);

/// Builds text piece by piece and keeps track of what is untrusted. Throws Failure beyond the
/// size limit; charges what it copies.
class StrBuilder {
 public:
  explicit StrBuilder(Meter& meter) : meter_(&meter) {}
  void append(std::string_view text, bool untrusted = false);
  void append(const StrObj& s) { append(s, 0, s.text.size()); }
  /// Bytes [begin, end) of `s` with their ranges.
  void append(const StrObj& s, size_t begin, size_t end);
  size_t size() const { return out_->text.size(); }
  const std::string& text() const { return out_->text; }
  /// The text so far; the builder is empty afterwards.
  Value take();
  StrObj take_object();

 private:
  void mark(size_t begin, size_t end);
  Meter* meter_;
  std::shared_ptr<StrObj> out_ = std::make_shared<StrObj>();
};

/// Calls fn(text, untrusted) for the maximal runs of `s` that are alike.
template <class F>
void for_each_run(const StrObj& s, F&& fn) {
  const std::string_view text = s.text;
  size_t at = 0;
  for (const Span& span : s.untrusted) {
    if (span.begin > at) fn(text.substr(at, span.begin - at), false);
    fn(text.substr(span.begin, span.end - span.begin), true);
    at = span.end;
  }
  if (at < text.size()) fn(text.substr(at), false);
}

/// Python's truth value.
bool truthy(const Value& v);
/// Name of the Python type, as error texts spell it.
std::string_view type_name(const Value& v);
/// Python's ==.
bool equals(Meter& meter, const Value& a, const Value& b);
/// Python's <; throws Failure for types without order.
bool less(Meter& meter, const Value& a, const Value& b);
/// Python's `needle in haystack`.
bool contains(Meter& meter, const Value& haystack, const Value& needle);

/// str(v), appended.
void append_str(Meter& meter, StrBuilder& out, const Value& v);
/// repr(v), appended.
void append_repr(Meter& meter, StrBuilder& out, const Value& v);
/// str(v): `v` itself when it is a string.
Value to_str(Meter& meter, const Value& v);
/// repr of a float: "1.0", "1e-05", "inf".
std::string float_repr(double f);

/// What a `for` loop over `v` sees: items, keys, characters. Throws Failure when not iterable.
std::vector<Value> iterate(Meter& meter, const Value& v);
/// len(v); throws Failure when it has none.
int64_t length(Meter& meter, const Value& v);

}  // namespace octavo::chat_template
