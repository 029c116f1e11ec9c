#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// printf-style and brace formatting, and strftime.

namespace octavo::chat_template {
namespace {

constexpr int64_t kMaxWidth = 10'000;  // a prompt has no wider column

/// One conversion: [[fill]align][sign][#][0][width][,][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '=' (after the sign)
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

size_t read_number(std::string_view text, size_t at, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range || out > kMaxWidth) {
    fail("format width or precision is too large");
  }
  return static_cast<size_t>(end - text.data());
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void pad(Meter& meter, StrBuilder& out, const StrObj& body, const Spec& spec, char default_align) {
  const char align = spec.align != '\0' ? spec.align : default_align;
  const int64_t size = static_cast<int64_t>(count_chars(body.text));
  const int64_t missing = std::max<int64_t>(spec.width - size, 0);
  const int64_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  meter.charge(missing / 8);
  size_t sign = 0;
  if (align == '=' && !body.text.empty() && (body.text[0] == '-' || body.text[0] == '+')) sign = 1;
  out.append(body, 0, sign);
  for (int64_t i = 0; i < left; ++i) out.append(spec.fill);
  out.append(body, sign, body.text.size());
  for (int64_t i = left; i < missing; ++i) out.append(spec.fill);
}

std::string group_thousands(std::string digits) {
  size_t end = digits.find_first_of(".e");
  if (end == std::string::npos) end = digits.size();
  const size_t begin = digits[0] == '-' || digits[0] == '+' ? 1 : 0;
  for (size_t at = end; at > begin + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string integer_text(int64_t i, const Spec& spec) {
  const uint64_t size = i < 0 ? 0 - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  std::string text;
  switch (spec.type) {
    case 'x':
      text = fmt::format("{}{:x}", spec.alternate ? "0x" : "", size);
      break;
    case 'X':
      text = fmt::format("{}{:X}", spec.alternate ? "0X" : "", size);
      break;
    case 'o':
      text = fmt::format("{}{:o}", spec.alternate ? "0o" : "", size);
      break;
    case 'b':
      text = fmt::format("{}{:b}", spec.alternate ? "0b" : "", size);
      break;
    default:
      text = std::to_string(size);
  }
  if (i < 0) return text.insert(0, 1, '-');
  if (spec.sign != '-') text.insert(0, 1, spec.sign);
  return text;
}

std::string float_text(double f, const Spec& spec) {
  char type = spec.type;
  const bool percent = type == '%';
  if (percent) {
    f *= 100;
    type = 'f';
  }
  std::string text;
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  if (!std::isfinite(f)) {
    text = float_repr(f);
  } else if (type == 'e' || type == 'E') {
    text = fmt::format("{:.{}e}", f, precision);
  } else if (type == 'g' || type == 'G') {
    text = fmt::format("{:.{}g}", f, std::max(precision, 1));
  } else if (type == 'f' || type == 'F') {
    text = fmt::format("{:.{}f}", f, precision);
  } else {
    text = spec.precision < 0 ? float_repr(f) : fmt::format("{:.{}g}", f, std::max(precision, 1));
  }
  if (percent) text += '%';
  if (text[0] != '-' && spec.sign != '-') text.insert(0, 1, spec.sign);
  return text;
}

void append_number(Meter& meter, StrBuilder& out, const Value& v, const Spec& spec) {
  if (v.is_undefined()) fail(std::string(v.why()));
  if (!v.is_number()) {
    fail(fmt::format("%{} format: a number is required, not {}", spec.type, type_name(v)));
  }
  StrObj body;
  const bool integer_type = std::string_view("dixXob").find(spec.type) != std::string_view::npos;
  if (integer_type && v.is(Type::kFloat)) {
    if (!(std::fabs(v.as_double()) < 9.2e18)) fail("float is too large for an integer format");
    body.text = integer_text(static_cast<int64_t>(v.as_double()), spec);
  } else if (integer_type || (v.is_integral() && spec.type == '\0')) {
    body.text = integer_text(v.as_int(), spec);
  } else {
    body.text = float_text(v.as_double(), spec);
  }
  if (spec.comma) body.text = group_thousands(std::move(body.text));
  pad(meter, out, body, spec, '>');
}

void append_text(Meter& meter, StrBuilder& out, const StrObj& s, const Spec& spec,
                 char default_align) {
  if (spec.precision < 0) return pad(meter, out, s, spec, default_align);
  size_t end = 0;
  for (int64_t i = 0; i < spec.precision && end < s.text.size(); ++i) {
    end += char_size(s.text, end);
  }
  pad(meter, out, substr(meter, s, 0, end).str(), spec, default_align);
}

/// `%` formatting.
class Percent {
 public:
  Percent(Evaluator& e, const Value& values) : meter_(e.meter()), values_(values) {}

  Value run(const StrObj& format) {
    StrBuilder out(meter_);
    const std::string_view text = format.text;
    for (size_t at = 0; at < text.size();) {
      const size_t mark = std::min(text.find('%', at), text.size());
      out.append(format, at, mark);
      at = mark;
      if (at == text.size()) break;
      meter_.charge();
      at = convert(text, at + 1, out);
    }
    const bool tuple = values_.is_list() && values_.list().kind == ListKind::kTuple;
    if (!keyed_ && tuple && used_ < values_.list().items.size()) {
      fail("not all arguments converted during string formatting");
    }
    if (!keyed_ && !tuple && !values_.is_dict() && used_ == 0) {
      fail("not all arguments converted during string formatting");
    }
    return out.take();
  }

 private:
  const Value& next() {
    const bool tuple = values_.is_list() && values_.list().kind == ListKind::kTuple;
    const size_t count = tuple ? values_.list().items.size() : 1;
    if (used_ >= count) fail("not enough arguments for format string");
    const size_t i = used_++;
    return tuple ? values_.list().items[i] : values_;
  }

  size_t convert(std::string_view text, size_t at, StrBuilder& out) {
    const Value* v = nullptr;
    if (at < text.size() && text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == std::string_view::npos) fail("incomplete format key");
      if (!values_.is_dict()) fail("format requires a mapping");
      const std::string_view key = text.substr(at + 1, close - at - 1);
      v = values_.dict().find(key);
      if (v == nullptr) fail(fmt::format("'{}'", key));
      keyed_ = true;
      at = close + 1;
    }
    Spec spec;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '0') {
        spec.fill.assign(1, '0');
      } else if (c == '+' || c == ' ') {
        if (spec.sign != '+') spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    if (at < text.size() && is_digit(text[at])) at = read_number(text, at, spec.width);
    if (at < text.size() && text[at] == '.') {
      spec.precision = 0;
      ++at;
      if (at < text.size() && is_digit(text[at])) at = read_number(text, at, spec.precision);
    }
    if (at >= text.size()) fail("incomplete format");
    spec.type = text[at++];
    if (spec.type == '%') {
      out.append("%");
      return at;
    }
    write(v != nullptr ? *v : next(), spec, out);
    return at;
  }

  void write(const Value& v, Spec spec, StrBuilder& out) {
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      StrBuilder body(meter_);
      if (spec.type == 's') {
        append_str(meter_, body, v);
      } else {
        append_repr(meter_, body, v);
      }
      spec.fill.assign(1, ' ');
      return append_text(meter_, out, body.take().str(), spec, '>');
    }
    if (spec.type == 'c' && v.is_string()) return append_text(meter_, out, v.str(), spec, '>');
    static constexpr std::string_view kNumbers = "diuxXoeEfFgG";
    if (kNumbers.find(spec.type) == std::string_view::npos) {
      fail(fmt::format("unsupported format character '{}'", spec.type));
    }
    if (spec.type == 'u' || spec.type == 'i') spec.type = 'd';
    if (spec.align == '<') spec.fill.assign(1, ' ');
    if (spec.align == '\0' && spec.fill == "0") spec.align = '=';
    append_number(meter_, out, v, spec);
  }

  Meter& meter_;
  const Value& values_;
  size_t used_ = 0;
  bool keyed_ = false;
};

Spec parse_spec(std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t at = 0;
  if (!text.empty()) {
    const size_t first = char_size(text, 0);
    if (first < text.size() && is_align(text[first])) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto take = [&](std::string_view set) {
    return at < text.size() && set.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char c = take("+- ")) spec.sign = c;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0' && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  if (at < text.size() && is_digit(text[at])) at = read_number(text, at, spec.width);
  spec.comma = take(",") != '\0';
  if (take(".") != '\0') {
    if (at >= text.size() || !is_digit(text[at])) fail("Format specifier missing precision");
    at = read_number(text, at, spec.precision);
  }
  spec.type = take("sdbxXoeEfFgG%");
  if (at != text.size()) fail("Invalid format specifier");
  return spec;
}

/// str.format.
class Braces {
 public:
  Braces(Evaluator& e, const Args& args) : e_(e), args_(args) {}

  Value run(const StrObj& format) {
    StrBuilder out(e_.meter());
    const std::string_view text = format.text;
    for (size_t at = 0; at < text.size();) {
      const size_t mark = std::min(text.find_first_of("{}", at), text.size());
      out.append(format, at, mark);
      if (mark == text.size()) break;
      e_.meter().charge();
      if (mark + 1 < text.size() && text[mark + 1] == text[mark]) {
        out.append(format, mark, mark + 1);
        at = mark + 2;
        continue;
      }
      if (text[mark] == '}') fail("Single '}' encountered in format string");
      const size_t close = text.find('}', mark);
      if (close == std::string_view::npos) fail("expected '}' before end of string");
      field(text.substr(mark + 1, close - mark - 1), out);
      at = close + 1;
    }
    return out.take();
  }

 private:
  void field(std::string_view text, StrBuilder& out) {
    if (text.find('{') != std::string_view::npos) fail("nested replacement fields are refused");
    const size_t colon = text.find(':');
    const Spec spec = colon == std::string_view::npos ? Spec{} : parse_spec(text.substr(colon + 1));
    text = text.substr(0, colon);
    char conversion = '\0';
    if (text.size() >= 2 && text[text.size() - 2] == '!') {
      conversion = text.back();
      text.remove_suffix(2);
    }
    const Value v = lookup(text);
    Meter& meter = e_.meter();
    if (conversion == '\0' && v.is_number() && !v.is(Type::kBool)) {
      return append_number(meter, out, v, spec);
    }
    StrBuilder body(meter);
    if (conversion == 'r' || conversion == 'a') {
      append_repr(meter, body, v);
    } else {
      append_str(meter, body, v);
    }
    append_text(meter, out, body.take().str(), spec, '<');
  }

  Value lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, end);
    Value v;
    int64_t index = 0;
    if (first.empty()) {
      v = positional(next_++);
    } else if (is_digit(first[0])) {
      if (read_number(first, 0, index) != first.size()) fail("invalid field name");
      v = positional(index);
    } else {
      v = named(first);
    }
    return walk(v, path.substr(end));
  }
  Value positional(int64_t i) const {
    if (i >= static_cast<int64_t>(args_.positional.size())) {
      fail("Replacement index out of range for positional args tuple");
    }
    return args_.positional[static_cast<size_t>(i)];
  }
  Value named(std::string_view name) const {
    for (const auto& [n, v] : args_.named) {
      if (n == name) return v;
    }
    fail(fmt::format("'{}'", name));
  }
  Value walk(Value v, std::string_view path) {
    while (!path.empty()) {
      e_.meter().charge();
      if (path[0] == '.') {
        const size_t end = std::min(path.find_first_of(".[", 1), path.size());
        v = e_.attribute(v, path.substr(1, end - 1));
        path.remove_prefix(end);
        continue;
      }
      const size_t close = path.find(']');
      if (path[0] != '[' || close == std::string_view::npos) fail("invalid field name");
      const std::string_view key = path.substr(1, close - 1);
      int64_t index = 0;
      const bool number =
          !key.empty() && is_digit(key[0]) && read_number(key, 0, index) == key.size();
      v = e_.item(v, number ? Value::integer(index) : Value::text(std::string(key)));
      path.remove_prefix(close + 1);
    }
    return v;
  }

  Evaluator& e_;
  const Args& args_;
  int64_t next_ = 0;
};

}  // namespace

Value format_percent(Evaluator& evaluator, const StrObj& format, const Value& values) {
  return Percent(evaluator, values).run(format);
}

Value format_braces(Evaluator& evaluator, const StrObj& format, const Args& args) {
  return Braces(evaluator, args).run(format);
}

std::string format_time(double wall_s, std::string_view format) {
  // Years 1970 to 9999: what Python's datetime can hold.
  const double clamped = std::isfinite(wall_s) ? std::clamp(wall_s, 0.0, 253402300799.0) : 0.0;
  const auto seconds = static_cast<std::time_t>(clamped);
  const auto micros = static_cast<int>((clamped - static_cast<double>(seconds)) * 1e6);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  static constexpr std::string_view kDirectives = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out += format[at];
      continue;
    }
    // glibc's flags; its field widths are left alone, they could ask for megabytes.
    const bool flag = at + 2 < format.size() &&
                      std::string_view("-_0^#").find(format[at + 1]) != std::string_view::npos;
    const char directive = format[at + (flag ? 2 : 1)];
    if (directive == 'f') {
      out += fmt::format("{:06}", micros);
    } else if (kDirectives.find(directive) == std::string_view::npos) {
      out += format[at];
      continue;
    } else {
      const std::string one(format.substr(at, flag ? 3 : 2));
      char buffer[128];
      out.append(buffer, std::strftime(buffer, sizeof buffer, one.c_str(), &utc));
    }
    at += flag ? 2 : 1;
  }
  return out;
}

}  // namespace octavo::chat_template
