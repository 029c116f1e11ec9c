#include "chat_template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat_template/text.h"

namespace octavo::chat_template {

void fail(std::string message) { throw Failure{std::move(message)}; }

void Meter::fail_steps() const {
  fail(fmt::format("rendering the chat template took more than {} steps", limits_.max_steps));
}
void Meter::fail_size() const {
  fail(
      fmt::format("the chat template made a text of more than {} bytes", limits_.max_output_bytes));
}

Value Value::text(std::string text) {
  auto s = std::make_shared<StrObj>();
  s->text = std::move(text);
  return object(Type::kString, std::move(s));
}

Value Value::undefined(std::string why) {
  auto s = std::make_shared<StrObj>();
  s->text = std::move(why);
  return object(Type::kUndefined, std::move(s));
}

std::string_view Value::why() const {
  return ref_ ? std::string_view(str().text) : std::string_view("value is undefined");
}

const Value* DictObj::find(std::string_view key) const {
  if (!index.empty()) {
    const auto it = index.find(key);
    return it == index.end() ? nullptr : &entries[it->second].second;
  }
  for (const auto& [k, v] : entries) {
    if (k.is_string() && k.str().text == key) return &v;
  }
  return nullptr;
}

const Value* NamespaceObj::find(std::string_view name) const {
  for (const auto& [n, v] : attributes) {
    if (n == name) return &v;
  }
  return nullptr;
}

void NamespaceObj::set(std::string_view name, Value value) const {
  for (auto& [n, v] : attributes) {
    if (n == name) {
      v = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

namespace {
int depth_of(const Value& v) { return v.ref() ? v.ref()->depth : 0; }
void check_depth(int depth) {
  if (depth > kMaxDataDepth) {
    fail(fmt::format("lists and objects are nested deeper than {} levels", kMaxDataDepth));
  }
}
constexpr size_t kScanLimit = 8;  // below it a scan beats a hash
}  // namespace

int depth_around(const Value& v) {
  check_depth(depth_of(v) + 1);
  return depth_of(v) + 1;
}

Value make_list(Meter& meter, std::vector<Value> items, ListKind kind) {
  meter.charge(static_cast<int64_t>(items.size()));
  auto list = std::make_shared<ListObj>();
  int depth = 0;
  for (const Value& v : items) depth = std::max(depth, depth_of(v));
  check_depth(depth + 1);
  list->depth = depth + 1;
  list->kind = kind;
  list->items = std::move(items);
  return Value::object(Type::kList, std::move(list));
}

Value make_dict(Meter& meter, std::vector<std::pair<Value, Value>> entries) {
  meter.charge(static_cast<int64_t>(entries.size()));
  auto dict = std::make_shared<DictObj>();
  int depth = 0;
  bool all_strings = true;
  for (const auto& [k, v] : entries) {
    depth = std::max({depth, depth_of(k), depth_of(v)});
    all_strings = all_strings && k.is_string();
    if (k.is_dict() || (k.is_list() && k.list().kind != ListKind::kTuple)) {
      fail(fmt::format("unhashable type: '{}'", type_name(k)));
    }
  }
  check_depth(depth + 1);
  dict->depth = depth + 1;
  std::unordered_map<std::string_view, size_t> index;
  for (auto& [k, v] : entries) {
    size_t at = dict->entries.size();
    if (all_strings && entries.size() > kScanLimit) {
      at = index.try_emplace(k.str().text, at).first->second;
    } else {
      for (size_t i = 0; i < dict->entries.size(); ++i) {
        if (equals(meter, dict->entries[i].first, k)) at = i;
      }
    }
    if (at < dict->entries.size()) {
      dict->entries[at].second = std::move(v);
    } else {
      dict->entries.emplace_back(std::move(k), std::move(v));
    }
  }
  dict->index = std::move(index);
  return Value::object(Type::kDict, std::move(dict));
}

void StrBuilder::append(std::string_view text, bool untrusted) {
  if (text.empty()) return;
  meter_->check_size(out_->text.size() + text.size());
  meter_->charge_bytes(text.size());
  if (untrusted) mark(out_->text.size(), out_->text.size() + text.size());
  out_->text.append(text);
}

void StrBuilder::append(const StrObj& s, size_t begin, size_t end) {
  if (begin >= end) return;
  const size_t base = out_->text.size();
  append(std::string_view(s.text).substr(begin, end - begin));
  auto it = std::lower_bound(s.untrusted.begin(), s.untrusted.end(), begin,
                             [](const Span& span, size_t at) { return span.end <= at; });
  for (; it != s.untrusted.end() && it->begin < end; ++it) {
    mark(base + std::max(it->begin, begin) - begin, base + std::min(it->end, end) - begin);
  }
}

void StrBuilder::mark(size_t begin, size_t end) {
  auto& spans = out_->untrusted;
  if (!spans.empty() && spans.back().end == begin) {
    spans.back().end = end;
  } else {
    meter_->charge();
    spans.push_back({begin, end});
  }
}

Value StrBuilder::take() {
  return Value::object(Type::kString, std::exchange(out_, std::make_shared<StrObj>()));
}
StrObj StrBuilder::take_object() {
  return std::move(*std::exchange(out_, std::make_shared<StrObj>()));
}

bool truthy(const Value& v) {
  switch (v.type()) {
    case Type::kUndefined:
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
      return v.as_int() != 0;
    case Type::kFloat:
      return v.as_double() != 0.0;
    case Type::kString:
      return !v.str().text.empty();
    case Type::kList:
      return v.list().kind == ListKind::kGenerator || !v.list().items.empty();
    case Type::kDict:
      return !v.dict().entries.empty();
    default:
      return true;
  }
}

std::string_view type_name(const Value& v) {
  switch (v.type()) {
    case Type::kUndefined:
      return "Undefined";
    case Type::kNone:
      return "NoneType";
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
    case Type::kString:
      return "str";
    case Type::kList:
      return v.list().kind == ListKind::kTuple       ? "tuple"
             : v.list().kind == ListKind::kGenerator ? "generator"
                                                     : "list";
    case Type::kDict:
      return "dict";
    case Type::kNamespace:
      return "Namespace";
    case Type::kCallable:
      return "function";
    case Type::kLoop:
      return "LoopContext";
  }
  return "object";
}

namespace {
bool equal_lists(Meter& meter, const ListObj& a, const ListObj& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equals(meter, a.items[i], b.items[i])) return false;
  }
  return true;
}

const Value* find_key(Meter& meter, const DictObj& dict, const Value& key) {
  if (key.is_string()) {
    if (dict.index.empty()) meter.charge(static_cast<int64_t>(dict.entries.size() / 8));
    return dict.find(key.str().text);
  }
  for (const auto& [k, v] : dict.entries) {
    if (equals(meter, k, key)) return &v;
  }
  return nullptr;
}

bool equal_dicts(Meter& meter, const DictObj& a, const DictObj& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [k, v] : a.entries) {
    const Value* other = find_key(meter, b, k);
    if (other == nullptr || !equals(meter, v, *other)) return false;
  }
  return true;
}
}  // namespace

bool equals(Meter& meter, const Value& a, const Value& b) {
  meter.charge();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::kUndefined:
    case Type::kNone:
      return true;
    case Type::kString:
      meter.charge_bytes(std::min(a.str().text.size(), b.str().text.size()));
      return a.str().text == b.str().text;
    case Type::kList:
      return equal_lists(meter, a.list(), b.list());
    case Type::kDict:
      return equal_dicts(meter, a.dict(), b.dict());
    default:
      return a.ref() == b.ref();
  }
}

bool less(Meter& meter, const Value& a, const Value& b) {
  meter.charge();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
    return a.as_double() < b.as_double();
  }
  if (a.is_undefined()) fail(std::string(a.why()));
  if (b.is_undefined()) fail(std::string(b.why()));
  if (a.is_string() && b.is_string()) {
    meter.charge_bytes(std::min(a.str().text.size(), b.str().text.size()));
    return a.str().text < b.str().text;  // UTF-8 sorts as code points do
  }
  if (a.is_list() && b.is_list() && a.list().kind == b.list().kind) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equals(meter, x[i], y[i])) return less(meter, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  fail(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a),
                   type_name(b)));
}

bool contains(Meter& meter, const Value& haystack, const Value& needle) {
  switch (haystack.type()) {
    case Type::kUndefined:
      return false;
    case Type::kString:
      if (needle.is_undefined()) fail(std::string(needle.why()));
      if (!needle.is_string()) {
        fail(fmt::format("'in <string>' requires string as left operand, not {}",
                         type_name(needle)));
      }
      meter.charge_bytes(haystack.str().text.size());
      return haystack.str().text.find(needle.str().text) != std::string::npos;
    case Type::kList:
      for (const Value& v : haystack.list().items) {
        if (equals(meter, v, needle)) return true;
      }
      return false;
    case Type::kDict:
      return find_key(meter, haystack.dict(), needle) != nullptr;
    default:
      fail(fmt::format("argument of type '{}' is not iterable", type_name(haystack)));
  }
}

std::string float_repr(double f) {
  if (std::isnan(f)) return "nan";
  if (std::isinf(f)) return f < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::fabs(f);
  // Python switches to an exponent below 1e-4 and from 1e16 on.
  const auto format = size != 0 && (size < 1e-4 || size >= 1e16) ? std::chars_format::scientific
                                                                 : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, f, format).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {
void append_repr_run(StrBuilder& out, std::string_view run, bool untrusted, char quote) {
  std::string escaped;
  for (size_t at = 0, size = 1; at < run.size(); at += size) {
    const int32_t c = decode_char(run, at, size);
    if (c == quote || c == '\\') {
      escaped += '\\';
      escaped += static_cast<char>(c);
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\r') {
      escaped += "\\r";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (c < 0) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(run[at]));
    } else if (is_printable(c)) {
      escaped.append(run.substr(at, size));
    } else if (c < 0x100) {
      escaped += fmt::format("\\x{:02x}", c);
    } else if (c < 0x10000) {
      escaped += fmt::format("\\u{:04x}", c);
    } else {
      escaped += fmt::format("\\U{:08x}", c);
    }
  }
  out.append(escaped, untrusted);
}

void append_string_repr(StrBuilder& out, const StrObj& s) {
  const bool has_single = s.text.find('\'') != std::string::npos;
  const bool has_double = s.text.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for_each_run(s, [&](std::string_view run, bool untrusted) {
    append_repr_run(out, run, untrusted, quote);
  });
  out.append(std::string_view(&quote, 1));
}

void append_value(Meter& meter, StrBuilder& out, const Value& v, int depth);

void append_list(Meter& meter, StrBuilder& out, const ListObj& list, int depth) {
  const bool tuple = list.kind == ListKind::kTuple;
  out.append(tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_value(meter, out, list.items[i], depth + 1);
  }
  if (tuple && list.items.size() == 1) out.append(",");
  out.append(tuple ? ")" : "]");
}

void append_dict(Meter& meter, StrBuilder& out, const DictObj& dict, int depth) {
  out.append("{");
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ");
    append_value(meter, out, dict.entries[i].first, depth + 1);
    out.append(": ");
    append_value(meter, out, dict.entries[i].second, depth + 1);
  }
  out.append("}");
}

void append_namespace(Meter& meter, StrBuilder& out, const NamespaceObj& ns, int depth) {
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : ns.attributes) {
    out.append(first ? "'" : ", '");
    out.append(name);
    out.append("': ");
    append_value(meter, out, value, depth + 1);
    first = false;
  }
  out.append("}>");
}

void append_value(Meter& meter, StrBuilder& out, const Value& v, int depth) {
  meter.charge();
  check_depth(depth);  // a namespace may contain itself
  switch (v.type()) {
    case Type::kUndefined:
      return out.append("Undefined");
    case Type::kNone:
      return out.append("None");
    case Type::kBool:
      return out.append(v.as_bool() ? "True" : "False");
    case Type::kInt:
      return out.append(std::to_string(v.as_int()));
    case Type::kFloat:
      return out.append(float_repr(v.as_double()));
    case Type::kString:
      return append_string_repr(out, v.str());
    case Type::kList:
      return append_list(meter, out, v.list(), depth);
    case Type::kDict:
      return append_dict(meter, out, v.dict(), depth);
    case Type::kNamespace:
      return append_namespace(meter, out, v.as<NamespaceObj>(), depth);
    case Type::kCallable:
      return out.append("<function>");
    case Type::kLoop:
      return out.append("<LoopContext>");
  }
}
}  // namespace

void append_str(Meter& meter, StrBuilder& out, const Value& v) {
  if (v.is_string()) return out.append(v.str());
  if (v.is_undefined()) return;
  append_value(meter, out, v, 0);
}

void append_repr(Meter& meter, StrBuilder& out, const Value& v) { append_value(meter, out, v, 0); }

Value to_str(Meter& meter, const Value& v) {
  if (v.is_string()) return v;
  StrBuilder out(meter);
  append_str(meter, out, v);
  return out.take();
}

std::vector<Value> iterate(Meter& meter, const Value& v) {
  std::vector<Value> items;
  switch (v.type()) {
    case Type::kUndefined:
      return items;
    case Type::kString:
      for (size_t at = 0; at < v.str().text.size();) {
        const size_t n = char_size(v.str().text, at);
        meter.charge();
        items.push_back(substr(meter, v.str(), at, at + n));
        at += n;
      }
      return items;
    case Type::kList:
      meter.charge(static_cast<int64_t>(v.list().items.size()));
      return v.list().items;
    case Type::kDict:
      meter.charge(static_cast<int64_t>(v.dict().entries.size()));
      for (const auto& entry : v.dict().entries) items.push_back(entry.first);
      return items;
    default:
      fail(fmt::format("'{}' object is not iterable", type_name(v)));
  }
}

int64_t length(Meter& meter, const Value& v) {
  switch (v.type()) {
    case Type::kUndefined:
      return 0;
    case Type::kString:
      meter.charge_bytes(v.str().text.size());
      return static_cast<int64_t>(count_chars(v.str().text));
    case Type::kList:
      if (v.list().kind == ListKind::kGenerator) break;
      return static_cast<int64_t>(v.list().items.size());
    case Type::kDict:
      return static_cast<int64_t>(v.dict().entries.size());
    default:
      break;
  }
  fail(fmt::format("object of type '{}' has no len()", type_name(v)));
}

}  // namespace octavo::chat_template
