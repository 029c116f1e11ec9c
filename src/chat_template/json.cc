#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// Python's json.dumps.

namespace octavo::chat_template {
namespace {

class Writer {
 public:
  Writer(Evaluator& e, const JsonStyle& style) : meter_(e.meter()), style_(style), out_(meter_) {}
  Value run(const Value& v) {
    write(v, 0);
    return out_.take();
  }

 private:
  void write(const Value& v, int level) {
    meter_.charge();
    switch (v.type()) {
      case Type::kNone:
        return out_.append("null");
      case Type::kBool:
        return out_.append(v.as_bool() ? "true" : "false");
      case Type::kInt:
        return out_.append(std::to_string(v.as_int()));
      case Type::kFloat:
        return out_.append(number(v.as_double()));
      case Type::kString:
        return write_string(v.str());
      case Type::kList:
        if (v.list().kind == ListKind::kGenerator) break;
        return write_list(v.list(), level);
      case Type::kDict:
        return write_dict(v.dict(), level);
      default:
        break;
    }
    fail(fmt::format("Object of type {} is not JSON serializable", type_name(v)));
  }

  static std::string number(double f) {
    if (std::isnan(f)) return "NaN";
    if (std::isinf(f)) return f < 0 ? "-Infinity" : "Infinity";
    return float_repr(f);
  }

  void write_string(const StrObj& s) {
    out_.append("\"");
    for_each_run(s, [&](std::string_view run, bool untrusted) {
      std::string escaped;
      escaped.reserve(run.size());
      for (size_t at = 0, size = 1; at < run.size(); at += size) {
        append_char(escaped, run, at, size);
      }
      out_.append(escaped, untrusted);
    });
    out_.append("\"");
  }

  void append_char(std::string& out, std::string_view run, size_t at, size_t& size) const {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    const int32_t c = decode_char(run, at, size);
    if (c >= 0 && c < 0x80) {
      if (const size_t i = kFrom.find(static_cast<char>(c)); i != std::string_view::npos) {
        out += '\\';
        out += kTo[i];
        return;
      }
    }
    if (c >= 0 && c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c < 0x80 || !style_.ensure_ascii) {
      out.append(run.substr(at, size));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                         0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }

  void new_line(int level) {
    if (!style_.indented) return;
    out_.append("\n");
    for (int i = 0; i < level; ++i) out_.append(style_.indent);
  }

  void write_list(const ListObj& list, int level) {
    if (list.items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      write(list.items[i], level + 1);
    }
    new_line(level);
    out_.append("]");
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.str());
    if (key.is_list()) fail("keys must be str, int, float, bool or None, not tuple");
    out_.append("\"");
    write(key, 0);
    out_.append("\"");
  }

  void write_dict(const DictObj& dict, int level) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return less(meter_, a->first, b->first);
      });
    }
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      write_key(entries[i]->first);
      out_.append(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    out_.append("}");
  }

  Meter& meter_;
  const JsonStyle& style_;
  StrBuilder out_;
};

}  // namespace

Value to_json(Evaluator& evaluator, const Value& value, const JsonStyle& style) {
  return Writer(evaluator, style).run(value);
}

Value filter_tojson(Evaluator& evaluator, const Value& value, const Args& args) {
  const Bound b("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = b.boolean(0, false);
  if (b.has(1) && !b.get(1).is_none()) {
    style.indented = true;
    style.item_separator.assign(1, ',');
    if (b.get(1).is_string()) {
      style.indent = b.get(1).str();
    } else {
      style.indent = repeat_char(evaluator.meter(), ' ', b.integer(1, 0));
    }
  }
  if (b.has(2) && !b.get(2).is_none()) {
    const auto pair = iterate(evaluator.meter(), b.get(2));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      fail("tojson(): separators must be two strings");
    }
    style.item_separator = pair[0].str().text;
    style.key_separator = pair[1].str().text;
  }
  style.sort_keys = b.boolean(3, false);
  return to_json(evaluator, value, style);
}

}  // namespace octavo::chat_template
