#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// Methods of strings, lists and dicts.

namespace octavo::chat_template {
namespace {

using MethodFn = Value (*)(Evaluator&, const Value& self, const Args&);

struct Method {
  std::string_view name;
  MethodFn fn;
};

struct BoundMethod final : CallableObj {
  Value self;
  const Method* method = nullptr;
  Value call(Evaluator& evaluator, const Args& args) const override {
    return method->fn(evaluator, self, args);
  }
};

// ---- strings

template <bool left, bool right>
Value str_strip(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("strip", args, {"chars"});
  const StrObj* chars = b.string(0);
  std::string_view set;
  if (chars != nullptr) {
    set = chars->text;
    e.meter().charge_bytes(self.str().text.size() * std::min<size_t>(set.size(), 64));
  }
  e.meter().charge_bytes(self.str().text.size());
  const Span kept = strip_range(self.str().text, chars ? &set : nullptr, left, right);
  return substr(e.meter(), self.str(), kept.begin, kept.end);
}

template <bool right>
Value str_split(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("split", args, {"sep", "maxsplit"});
  const StrObj* sep = b.string(0);
  std::string_view separator;
  if (sep != nullptr) separator = sep->text;
  const int64_t max = b.integer(1, -1);
  auto parts = right ? rsplit(e.meter(), self.str(), sep ? &separator : nullptr, max)
                     : split(e.meter(), self.str(), sep ? &separator : nullptr, max);
  return make_list(e.meter(), std::move(parts));
}

Value str_splitlines(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("splitlines", args, {"keepends"});
  return make_list(e.meter(), splitlines(e.meter(), self.str(), b.boolean(0, false)));
}

template <bool right>
Value str_partition(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("partition", args, {"sep"});
  const StrObj& sep = b.required_string(0);
  if (sep.text.empty()) fail("empty separator");
  const std::string& text = self.str().text;
  e.meter().charge_bytes(text.size());
  const size_t at = right ? text.rfind(sep.text) : text.find(sep.text);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    parts = {self, Value::text(""), Value::text("")};
    if (right) std::reverse(parts.begin(), parts.end());
  } else {
    parts = {substr(e.meter(), self.str(), 0, at), b.get(0),
             substr(e.meter(), self.str(), at + sep.text.size(), text.size())};
  }
  return make_list(e.meter(), std::move(parts), ListKind::kTuple);
}

/// The part of `text` between two character positions, as find and startswith take them.
std::string_view window(Meter& meter, std::string_view text, const Bound& b, size_t first,
                        size_t& begin) {
  begin = 0;
  if (!b.has(first)) return text;
  meter.charge_bytes(text.size());
  const auto size = static_cast<int64_t>(count_chars(text));
  const auto clamp = [&](int64_t v) {
    if (v < 0) v = v < -size ? 0 : v + size;
    return std::min(v, size);
  };
  const auto offset = [&](int64_t chars) {
    size_t at = 0;
    for (; chars > 0; --chars) at += char_size(text, at);
    return at;
  };
  const bool none = b.get(first).is_none();
  begin = offset(clamp(none ? 0 : b.integer(first, 0)));
  const bool open = !b.has(first + 1) || b.get(first + 1).is_none();
  const size_t end = open ? text.size() : offset(clamp(b.integer(first + 1, 0)));
  return end > begin ? text.substr(begin, end - begin) : std::string_view();
}

template <bool at_end>
Value str_affix(Evaluator& e, const Value& self, const Args& args) {
  const Bound b(at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"});
  size_t begin = 0;
  const std::string_view text = window(e.meter(), self.str().text, b, 1, begin);
  const auto matches = [&](const Value& v) {
    if (v.is_undefined()) fail(std::string(v.why()));
    if (!v.is_string()) {
      fail(fmt::format("{} first arg must be str or a tuple of str, not {}",
                       at_end ? "endswith" : "startswith", type_name(v)));
    }
    e.meter().charge_bytes(v.str().text.size());
    return at_end ? text.ends_with(v.str().text) : text.starts_with(v.str().text);
  };
  const Value& wanted = b.get(0);
  if (!wanted.is_list()) return Value::boolean(matches(wanted));
  return Value::boolean(
      std::any_of(wanted.list().items.begin(), wanted.list().items.end(), matches));
}

std::optional<int64_t> find_chars(Evaluator& e, const Value& self, const Bound& b, bool last) {
  size_t begin = 0;
  const std::string_view text = window(e.meter(), self.str().text, b, 1, begin);
  e.meter().charge_bytes(text.size());
  const std::string& wanted = b.required_string(0).text;
  const size_t at = last ? text.rfind(wanted) : text.find(wanted);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<int64_t>(count_chars(std::string_view(self.str().text).substr(0, begin + at)));
}
template <bool last, bool must>
Value str_find(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("find", args, {"sub", "start", "end"});
  const auto at = find_chars(e, self, b, last);
  if (!at && must) fail("substring not found");
  return Value::integer(at.value_or(-1));
}

Value str_count(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("count", args, {"sub", "start", "end"});
  size_t begin = 0;
  const std::string_view text = window(e.meter(), self.str().text, b, 1, begin);
  const std::string& wanted = b.required_string(0).text;
  e.meter().charge_bytes(text.size());
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_chars(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::integer(count);
}

Value str_replace(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("replace", args, {"old", "new", "count"});
  return replace(e.meter(), self.str(), b.required_string(0).text, b.required_string(1),
                 b.integer(2, -1));
}

template <bool prefix>
Value str_remove(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("removeprefix", args, {"prefix"});
  const std::string& affix = b.required_string(0).text;
  const std::string_view text = self.str().text;
  if (prefix && text.starts_with(affix)) {
    return substr(e.meter(), self.str(), affix.size(), text.size());
  }
  if (!prefix && text.ends_with(affix)) {
    return substr(e.meter(), self.str(), 0, text.size() - affix.size());
  }
  return self;
}

template <Case how>
Value str_case(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("upper", args, {});
  return change_case(e.meter(), self.str(), how);
}

Value str_join(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("join", args, {"iterable"});
  StrBuilder out(e.meter());
  bool first = true;
  for (const Value& v : iterate(e.meter(), b.get(0))) {
    if (!v.is_string()) {
      fail(fmt::format("sequence item: expected str instance, {} found", type_name(v)));
    }
    if (!first) out.append(self.str());
    first = false;
    out.append(v.str());
  }
  return out.take();
}

template <bool (*check)(std::string_view)>
Value str_check(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("isdigit", args, {});
  e.meter().charge_bytes(self.str().text.size());
  return Value::boolean(check(self.str().text));
}

/// ljust, rjust, center: -1, 1, 0.
template <int where>
Value str_justify(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("center", args, {"width", "fillchar"});
  const StrObj* fill_arg = b.string(1);
  const StrObj space = repeat_char(e.meter(), ' ', 1);
  const StrObj& fill = fill_arg != nullptr ? *fill_arg : space;
  if (count_chars(fill.text) != 1) fail("The fill character must be exactly one character long");
  const int64_t missing = b.integer(0, 0) - length(e.meter(), self);
  if (b.integer(0, 0) > static_cast<int64_t>(e.meter().limits().max_output_bytes)) {
    e.meter().check_size(static_cast<size_t>(b.integer(0, 0)));
  }
  if (missing <= 0) return self;
  const int64_t width = b.integer(0, 0);
  const int64_t left = where == 0 ? missing / 2 + (missing & width & 1) : where > 0 ? missing : 0;
  StrBuilder out(e.meter());
  out.append(repeat(e.meter(), fill, left).str());
  out.append(self.str());
  out.append(repeat(e.meter(), fill, missing - left).str());
  return out.take();
}

Value str_zfill(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("zfill", args, {"width"});
  const int64_t width = b.integer(0, 0);
  const std::string& text = self.str().text;
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  StrBuilder out(e.meter());
  out.append(self.str(), 0, sign);
  const int64_t size = length(e.meter(), self);
  if (width > size) out.append(repeat_char(e.meter(), '0', width - size));
  out.append(self.str(), sign, text.size());
  return out.take();
}

Value str_format(Evaluator& e, const Value& self, const Args& args) {
  return format_braces(e, self.str(), args);
}

constexpr auto kStringMethods = std::to_array<Method>({
    {"strip", str_strip<true, true>},
    {"lstrip", str_strip<true, false>},
    {"rstrip", str_strip<false, true>},
    {"split", str_split<false>},
    {"rsplit", str_split<true>},
    {"splitlines", str_splitlines},
    {"partition", str_partition<false>},
    {"rpartition", str_partition<true>},
    {"startswith", str_affix<false>},
    {"endswith", str_affix<true>},
    {"find", str_find<false, false>},
    {"rfind", str_find<true, false>},
    {"index", str_find<false, true>},
    {"rindex", str_find<true, true>},
    {"count", str_count},
    {"replace", str_replace},
    {"removeprefix", str_remove<true>},
    {"removesuffix", str_remove<false>},
    {"upper", str_case<Case::kUpper>},
    {"lower", str_case<Case::kLower>},
    {"casefold", str_case<Case::kLower>},
    {"title", str_case<Case::kTitle>},
    {"capitalize", str_case<Case::kCapitalize>},
    {"swapcase", str_case<Case::kSwap>},
    {"join", str_join},
    {"format", str_format},
    {"isdigit", str_check<all_digit>},
    {"isdecimal", str_check<all_digit>},
    {"isnumeric", str_check<all_digit>},
    {"isalpha", str_check<all_alpha>},
    {"isalnum", str_check<all_alnum>},
    {"isspace", str_check<all_space>},
    {"isupper", str_check<is_upper>},
    {"islower", str_check<is_lower>},
    {"ljust", str_justify<-1>},
    {"rjust", str_justify<1>},
    {"center", str_justify<0>},
    {"zfill", str_zfill},
});

// ---- lists and dicts

Value refuse_change(Evaluator&, const Value& self, const Args&) {
  fail(fmt::format("a chat template must not change a {}", type_name(self)));
}

Value list_index(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("index", args, {"value"});
  const auto& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(e.meter(), items[i], b.get(0))) return Value::integer(static_cast<int64_t>(i));
  }
  fail("value is not in list");
}

Value list_count(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("count", args, {"value"});
  int64_t count = 0;
  for (const Value& v : self.list().items) count += equals(e.meter(), v, b.get(0)) ? 1 : 0;
  return Value::integer(count);
}

Value same(Evaluator&, const Value& self, const Args&) { return self; }

constexpr auto kListMethods = std::to_array<Method>({
    {"index", list_index},
    {"count", list_count},
    {"copy", same},
    {"append", refuse_change},
    {"extend", refuse_change},
    {"insert", refuse_change},
    {"pop", refuse_change},
    {"remove", refuse_change},
    {"clear", refuse_change},
    {"sort", refuse_change},
    {"reverse", refuse_change},
});

Value dict_get(Evaluator& e, const Value& self, const Args& args) {
  const Bound b("get", args, {"key", "default"});
  const Value& key = b.get(0);
  if (key.is_string()) {
    if (self.dict().index.empty()) {
      e.meter().charge(static_cast<int64_t>(self.dict().entries.size() / 8));
    }
    if (const Value* v = self.dict().find(key.str().text)) return *v;
  } else {
    for (const auto& [k, v] : self.dict().entries) {
      if (equals(e.meter(), k, key)) return v;
    }
  }
  return b.has(1) ? b.get(1) : Value::none();
}

Value dict_keys(Evaluator& e, const Value& self, const Args&) {
  return make_list(e.meter(), iterate(e.meter(), self));
}

Value dict_values(Evaluator& e, const Value& self, const Args&) {
  std::vector<Value> values;
  e.meter().charge(static_cast<int64_t>(self.dict().entries.size()));
  for (const auto& entry : self.dict().entries) values.push_back(entry.second);
  return make_list(e.meter(), std::move(values));
}

Value dict_items(Evaluator& e, const Value& self, const Args&) {
  std::vector<Value> items;
  for (const auto& [k, v] : self.dict().entries) {
    items.push_back(make_list(e.meter(), {k, v}, ListKind::kTuple));
  }
  return make_list(e.meter(), std::move(items));
}

constexpr auto kDictMethods = std::to_array<Method>({
    {"get", dict_get},
    {"keys", dict_keys},
    {"values", dict_values},
    {"items", dict_items},
    {"copy", same},
    {"update", refuse_change},
    {"pop", refuse_change},
    {"popitem", refuse_change},
    {"setdefault", refuse_change},
    {"clear", refuse_change},
});

template <class Table>
const Method* find_row(const Table& table, std::string_view name) {
  for (const Method& m : table) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

}  // namespace

bool find_method(Evaluator& evaluator, const Value& value, std::string_view name, Value& out) {
  const Method* method = nullptr;
  if (value.is_string()) method = find_row(kStringMethods, name);
  if (value.is_list() && value.list().kind != ListKind::kGenerator) {
    method = find_row(kListMethods, name);
  }
  if (value.is_dict()) method = find_row(kDictMethods, name);
  if (method == nullptr) return false;
  evaluator.meter().charge();
  auto bound = std::make_shared<BoundMethod>();
  bound->self = value;
  bound->depth = depth_around(value);
  bound->method = method;
  out = Value::object(Type::kCallable, std::move(bound));
  return true;
}

}  // namespace octavo::chat_template
