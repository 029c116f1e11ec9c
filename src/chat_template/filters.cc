#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// Filters on single values. Those on sequences are in filters_sequence.cc.

namespace octavo::chat_template {
namespace {

template <Case how>
Value filter_case(Evaluator& e, const Value& v, const Args&) {
  return change_case(e.meter(), to_str(e.meter(), v).str(), how);
}

bool starts_word_behind(int32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/// Jinja's title: words begin behind spaces and opening brackets only, unlike str.title.
Value filter_title(Evaluator& e, const Value& v, const Args&) {
  const Value text = to_str(e.meter(), v);
  const StrObj& s = text.str();
  StrBuilder out(e.meter());
  size_t begin = 0;
  for (size_t at = 0, size = 1; at <= s.text.size(); at += size) {
    const bool end = at == s.text.size();
    size = 1;
    if (!end && !starts_word_behind(decode_char(s.text, at, size))) continue;
    if (at > begin) {
      const size_t first = begin + char_size(s.text, begin);
      out.append(
          change_case(e.meter(), substr(e.meter(), s, begin, first).str(), Case::kUpper).str());
      out.append(change_case(e.meter(), substr(e.meter(), s, first, at).str(), Case::kLower).str());
    }
    if (!end) out.append(s, at, at + size);
    begin = at + size;
  }
  return out.take();
}

Value filter_trim(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("trim", args, {"chars"});
  const Value text = to_str(e.meter(), v);
  const StrObj* chars = b.string(0);
  std::string_view set;
  if (chars != nullptr) set = chars->text;
  e.meter().charge_bytes(text.str().text.size());
  const Span kept = strip_range(text.str().text, chars ? &set : nullptr, true, true);
  return substr(e.meter(), text.str(), kept.begin, kept.end);
}

Value filter_replace(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("replace", args, {"old", "new", "count"});
  const Value from = to_str(e.meter(), b.get(0));
  const Value to = to_str(e.meter(), b.get(1));
  const int64_t count = b.has(2) && !b.get(2).is_none() ? b.integer(2, -1) : -1;
  return replace(e.meter(), to_str(e.meter(), v).str(), from.str().text, to.str(), count);
}

Value filter_default(Evaluator&, const Value& v, const Args& args) {
  const Bound b("default", args, {"default_value", "boolean"});
  if (v.is_undefined() || (b.boolean(1, false) && !truthy(v))) {
    return b.has(0) ? b.get(0) : Value::text("");
  }
  return v;
}

Value filter_string(Evaluator& e, const Value& v, const Args&) { return to_str(e.meter(), v); }
Value filter_escape(Evaluator& e, const Value& v, const Args&) {
  return escape_html(e.meter(), to_str(e.meter(), v).str());
}

/// int(text, base) and float(text) with Python's spaces and underscores.
std::string plain_number(std::string_view text) {
  const Span kept = strip_range(text, nullptr, true, true);
  std::string digits;
  for (const char c : text.substr(kept.begin, kept.end - kept.begin)) {
    if (c != '_') digits += c;
  }
  if (!digits.empty() && digits[0] == '+') digits.erase(0, 1);
  return digits;
}
bool parse_int(std::string_view text, int base, int64_t& out) {
  std::string digits = plain_number(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  const size_t sign = negative ? 1 : 0;
  if (digits.size() > sign + 2 && digits[sign] == '0') {
    const char kind = static_cast<char>(digits[sign + 1] | 0x20);
    if ((base == 16 && kind == 'x') || (base == 8 && kind == 'o') || (base == 2 && kind == 'b')) {
      digits.erase(sign, 2);
    }
  }
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, out, base);
  return error == std::errc{} && stop == end && !digits.empty();
}
bool parse_double(std::string_view text, double& out) {
  const std::string digits = plain_number(text);
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, out);
  return error == std::errc{} && stop == end && !digits.empty();
}
bool fits_int(double f) { return std::isfinite(f) && f > -9.2e18 && f < 9.2e18; }

Value filter_int(Evaluator&, const Value& v, const Args& args) {
  const Bound b("int", args, {"default", "base"});
  const Value otherwise = b.has(0) ? b.get(0) : Value::integer(0);
  if (v.is_integral()) return Value::integer(v.as_int());
  if (v.is(Type::kFloat)) {
    return fits_int(v.as_double()) ? Value::integer(static_cast<int64_t>(v.as_double()))
                                   : otherwise;
  }
  if (!v.is_string()) return otherwise;
  const int64_t base = b.integer(1, 10);
  if (base < 2 || base > 36) return otherwise;
  int64_t i = 0;
  if (parse_int(v.str().text, static_cast<int>(base), i)) return Value::integer(i);
  double f = 0;
  if (parse_double(v.str().text, f) && fits_int(f)) return Value::integer(static_cast<int64_t>(f));
  return otherwise;
}

Value filter_float(Evaluator&, const Value& v, const Args& args) {
  const Bound b("float", args, {"default"});
  if (v.is_number()) return Value::floating(v.as_double());
  double f = 0;
  if (v.is_string() && parse_double(v.str().text, f)) return Value::floating(f);
  return b.has(0) ? b.get(0) : Value::floating(0.0);
}

Value filter_abs(Evaluator& e, const Value& v, const Args&) {
  if (v.is(Type::kFloat)) return Value::floating(std::fabs(v.as_double()));
  if (v.is_integral()) {
    return v.as_int() < 0 ? arithmetic(e, Op::kSub, Value::integer(0), v) : v;
  }
  if (v.is_undefined()) fail(std::string(v.why()));
  fail(fmt::format("bad operand type for abs(): '{}'", type_name(v)));
}

Value filter_round(Evaluator&, const Value& v, const Args& args) {
  const Bound b("round", args, {"precision", "method"});
  if (v.is_undefined()) fail(std::string(v.why()));
  if (!v.is_number()) fail(fmt::format("type {} has no rounding", type_name(v)));
  const int64_t precision = b.integer(0, 0);
  if (precision < -300 || precision > 300) fail("round(): precision is out of range");
  const StrObj* method = b.string(1);
  const std::string_view how = method != nullptr ? std::string_view(method->text) : "common";
  const double x = v.as_double();
  if (how == "common") {
    if (v.is_integral() && precision >= 0) return Value::integer(v.as_int());
    // Python rounds the decimal value correctly, which is what printing with that precision does.
    double rounded = 0;
    if (precision >= 0) {
      const std::string text = fmt::format("{:.{}f}", x, precision);
      std::from_chars(text.data(), text.data() + text.size(), rounded);
    } else {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      rounded = std::nearbyint(x / unit) * unit;
    }
    return v.is_integral() ? Value::integer(static_cast<int64_t>(rounded))
                           : Value::floating(rounded);
  }
  if (how != "ceil" && how != "floor") fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value::floating((how == "ceil" ? std::ceil(x * unit) : std::floor(x * unit)) / unit);
}

Value filter_wordcount(Evaluator& e, const Value& v, const Args&) {
  const Value text = to_str(e.meter(), v);
  e.meter().charge_bytes(text.str().text.size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0, size = 1; at < text.str().text.size(); at += size) {
    const int32_t c = decode_char(text.str().text, at, size);
    const bool word =
        !is_space(c) && (all_alnum(std::string_view(text.str().text).substr(at, size)) || c == '_');
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

Value filter_indent(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("indent", args, {"width", "first", "blank"});
  StrObj indent;
  if (b.has(0) && b.get(0).is_string()) {
    indent = b.get(0).str();
  } else {
    indent = repeat_char(e.meter(), ' ', b.integer(0, 4));
  }
  const bool blank = b.boolean(2, false);
  StrBuilder with_end(e.meter());
  append_str(e.meter(), with_end, v);
  with_end.append("\n");  // so that a last empty line counts as a line
  const auto lines = splitlines(e.meter(), with_end.take().str(), false);
  StrBuilder out(e.meter());
  for (size_t i = 0; i < lines.size(); ++i) {
    const StrObj& line = lines[i].str();
    if (i > 0) out.append("\n");
    const bool indented = i == 0 ? b.boolean(1, false) : blank || !line.text.empty();
    if (indented) out.append(indent);
    out.append(line);
  }
  return out.take();
}

Value filter_truncate(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("truncate", args, {"length", "killwords", "end", "leeway"});
  const Value text = to_str(e.meter(), v);
  const StrObj& s = text.str();
  const int64_t limit = b.integer(0, 255);
  const StrObj dots = repeat_char(e.meter(), '.', 3);
  const StrObj& end = b.string(2) != nullptr ? *b.string(2) : dots;
  const auto end_size = static_cast<int64_t>(count_chars(end.text));
  const int64_t leeway = b.has(3) && !b.get(3).is_none() ? b.integer(3, 5) : 5;
  if (limit < end_size) fail(fmt::format("expected length >= {}, got {}", end_size, limit));
  if (leeway < 0) fail(fmt::format("expected leeway >= 0, got {}", leeway));
  const int64_t size = length(e.meter(), text);
  if (size - leeway <= limit) return text;
  size_t cut = 0;
  for (int64_t i = 0; i < limit - end_size; ++i) cut += char_size(s.text, cut);
  if (!b.boolean(1, false)) {
    const size_t space = std::string_view(s.text).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  StrBuilder out(e.meter());
  out.append(s, 0, cut);
  out.append(end);
  return out.take();
}

Value filter_format(Evaluator& e, const Value& v, const Args& args) {
  const Value format = to_str(e.meter(), v);
  if (!args.named.empty()) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, value] : args.named) entries.emplace_back(Value::text(name), value);
    return format_percent(e, format.str(), make_dict(e.meter(), std::move(entries)));
  }
  return format_percent(e, format.str(), make_list(e.meter(), args.positional, ListKind::kTuple));
}

Value filter_center(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("center", args, {"width"});
  Value method;
  find_method(e, to_str(e.meter(), v), "center", method);
  Args forwarded;
  forwarded.positional.push_back(Value::integer(b.integer(0, 80)));
  return e.call(method, forwarded);
}

Value filter_attr(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("attr", args, {"name"});
  // Unlike `.`, it does not look at the keys of a dict.
  if (v.is_dict()) {
    Value method;
    if (find_method(e, v, b.required_string(0).text, method)) return method;
    return Value::undefined("'dict object' has no such attribute");
  }
  return e.attribute(v, b.required_string(0).text);
}

Value filter_urlencode(Evaluator& e, const Value& v, const Args&) {
  static constexpr std::string_view kSafe = "_.-~/";
  const Value text = to_str(e.meter(), v);
  StrBuilder out(e.meter());
  for_each_run(text.str(), [&](std::string_view run, bool untrusted) {
    std::string encoded;
    for (const char c : run) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || kSafe.find(c) != std::string_view::npos;
      encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    out.append(encoded, untrusted);
  });
  return out.take();
}

struct Row {
  std::string_view name;
  FilterFn fn;
};
constexpr auto kFilters = std::to_array<Row>({
    {"upper", filter_case<Case::kUpper>},
    {"lower", filter_case<Case::kLower>},
    {"capitalize", filter_case<Case::kCapitalize>},
    {"title", filter_title},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"default", filter_default},
    {"d", filter_default},
    {"string", filter_string},
    {"safe", filter_string},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_escape},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
    {"wordcount", filter_wordcount},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"format", filter_format},
    {"center", filter_center},
    {"attr", filter_attr},
    {"urlencode", filter_urlencode},
    {"tojson", filter_tojson},
});

}  // namespace

FilterFn find_filter(std::string_view name) {
  for (const Row& row : kFilters) {
    if (row.name == name) return row.fn;
  }
  if (const FilterFn fn = find_sequence_filter(name)) return fn;
  return find_layout_filter(name);
}

}  // namespace octavo::chat_template
