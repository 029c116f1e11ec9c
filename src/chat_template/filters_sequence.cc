#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// Filters over lists and other iterables.

namespace octavo::chat_template {

Value resolve_path(Evaluator& evaluator, const Value& value, const Value& path) {
  if (!path.is_string()) return evaluator.item(value, path);
  Value v = value;
  std::string_view rest = path.str().text;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc{} && end == part.data() + part.size() && part[0] != '-';
    v = evaluator.item(v, number ? Value::integer(index) : Value::text(std::string(part)));
    if (dot == std::string_view::npos) return v;
    rest.remove_prefix(dot + 1);
  }
}

namespace {

Value lower_if_text(Evaluator& e, const Value& v) {
  return v.is_string() ? change_case(e.meter(), v.str(), Case::kLower) : v;
}

/// How sort, unique, min and max look at an item.
struct KeyOf {
  Evaluator& e;
  const Value* path = nullptr;  // attribute
  bool case_sensitive = false;
  Value operator()(const Value& item) const {
    Value v = path != nullptr ? resolve_path(e, item, *path) : item;
    return case_sensitive ? v : lower_if_text(e, v);
  }
};
const Value* path_argument(const Bound& b, size_t i) {
  return b.has(i) && !b.get(i).is_none() ? &b.get(i) : nullptr;
}

Value filter_length(Evaluator& e, const Value& v, const Args&) {
  return Value::integer(length(e.meter(), v));
}

Value filter_first(Evaluator& e, const Value& v, const Args&) {
  if (v.is_string()) {
    Value out;
    if (char_at(e.meter(), v.str(), 0, out)) return out;
  }
  if (v.is_list() && !v.list().items.empty()) return v.list().items[0];
  const auto items = iterate(e.meter(), v);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items[0];
}

Value filter_last(Evaluator& e, const Value& v, const Args&) {
  if (v.is_string()) {
    Value out;
    if (char_at(e.meter(), v.str(), -1, out)) return out;
  }
  if (v.is_list() && !v.list().items.empty()) return v.list().items.back();
  const auto items = iterate(e.meter(), v);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_list(Evaluator& e, const Value& v, const Args&) {
  return make_list(e.meter(), iterate(e.meter(), v));
}

Value filter_join(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("join", args, {"d", "attribute"});
  const Value separator = b.has(0) ? to_str(e.meter(), b.get(0)) : Value::text("");
  const Value* path = path_argument(b, 1);
  StrBuilder out(e.meter());
  bool first = true;
  for (const Value& item : iterate(e.meter(), v)) {
    if (!first) out.append(separator.str());
    first = false;
    append_str(e.meter(), out, path != nullptr ? resolve_path(e, item, *path) : item);
  }
  return out.take();
}

Value filter_reverse(Evaluator& e, const Value& v, const Args&) {
  auto items = iterate(e.meter(), v);
  std::reverse(items.begin(), items.end());
  if (!v.is_string()) return make_list(e.meter(), std::move(items), ListKind::kGenerator);
  StrBuilder out(e.meter());
  for (const Value& c : items) out.append(c.str());
  return out.take();
}

Value filter_items(Evaluator& e, const Value& v, const Args&) {
  if (v.is_undefined()) return make_list(e.meter(), {}, ListKind::kGenerator);
  if (!v.is_dict()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const auto& [key, value] : v.dict().entries) {
    items.push_back(make_list(e.meter(), {key, value}, ListKind::kTuple));
  }
  return make_list(e.meter(), std::move(items), ListKind::kGenerator);
}

void sort_values(Evaluator& e, std::vector<Value>& items, const KeyOf& key, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : items) {
    Value k = key(v);
    keyed.emplace_back(std::move(k), std::move(v));
  }
  // std::stable_sort tolerates any comparator, as long as it gives an answer.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(e.meter(), b.first, a.first) : less(e.meter(), a.first, b.first);
  });
  for (size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

Value filter_sort(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("sort", args, {"reverse", "case_sensitive", "attribute"});
  auto items = iterate(e.meter(), v);
  sort_values(e, items, {e, path_argument(b, 2), b.boolean(1, false)}, b.boolean(0, false));
  return make_list(e.meter(), std::move(items));
}

Value filter_dictsort(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (!v.is_dict()) fail("dictsort needs a mapping");
  const StrObj* by = b.string(1);
  const bool by_value = by != nullptr && by->text == "value";
  if (by != nullptr && !by_value && by->text != "key") {
    fail("You can only sort by either \"key\" or \"value\"");
  }
  Value pairs = filter_items(e, v, {});
  auto items = iterate(e.meter(), pairs);
  const Value path = Value::integer(by_value ? 1 : 0);
  sort_values(e, items, {e, &path, b.boolean(0, false)}, b.boolean(2, false));
  return make_list(e.meter(), std::move(items));
}

Value filter_unique(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("unique", args, {"case_sensitive", "attribute"});
  const KeyOf key{e, path_argument(b, 1), b.boolean(0, false)};
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (Value& item : iterate(e.meter(), v)) {
    Value k = key(item);
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& s) { return equals(e.meter(), s, k); });
    if (known) continue;
    seen.push_back(std::move(k));
    kept.push_back(std::move(item));
  }
  return make_list(e.meter(), std::move(kept), ListKind::kGenerator);
}

template <bool max>
Value filter_extreme(Evaluator& e, const Value& v, const Args& args) {
  const Bound b(max ? "max" : "min", args, {"case_sensitive", "attribute"});
  const KeyOf key{e, path_argument(b, 1), b.boolean(0, false)};
  const auto items = iterate(e.meter(), v);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value k = key(items[i]);
    if (!(max ? less(e.meter(), best_key, k) : less(e.meter(), k, best_key))) continue;
    best = i;
    best_key = std::move(k);
  }
  return items[best];
}

Value filter_sum(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("sum", args, {"attribute", "start"});
  const Value* path = path_argument(b, 0);
  Value total = b.has(1) ? b.get(1) : Value::integer(0);
  for (const Value& item : iterate(e.meter(), v)) {
    total = arithmetic(e, Op::kAdd, total, path != nullptr ? resolve_path(e, item, *path) : item);
  }
  return total;
}

Value filter_batch(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("batch", args, {"linecount", "fill_with"});
  const int64_t size = b.integer(0, 0);
  b.get(0);
  if (size <= 0) fail("batch(): linecount must be positive");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : iterate(e.meter(), v)) {
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(make_list(e.meter(), std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    while (b.has(1) && !b.get(1).is_none() && static_cast<int64_t>(row.size()) < size) {
      e.meter().charge();
      row.push_back(b.get(1));
    }
    rows.push_back(make_list(e.meter(), std::move(row)));
  }
  return make_list(e.meter(), std::move(rows), ListKind::kGenerator);
}

Value filter_slice(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("slice", args, {"slices", "fill_with"});
  const int64_t slices = b.integer(0, 0);
  b.get(0);
  if (slices <= 0) fail("slice(): slices must be positive");
  const auto items = iterate(e.meter(), v);
  const auto count = static_cast<int64_t>(items.size());
  const int64_t per = count / slices;
  const int64_t with_extra = count % slices;
  std::vector<Value> rows;
  size_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    e.meter().charge();
    std::vector<Value> row;
    for (int64_t k = 0; k < per + (i < with_extra ? 1 : 0); ++k) row.push_back(items[at++]);
    if (b.has(1) && !b.get(1).is_none() && i >= with_extra) row.push_back(b.get(1));
    rows.push_back(make_list(e.meter(), std::move(row)));
  }
  return make_list(e.meter(), std::move(rows), ListKind::kGenerator);
}

Value filter_groupby(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("groupby", args, {"attribute", "default", "case_sensitive"});
  const Value& path = b.get(0);
  auto items = iterate(e.meter(), v);
  const KeyOf key{e, &path, b.boolean(2, false)};
  sort_values(e, items, key, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    const Value k = key(items[i]);
    const Value shown = resolve_path(e, items[i], path);
    std::vector<Value> group;
    while (i < items.size() && equals(e.meter(), key(items[i]), k)) group.push_back(items[i++]);
    Value list = make_list(e.meter(), std::move(group));
    groups.push_back(make_list(e.meter(), {shown, std::move(list)}, ListKind::kTuple));
  }
  return make_list(e.meter(), std::move(groups));
}

/// Arguments from the `from`-th on.
Args rest_of(const Args& args, size_t from) {
  Args rest;
  for (size_t i = from; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  rest.named = args.named;
  return rest;
}

Value filter_map(Evaluator& e, const Value& v, const Args& args) {
  std::vector<Value> out;
  const auto items = iterate(e.meter(), v);
  if (args.positional.empty()) {
    const Bound b("map", args, {"attribute", "default"});
    if (!b.has(0)) fail("map requires a filter argument");
    for (const Value& item : items) {
      Value mapped = resolve_path(e, item, b.get(0));
      if (mapped.is_undefined() && b.has(1)) mapped = b.get(1);
      out.push_back(std::move(mapped));
    }
    return make_list(e.meter(), std::move(out), ListKind::kGenerator);
  }
  const Value& name = args.positional[0];
  const FilterFn filter = name.is_string() ? find_filter(name.str().text) : nullptr;
  if (filter == nullptr) {
    fail(fmt::format("No filter named '{}'.", to_str(e.meter(), name).str().text));
  }
  const Args rest = rest_of(args, 1);
  for (const Value& item : items) {
    e.meter().charge();
    out.push_back(filter(e, item, rest));
  }
  return make_list(e.meter(), std::move(out), ListKind::kGenerator);
}

template <bool by_attribute, bool wanted>
Value filter_select(Evaluator& e, const Value& v, const Args& args) {
  size_t used = 0;
  const Value* path = nullptr;
  if (by_attribute) {
    if (args.positional.empty()) fail("Missing parameter for attribute name");
    path = &args.positional[used++];
  }
  TestFn test = nullptr;
  if (args.positional.size() > used) {
    const Value name = to_str(e.meter(), args.positional[used++]);
    test = find_test(name.str().text);
    if (test == nullptr) fail(fmt::format("No test named '{}'.", name.str().text));
  }
  const Args rest = rest_of(args, used);
  std::vector<Value> kept;
  for (Value& item : iterate(e.meter(), v)) {
    e.meter().charge();
    const Value looked_at = path != nullptr ? resolve_path(e, item, *path) : item;
    const bool holds = test != nullptr ? test(e, looked_at, rest) : truthy(looked_at);
    if (holds == wanted) kept.push_back(std::move(item));
  }
  return make_list(e.meter(), std::move(kept), ListKind::kGenerator);
}

struct Row {
  std::string_view name;
  FilterFn fn;
};
constexpr auto kFilters = std::to_array<Row>({
    {"length", filter_length},
    {"count", filter_length},
    {"first", filter_first},
    {"last", filter_last},
    {"list", filter_list},
    {"join", filter_join},
    {"reverse", filter_reverse},
    {"items", filter_items},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"unique", filter_unique},
    {"min", filter_extreme<false>},
    {"max", filter_extreme<true>},
    {"sum", filter_sum},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"groupby", filter_groupby},
    {"map", filter_map},
    {"select", filter_select<false, true>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<true, false>},
});

}  // namespace

FilterFn find_sequence_filter(std::string_view name) {
  for (const Row& row : kFilters) {
    if (row.name == name) return row.fn;
  }
  return nullptr;
}

}  // namespace octavo::chat_template
