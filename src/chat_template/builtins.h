#pragma once

#include <string_view>

#include "chat_template/ast.h"
#include "chat_template/evaluator.h"

// What a template can call: filters, tests, methods of values, global functions. Each is a row of
// a table in its own file.

namespace octavo::chat_template {

/// Null when there is none of that name.
FilterFn find_filter(std::string_view name);
/// Filters over sequences (filters_sequence.cc).
FilterFn find_sequence_filter(std::string_view name);
/// Filters that lay text out (filters_layout.cc).
FilterFn find_layout_filter(std::string_view name);
TestFn find_test(std::string_view name);

/// value.name(...) of a string, list or dict as a callable value; false when there is none.
bool find_method(Evaluator& evaluator, const Value& value, std::string_view name, Value& out);
/// A global function; undefined when there is none.
Value find_global(std::string_view name);

/// Text of Python's json.dumps(value, ensure_ascii=False, ...).
struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  StrObj indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
Value to_json(Evaluator& evaluator, const Value& value, const JsonStyle& style);
Value filter_tojson(Evaluator& evaluator, const Value& value, const Args& args);

/// `format % values`, as Python does it.
Value format_percent(Evaluator& evaluator, const StrObj& format, const Value& values);
/// format.format(...).
Value format_braces(Evaluator& evaluator, const StrObj& format, const Args& args);
/// datetime.strftime of a UTC time.
std::string format_time(double wall_s, std::string_view format);

/// A list value's items or what iterating yields, after resolving `attribute` ("a.b.0") on each.
Value resolve_path(Evaluator& evaluator, const Value& value, const Value& path);

}  // namespace octavo::chat_template
