#include "chat_template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "chat_template/text.h"
#include "chat_template/value.h"

namespace octavo::chat_template {
namespace {

constexpr auto npos = std::string_view::npos;

/// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 25> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (pos_ < rest_.size()) {
      const size_t tag = find_tag();
      if (tag == npos) {
        add_text(rest_.substr(pos_));
        pos_ = rest_.size();
        break;
      }
      read_tag(tag);
    }
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string message) {
    throw Failure{std::move(message), false, line_};
  }
  void add(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }
  void add_text(std::string_view text) {
    if (!text.empty()) add(TokenType::kText, std::string(text));
  }
  char peek(size_t ahead = 0) const {
    return pos_ + ahead < rest_.size() ? rest_[pos_ + ahead] : '\0';
  }
  /// Moves on, counting lines.
  void advance_to(size_t to) {
    line_ += static_cast<int>(std::count(rest_.begin() + static_cast<long>(pos_),
                                         rest_.begin() + static_cast<long>(to), '\n'));
    if (to > pos_) line_starting_ = rest_[to - 1] == '\n';
    pos_ = to;
  }
  void skip_spaces() {
    advance_to(pos_ + strip_range(rest_.substr(pos_), nullptr, true, false).begin);
  }

  size_t find_tag() const {
    for (size_t at = rest_.find('{', pos_); at != npos; at = rest_.find('{', at + 1)) {
      const char next = at + 1 < rest_.size() ? rest_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return npos;
  }

  /// The text before a tag, with `-` and lstrip_blocks applied.
  void text_before(size_t tag, char sign, bool may_lstrip) {
    std::string_view text = rest_.substr(pos_, tag - pos_);
    if (sign == '-') {
      text = text.substr(0, strip_range(text, nullptr, false, true).end);
    } else if (sign != '+' && may_lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == npos ? 0 : newline + 1;
      const bool at_line_start = newline != npos || line_starting_;
      if (at_line_start && all_space(text.substr(start))) text = text.substr(0, start);
    }
    add_text(text);
    advance_to(tag);
  }

  void read_tag(size_t tag) {
    const char kind = rest_[tag + 1];
    char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    text_before(tag, sign, kind != '{');
    advance_to(tag + (sign ? 3 : 2));
    if (kind == '#') {
      read_comment();
    } else if (kind == '%') {
      if (try_raw()) return;
      add(TokenType::kBlockBegin, "{%");
      read_code("%}", TokenType::kBlockEnd);
    } else {
      add(TokenType::kVariableBegin, "{{");
      read_code("}}", TokenType::kVariableEnd);
    }
  }

  /// After a closing mark at `end`: `-` eats all space, else (blocks) one newline.
  void after_tag(size_t end, char sign, bool trims_newline) {
    advance_to(end);
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims_newline && peek() == '\n') {
      advance_to(pos_ + 1);
    }
  }

  void read_comment() {
    const size_t end = rest_.find("#}", pos_);
    if (end == npos) fail_here("Missing end of comment tag");
    char sign = end > pos_ ? rest_[end - 1] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    after_tag(end + 2, sign, true);
  }

  /// `{% raw %}…{% endraw %}`, when one starts here (behind "{%").
  bool try_raw() {
    size_t at = skip_from(pos_);
    if (rest_.substr(at, 3) != "raw") return false;
    at = skip_from(at + 3);
    const bool minus = rest_.substr(at, 1) == "-";
    if (rest_.substr(at + minus, 2) != "%}") return false;
    after_tag(at + minus + 2, minus ? '-' : '+', false);
    size_t search = pos_;
    while (true) {
      const size_t tag = rest_.find("{%", search);
      if (tag == npos) fail_here("Missing end of raw directive");
      search = tag + 2;
      size_t word = search;
      char sign = word < rest_.size() ? rest_[word] : '\0';
      if (sign == '-' || sign == '+') {
        ++word;
      } else {
        sign = '\0';
      }
      word = skip_from(word);
      if (rest_.substr(word, 6) != "endraw") continue;
      word = skip_from(word + 6);
      const char end_sign = word < rest_.size() ? rest_[word] : '\0';
      if (end_sign == '-' || end_sign == '+') ++word;
      if (rest_.substr(word, 2) != "%}") continue;
      text_before(tag, sign, true);
      after_tag(word + 2, end_sign, true);
      return true;
    }
  }
  size_t skip_from(size_t at) const {
    at = std::min(at, rest_.size());
    return at + strip_range(rest_.substr(at), nullptr, true, false).begin;
  }

  void read_code(std::string_view close, TokenType close_type) {
    std::string open;  // brackets that are still open: "}}" may end a dict of dicts
    while (true) {
      skip_spaces();
      if (pos_ >= rest_.size())
        fail_here(fmt::format("unexpected end of template, expected '{}'", close));
      if (open.empty()) {
        const char sign = peek();
        const bool signed_close =
            (sign == '-' || (sign == '+' && close == "%}")) && rest_.substr(pos_ + 1, 2) == close;
        if (signed_close || rest_.substr(pos_, 2) == close) {
          add(close_type, std::string(close));
          after_tag(pos_ + (signed_close ? 3 : 2), signed_close ? sign : '\0', close == "%}");
          return;
        }
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = peek();
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    if (is_name_start(c)) {
      size_t end = pos_;
      while (end < rest_.size() && is_name_char(rest_[end])) ++end;
      add(TokenType::kName, std::string(rest_.substr(pos_, end - pos_)));
      return advance_to(end);
    }
    for (const std::string_view op : kOperators) {
      if (rest_.substr(pos_, op.size()) != op) continue;
      balance(op, open);
      add(TokenType::kOperator, std::string(op));
      return advance_to(pos_ + op.size());
    }
    fail_here(fmt::format("unexpected char '{}'", rest_.substr(pos_, char_size(rest_, pos_))));
  }

  void balance(std::string_view op, std::string& open) {
    if (op == "(") open += ')';
    if (op == "[") open += ']';
    if (op == "{") open += '}';
    if (op != ")" && op != "]" && op != "}") return;
    if (open.empty()) fail_here(fmt::format("unexpected '{}'", op));
    if (open.back() != op[0]) {
      fail_here(fmt::format("unexpected '{}', expected '{}'", op, open.back()));
    }
    open.pop_back();
  }

  size_t digits_from(size_t at, std::string& digits) const {
    while (at < rest_.size() &&
           (is_digit(rest_[at]) ||
            (rest_[at] == '_' && at + 1 < rest_.size() && is_digit(rest_[at + 1])))) {
      if (rest_[at] != '_') digits += rest_[at];
      ++at;
    }
    return at;
  }

  void read_number() {
    std::string digits;
    size_t at = pos_;
    const char prefix = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      at += 2;
      while (at < rest_.size() && (is_name_char(rest_[at]))) {
        if (rest_[at] != '_') digits += rest_[at];
        ++at;
      }
      add(TokenType::kInteger, std::string{'0', prefix} + digits);
      return advance_to(at);
    }
    at = digits_from(at, digits);
    bool real = false;
    // `x.0.1`: digits behind a dot are an index, not the start of a float.
    const bool after_dot = !tokens_.empty() && tokens_.back().type == TokenType::kOperator &&
                           tokens_.back().text == ".";
    if (!after_dot && at + 1 < rest_.size() && rest_[at] == '.' && is_digit(rest_[at + 1])) {
      digits += '.';
      at = digits_from(at + 1, digits);
      real = true;
    }
    if (!after_dot && at < rest_.size() && (rest_[at] == 'e' || rest_[at] == 'E')) {
      size_t exponent = at + 1;
      std::string tail = "e";
      if (exponent < rest_.size() && (rest_[exponent] == '+' || rest_[exponent] == '-')) {
        tail += rest_[exponent++];
      }
      if (exponent < rest_.size() && is_digit(rest_[exponent])) {
        at = digits_from(exponent, tail);
        digits += tail;
        real = true;
      }
    }
    add(real ? TokenType::kFloat : TokenType::kInteger, std::move(digits));
    advance_to(at);
  }

  void read_string(char quote) {
    std::string value;
    size_t at = pos_ + 1;
    while (true) {
      if (at >= rest_.size()) fail_here("unexpected end of template inside a string");
      const char c = rest_[at];
      if (c == quote) break;
      if (c == '\\' && at + 1 < rest_.size()) {
        at = read_escape(at + 1, value);
      } else {
        value += c;
        ++at;
      }
    }
    add(TokenType::kString, std::move(value));
    advance_to(at + 1);
  }

  std::optional<uint32_t> read_hex(size_t at, size_t digits) const {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = at + i < rest_.size() ? rest_[at + i] : '\0';
      const char low = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        value = value * 16 + static_cast<uint32_t>(c - '0');
      } else if (low >= 'a' && low <= 'f') {
        value = value * 16 + static_cast<uint32_t>(low - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    return value;
  }

  size_t read_code_point(size_t at, size_t digits, std::string& value) {
    auto c = read_hex(at, digits);
    if (!c || *c > 0x10FFFF) fail_here("truncated or invalid character escape in a string");
    at += digits;
    if (*c >= 0xD800 && *c < 0xDC00 && rest_.substr(at, 2) == "\\u") {  // a surrogate pair
      if (const auto low = read_hex(at + 2, 4); low && *low >= 0xDC00 && *low < 0xE000) {
        c = 0x10000 + ((*c - 0xD800) << 10) + (*low - 0xDC00);
        at += 6;
      }
    }
    if (*c >= 0xD800 && *c < 0xE000) fail_here("a lone surrogate in a string");
    append_utf8(value, *c);
    return at;
  }

  /// Python's escapes; `at` is behind the backslash. Unknown ones stay as they are.
  size_t read_escape(size_t at, std::string& value) {
    static constexpr std::string_view kFrom = "ntr\\'\"abfv";
    static constexpr std::string_view kTo = "\n\t\r\\'\"\a\b\f\v";
    const char c = rest_[at];
    if (const size_t i = kFrom.find(c); i != npos) {
      value += kTo[i];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c == 'x') return read_code_point(at + 1, 2, value);
    if (c == 'u') return read_code_point(at + 1, 4, value);
    if (c == 'U') return read_code_point(at + 1, 8, value);
    if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t end = at;
      while (end < at + 3 && end < rest_.size() && rest_[end] >= '0' && rest_[end] <= '7') {
        code = code * 8 + static_cast<uint32_t>(rest_[end++] - '0');
      }
      append_utf8(value, code);
      return end;
    }
    value += '\\';
    return at;
  }

  std::string source_;
  std::string_view rest_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace octavo::chat_template
