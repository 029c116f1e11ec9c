#include "config/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "config/json_value.h"

namespace octavo::config {
namespace {

Error invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

template <class T>
std::optional<T> parse_number(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  T value{};
  const char* end = word.data() + word.size();
  const auto [stop, failure] = std::from_chars(word.data(), end, value);
  if (word.empty() || failure != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != text.npos;) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

bool is_unset_word(std::string_view word) { return word == "None" || word.empty(); }

/// `bounds` as in the table: ">=1", ">0 <=1".
bool is_in_bounds(double value, std::string_view bounds) {
  for (const std::string_view bound : split(bounds)) {
    const bool is_closed = bound.size() > 1 && bound[1] == '=';
    const double limit = *parse_number<double>(bound.substr(is_closed ? 2 : 1));
    const bool holds = bound[0] == '>' ? (is_closed ? value >= limit : value > limit)
                                       : (is_closed ? value <= limit : value < limit);
    if (!holds) return false;
  }
  return true;
}

class ValueReader {
 public:
  explicit ValueReader(const Flag& flag) : flag_(flag) {}

  Result<Value> read(const Assignment& use) const {
    Value value;
    if (flag_.takes_bool()) {
      value.boolean = use.boolean;
      value.text = use.boolean ? "True" : "False";
      return value;
    }
    if (flag_.kind == Kind::kList) {
      value.list = use.words;
      value.text = fmt::format("{}", fmt::join(use.words, " "));
      return value;
    }
    value.text = use.words.empty() ? "True" : use.words.front();
    value.is_unset = is_unset_word(value.text) && flag_.default_text == "unset";
    if (value.is_unset) {
      value.text.clear();
      return value;
    }
    return read_one(std::move(value));
  }

 private:
  template <class... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid(fmt::format("argument --{}: {}", flag_.name,
                               fmt::format(format, std::forward<Args>(args)...)));
  }

  Result<Value> read_one(Value value) const {
    switch (flag_.kind) {
      case Kind::kInt: {
        const auto number = parse_number<int64_t>(value.text);
        if (!number) return error("invalid int value: '{}'", value.text);
        value.integer = *number;
        return checked(std::move(value), static_cast<double>(*number));
      }
      case Kind::kLength:
        if (value.text == "auto") {
          value.integer = -1;
          return value;
        }
        [[fallthrough]];
      case Kind::kHumanInt: {
        auto number = parse_human_integer(value.text);
        if (!number.ok()) return error("{}", number.error().message);
        value.integer = *number;
        return checked(std::move(value), static_cast<double>(value.integer));
      }
      case Kind::kFloat: {
        const auto number = parse_number<double>(value.text);
        if (!number || !std::isfinite(*number)) {
          return error("invalid float value: '{}'", value.text);
        }
        value.real = *number;
        return checked(std::move(value), value.real);
      }
      case Kind::kEnum:
        return read_enum(std::move(value));
      case Kind::kJsonList: {
        auto list = parse_json_strings(value.text);
        if (!list.ok()) return error("{}", list.error().message);
        value.list = std::move(list).value();
        return value;
      }
      default:
        return value;
    }
  }

  Result<Value> checked(Value value, double number) const {
    if (!is_in_bounds(number, flag_.extra.bounds)) {
      return error("{} is out of range, allowed is {}", value.text, flag_.extra.bounds);
    }
    return value;
  }

  Result<Value> read_enum(Value value) const {
    const std::vector<std::string_view> choices = split(flag_.extra.choices);
    for (const std::string_view choice : choices) {
      if (fold(choice) != fold(value.text)) continue;
      value.text = choice;
      return value;
    }
    return error("invalid choice: '{}' (choose from {})", value.text, fmt::join(choices, ", "));
  }

  /// Log levels are read in any case; other enums are exact.
  std::string fold(std::string_view word) const {
    std::string folded(word);
    if (flag_.group == Group::kLogging) {
      std::transform(folded.begin(), folded.end(), folded.begin(),
                     [](unsigned char c) { return std::toupper(c); });
    }
    return folded;
  }

  const Flag& flag_;
};

Result<Value> read_json(const Flag& flag, const std::vector<const Assignment*>& uses) {
  JsonValue json;
  Value value;
  value.is_unset = true;
  for (const Assignment* use : uses) {
    const std::string& word = use->words.front();
    if (use->dotted.empty() && is_unset_word(word)) {
      json = JsonValue();
      value.is_unset = true;
      continue;
    }
    const Status status =
        use->dotted.empty() ? json.replace(word) : json.merge(use->dotted, word, use->appends);
    if (!status.ok()) {
      return invalid(fmt::format("argument --{}: {}", flag.name, status.error().message));
    }
    value.is_unset = false;
  }
  if (!value.is_unset) value.text = json.text();
  return value;
}

bool equals_default(const Flag& flag, const Value& value, std::string_view text) {
  if (text == "unset" || text.empty()) return value.is_unset || value.text.empty();
  switch (flag.kind) {
    case Kind::kInt:
    case Kind::kLength:
    case Kind::kHumanInt:
      return parse_number<int64_t>(text) == value.integer;
    case Kind::kFloat:
      return parse_number<double>(text) == value.real;
    case Kind::kJson:
      return value.is_unset || value.text == text;
    default:
      return value.text == text;
  }
}

}  // namespace

Result<int64_t> parse_human_integer(std::string_view word) {
  constexpr std::string_view kSuffixes = "kmgt";
  const char last = word.empty() ? '\0' : word.back();
  const size_t power = kSuffixes.find(static_cast<char>(std::tolower(last)));
  if (last == '\0' || power == std::string_view::npos) {
    const auto plain = parse_number<int64_t>(word);
    if (!plain) return invalid(fmt::format("invalid integer value: '{}'", word));
    return *plain;
  }
  const std::string_view digits = word.substr(0, word.size() - 1);
  if (digits.empty() || digits.find_first_not_of("0123456789.") != std::string_view::npos) {
    return invalid(fmt::format("invalid integer value: '{}'", word));
  }
  const bool is_binary = last < 'a';
  if (is_binary && digits.find('.') != std::string_view::npos) {
    return invalid(
        fmt::format("decimals go with lower-case suffixes only: '{}'; did you mean {}{}?", word,
                    digits, kSuffixes[power]));
  }
  const auto number = parse_number<long double>(digits);
  if (!number) return invalid(fmt::format("invalid integer value: '{}'", word));
  long double scaled = *number;
  for (size_t i = 0; i <= power; ++i) scaled *= is_binary ? 1024 : 1000;
  // 2^63 is exact in a long double; NaN cannot come from digits.
  if (scaled >= 0x1p63L) return invalid(fmt::format("'{}' does not fit 64 bits", word));
  return static_cast<int64_t>(std::llround(scaled));
}

Result<Value> read_value(const Flag& flag, const std::vector<const Assignment*>& uses) {
  if (flag.kind == Kind::kJson) return read_json(flag, uses);
  if (flag.kind == Kind::kRepeat) {
    Value value;
    for (const Assignment* use : uses) value.list.push_back(use->words.front());
    value.text = fmt::format("{}", fmt::join(value.list, " "));
    return value;
  }
  return ValueReader(flag).read(*uses.back());
}

bool is_neutral(const Flag& flag, const Value& value) {
  if (flag.takes_bool()) return value.boolean == (flag.default_text == "True");
  if (flag.kind == Kind::kList || flag.kind == Kind::kRepeat) return value.list.empty();
  // An empty object sets nothing.
  if (flag.kind == Kind::kJson && value.text == "{}") return true;
  if (equals_default(flag, value, flag.default_text)) return true;
  for (const std::string_view text : split(flag.extra.neutral)) {
    if (equals_default(flag, value, text)) return true;
  }
  return false;
}

std::string python_text(std::string_view text) {
  const char quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    c == '\n' ? out += "\\n" : out += c;
  }
  return out + quote;
}

}  // namespace octavo::config
