#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>

#include "chat_template/builtins.h"
#include "chat_template/text.h"

// Filters that lay text out: word wrap as Python's textwrap, sizes of files, attributes of XML.

namespace octavo::chat_template {
namespace {

/// One line as characters, with the byte each begins at.
struct Characters {
  explicit Characters(const StrObj& line) {
    for (size_t at = 0, size = 1; at < line.text.size(); at += size) {
      codes.push_back(decode_char(line.text, at, size));
      begins.push_back(at);
      const std::string_view one = std::string_view(line.text).substr(at, size);
      words.push_back(all_alnum(one) || one == "_");
      digits.push_back(all_digit(one));
    }
    begins.push_back(line.text.size());
  }
  size_t size() const { return codes.size(); }
  bool is(size_t i, int32_t code) const { return i < size() && codes[i] == code; }
  bool is_word(size_t i) const { return i < size() && words[i]; }
  bool is_letter(size_t i) const { return is_word(i) && !digits[i]; }
  /// textwrap splits at ASCII white space only.
  bool is_gap(size_t i) const {
    return i < size() && (codes[i] == ' ' || (codes[i] >= '\t' && codes[i] <= '\r'));
  }
  bool is_word_or_mark(size_t i) const {
    constexpr std::string_view kMarks = "!\"'&.,?";
    return is_word(i) || (i < size() && codes[i] > 0 && codes[i] < 128 &&
                          kMarks.find(static_cast<char>(codes[i])) != std::string_view::npos);
  }
  bool is_blank(const Span& chunk) const {
    return std::all_of(codes.begin() + static_cast<ptrdiff_t>(chunk.begin),
                       codes.begin() + static_cast<ptrdiff_t>(chunk.end), is_space);
  }
  /// Behind the dashes at `i` if they are two or more between words, else `i`.
  size_t end_of_dash(size_t i) const {
    if (i == 0 || !is_word_or_mark(i - 1)) return i;
    size_t end = i;
    while (is(end, '-')) ++end;
    return end >= i + 2 && is_word(end) ? end : i;
  }
  /// Whether the '-' at `i` joins two parts of a word and may end a line.
  bool joins_word(size_t i) const {
    if (!is(i, '-')) return false;
    const bool behind = (i >= 2 && is_letter(i - 1) && is_letter(i - 2)) ||
                        (i >= 3 && is_word_or_mark(i - 1) && is(i - 2, '-') && is_letter(i - 3));
    return behind && is_letter(i + 1) && (is_letter(i + 2) || (is(i + 2, '-') && is_letter(i + 3)));
  }

  std::vector<int32_t> codes;
  std::vector<size_t> begins;
  std::vector<bool> words, digits;
};

struct WrapOptions {
  size_t width = 79;
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

/// White space, words, and with `on_hyphens` the parts of words: what a line may be broken between.
std::deque<Span> split_chunks(const Characters& line, bool on_hyphens) {
  std::deque<Span> out;
  size_t begin = 0;
  while (begin < line.size()) {
    size_t end = begin;
    if (line.is_gap(begin)) {
      while (line.is_gap(end)) ++end;
    } else if (on_hyphens && line.end_of_dash(begin) > begin) {
      end = line.end_of_dash(begin);
    } else {
      for (end = begin + 1; end < line.size() && !line.is_gap(end); ++end) {
        if (!on_hyphens || !line.is(end, '-')) continue;
        if (line.joins_word(end)) {
          ++end;
          break;
        }
        if (line.end_of_dash(end) > end) break;
      }
    }
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

/// Where a word that is longer than a line is cut.
size_t cut_of_long_word(const Characters& line, const Span& word, size_t room, bool on_hyphens) {
  const size_t end = word.begin + room;
  if (!on_hyphens) return end;
  size_t hyphen = end;
  while (hyphen > word.begin && !line.is(hyphen - 1, '-')) --hyphen;
  const bool only_hyphens =
      std::all_of(line.codes.begin() + static_cast<ptrdiff_t>(word.begin),
                  line.codes.begin() + static_cast<ptrdiff_t>(std::max(hyphen, word.begin + 1) - 1),
                  [](int32_t c) { return c == '-'; });
  return hyphen > word.begin + 1 && !only_hyphens ? hyphen : end;
}

/// The lines of one line of text, as ranges of its characters.
std::vector<Span> wrap_line(Meter& meter, const Characters& line, const WrapOptions& options) {
  std::vector<Span> lines;
  std::deque<Span> chunks = split_chunks(line, options.break_on_hyphens);
  while (!chunks.empty()) {
    meter.charge();
    if (!lines.empty() && line.is_blank(chunks.front())) chunks.pop_front();
    std::vector<Span> taken;
    size_t used = 0;
    const auto size_of_next = [&] { return chunks.front().end - chunks.front().begin; };
    while (!chunks.empty() && used + size_of_next() <= options.width) {
      used += size_of_next();
      taken.push_back(chunks.front());
      chunks.pop_front();
    }
    if (!chunks.empty() && size_of_next() > options.width) {
      Span& word = chunks.front();
      if (options.break_long_words) {
        const size_t room = options.width - used;
        const size_t cut =
            room == 0 ? word.begin : cut_of_long_word(line, word, room, options.break_on_hyphens);
        taken.push_back({word.begin, cut});
        word.begin = cut;
      } else if (taken.empty()) {
        taken.push_back(word);
        chunks.pop_front();
      }
    }
    if (!taken.empty() && line.is_blank(taken.back())) taken.pop_back();
    if (!taken.empty()) lines.push_back({taken.front().begin, taken.back().end});
  }
  return lines;
}

Value filter_wordwrap(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t width = b.integer(0, 79);
  if (width <= 0) fail(fmt::format("invalid width {} (must be > 0)", width));
  const WrapOptions options{.width = static_cast<size_t>(width),
                            .break_long_words = b.boolean(1, true),
                            .break_on_hyphens = b.boolean(3, true)};
  const StrObj newline = repeat_char(e.meter(), '\n', 1);
  const StrObj& between = b.string(2) != nullptr ? *b.string(2) : newline;
  const Value text = to_str(e.meter(), v);
  e.meter().charge_bytes(text.str().text.size() * 16);  // a line's characters are taken apart
  StrBuilder out(e.meter());
  bool first_line = true;
  for (const Value& value : splitlines(e.meter(), text.str(), false)) {
    if (!first_line) out.append(between);
    first_line = false;
    const Characters line(value.str());
    bool first = true;
    for (const Span& part : wrap_line(e.meter(), line, options)) {
      if (!first) out.append(between);
      first = false;
      out.append(value.str(), line.begins[part.begin], line.begins[part.end]);
    }
  }
  return out.take();
}

Value filter_filesizeformat(Evaluator&, const Value& v, const Args& args) {
  const Bound b("filesizeformat", args, {"binary"});
  double bytes = 0;
  if (v.is_number()) {
    bytes = v.as_double();
  } else {
    const std::string_view text = v.is_string() ? std::string_view(v.str().text) : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(fmt::format("filesizeformat: {} is no number", type_name(v)));
    }
  }
  const bool binary = b.boolean(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::text("1 Byte");
  if (bytes < base) return Value::text(fmt::format("{:.0f} Bytes", std::trunc(bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (const char prefix : kPrefixes) {
    unit *= base;
    if (bytes < unit || prefix == kPrefixes.back()) {
      const std::string name =
          binary ? fmt::format("{}iB", prefix == 'k' ? 'K' : prefix) : fmt::format("{}B", prefix);
      return Value::text(fmt::format("{:.1f} {}", base * bytes / unit, name));
    }
  }
  return {};
}

Value filter_xmlattr(Evaluator& e, const Value& v, const Args& args) {
  const Bound b("xmlattr", args, {"autospace"});
  if (!v.is_dict()) fail(fmt::format("xmlattr needs a dict, got {}", type_name(v)));
  StrBuilder out(e.meter());
  bool first = true;
  for (const auto& [key, value] : v.dict().entries) {
    e.meter().charge();
    if (value.is_none() || value.is_undefined()) continue;
    const Value name = to_str(e.meter(), key);
    if (name.str().text.find_first_of(" \t\n\v\f\r/>=") != std::string::npos) {
      fail("Invalid character in attribute name");
    }
    if (!first || b.boolean(0, true)) out.append(" ");
    first = false;
    out.append(escape_html(e.meter(), name.str()).str());
    out.append("=\"");
    out.append(escape_html(e.meter(), to_str(e.meter(), value).str()).str());
    out.append("\"");
  }
  return out.take();
}

struct Row {
  std::string_view name;
  FilterFn fn;
};
constexpr auto kFilters = std::to_array<Row>({
    {"wordwrap", filter_wordwrap},
    {"filesizeformat", filter_filesizeformat},
    {"xmlattr", filter_xmlattr},
});

}  // namespace

FilterFn find_layout_filter(std::string_view name) {
  for (const Row& row : kFilters) {
    if (row.name == name) return row.fn;
  }
  return nullptr;
}

}  // namespace octavo::chat_template
