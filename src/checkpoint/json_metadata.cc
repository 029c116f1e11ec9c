#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <limits>

#include "checkpoint/metadata.h"
#include "checkpoint/quote.h"

namespace octavo::checkpoint {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr int kMaxDepth = 128;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Skips the digits at `i`; false when there is none.
bool skip_digits(std::string_view token, size_t& i) {
  const size_t first = i;
  while (i < token.size() && is_digit(token[i])) ++i;
  return i > first;
}

/// RFC 8259 section 6: number = [ minus ] int [ frac ] [ exp ].
bool is_json_number(std::string_view token, bool& is_integer) {
  size_t i = token.starts_with('-') ? 1 : 0;
  const bool leading_zero = i < token.size() && token[i] == '0';
  const size_t first = i;
  if (!skip_digits(token, i) || (leading_zero && i - first > 1)) return false;
  is_integer = i == token.size();
  if (i < token.size() && token[i] == '.') {
    ++i;
    if (!skip_digits(token, i)) return false;
  }
  if (i < token.size() && (token[i] == 'e' || token[i] == 'E')) {
    ++i;
    if (i < token.size() && (token[i] == '+' || token[i] == '-')) ++i;
    if (!skip_digits(token, i)) return false;
  }
  return i == token.size();
}

class Reader {
 public:
  Reader(std::string_view what, const char* text) : what_(what), text_(text) {}

  // Recursion ends at kMaxDepth, so outside input cannot exhaust the stack.
  Result<Metadata> read(ondemand::value value, int depth) {
    const std::string_view token = value.raw_json_token();
    if (token.empty()) return broken(text_, "unexpected end");
    switch (token.front()) {
      case '{':
        return read_object(value, token.data(), depth + 1);
      case '[':
        return read_array(value, token.data(), depth + 1);
      case '"': {
        std::string_view text;
        if (value.get_string().get(text)) return broken(token.data(), "malformed string");
        return Metadata(std::string(text));
      }
      default:
        return read_scalar(token);
    }
  }

  Error broken(const char* at, std::string_view why) const {
    return {Code::kInvalidArgument,
            fmt::format("{}: invalid JSON at byte {}: {}", what_, at - text_, why)};
  }

 private:
  Result<Metadata> read_object(ondemand::value value, const char* at, int depth) {
    if (depth > kMaxDepth) return too_deep(at);
    ondemand::object object;
    if (const auto failure = value.get_object().get(object)) return broken(at, message(failure));
    auto members = std::make_shared<MetadataObject>();
    for (auto item : object) {
      ondemand::field field;
      std::string_view unescaped;
      if (const auto failure = std::move(item).get(field)) return broken(at, message(failure));
      const char* key_at = field.key().raw() - 1;
      if (field.unescaped_key().get(unescaped)) return broken(key_at, "malformed key");
      std::string key(unescaped);
      OCTAVO_TRY(Metadata member, read(field.value(), depth));
      const auto [it, is_new] = members->try_emplace(std::move(key), std::move(member));
      if (!is_new) return broken(key_at, fmt::format("duplicate key {}", quote(it->first)));
      at = key_at;
    }
    return Metadata(std::move(members));
  }

  Result<Metadata> read_array(ondemand::value value, const char* at, int depth) {
    if (depth > kMaxDepth) return too_deep(at);
    ondemand::array array;
    if (const auto failure = value.get_array().get(array)) return broken(at, message(failure));
    auto elements = std::make_shared<MetadataArray>();
    for (auto item : array) {
      ondemand::value element;
      if (const auto failure = std::move(item).get(element)) return broken(at, message(failure));
      at = element.raw_json_token().data();
      OCTAVO_TRY(Metadata read_element, read(element, depth));
      elements->push_back(std::move(read_element));
    }
    return Metadata(std::move(elements));
  }

  /// Literals and numbers from their own text: an integer beyond 64 bits becomes a double instead
  /// of an error (model_max_length is often 10^30), and Python's Infinity and NaN are read, since
  /// published configs hold them.
  Result<Metadata> read_scalar(std::string_view token) {
    const char* at = token.data();
    token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
    if (token == "null") return Metadata();
    if (token == "true") return Metadata(true);
    if (token == "false") return Metadata(false);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (token == "Infinity") return Metadata(kInfinity);
    if (token == "-Infinity") return Metadata(-kInfinity);
    if (token == "NaN") return Metadata(std::numeric_limits<double>::quiet_NaN());
    bool is_integer = false;
    if (!is_json_number(token, is_integer))
      return broken(at, fmt::format("unexpected {}", quote(token)));
    const char* end = token.data() + token.size();
    int64_t integer = 0;
    if (is_integer && std::from_chars(token.data(), end, integer).ec == std::errc()) {
      return Metadata(integer);
    }
    double real = 0;
    if (std::from_chars(token.data(), end, real).ec != std::errc()) {
      return broken(at, fmt::format("number {} is out of range", quote(token)));
    }
    return Metadata(real);
  }

  Error too_deep(const char* at) const {
    return broken(at, fmt::format("nested deeper than {} levels", kMaxDepth));
  }
  static std::string_view message(simdjson::error_code code) {
    return simdjson::error_message(code);
  }

  std::string_view what_;
  const char* text_;
};

}  // namespace

Result<Metadata> parse_json_metadata(std::string_view text, std::string_view what) {
  if (text.size() > kMaxTextBytes) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {} bytes of JSON, at most {} are read",
                                                     what, text.size(), kMaxTextBytes)};
  }
  const simdjson::padded_string padded(text);
  Reader reader(what, padded.data());
  ondemand::parser parser;
  ondemand::document document;
  if (const auto failure = parser.iterate(padded).get(document)) {
    return reader.broken(padded.data(), simdjson::error_message(failure));
  }
  ondemand::value root;
  if (document.get_value().get(root)) {
    return reader.broken(padded.data(), "the document is neither an object nor an array");
  }
  OCTAVO_TRY(Metadata value, reader.read(root, 0));
  const char* rest = nullptr;
  if (document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS) {
    return reader.broken(rest, "text after the end of the document");
  }
  return value;
}

}  // namespace octavo::checkpoint
