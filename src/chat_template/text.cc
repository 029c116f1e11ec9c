#include "chat_template/text.h"

#include <utf8proc.h>

#include <algorithm>

namespace octavo::chat_template {

int32_t decode_char(std::string_view text, size_t pos, size_t& size) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) {
    size = 1;
    return first;
  }
  utf8proc_int32_t c = -1;
  const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + pos),
                                  static_cast<utf8proc_ssize_t>(text.size() - pos), &c);
  if (n <= 0) {
    size = 1;
    return -1;
  }
  size = static_cast<size_t>(n);
  return c;
}

size_t char_size(std::string_view text, size_t pos) {
  size_t size = 1;
  decode_char(text, pos, size);
  return size;
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += char_size(text, at)) ++count;
  return count;
}

bool is_space(int32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(int32_t c) {
  if (c < 0) return false;
  if (c == ' ') return true;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_utf8(std::string& out, uint32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(std::max<long>(n, 0)));
}

namespace {
bool strippable(std::string_view text, size_t pos, size_t size, int32_t c,
                const std::string_view* chars) {
  if (chars == nullptr) return is_space(c);
  const std::string_view wanted = text.substr(pos, size);
  for (size_t at = 0; at < chars->size();) {
    const size_t n = char_size(*chars, at);
    if (chars->substr(at, n) == wanted) return true;
    at += n;
  }
  return false;
}

/// Start of the character that ends at `end`.
size_t previous_char(std::string_view text, size_t begin, size_t end) {
  size_t at = end - 1;
  while (at > begin && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return char_size(text, at) == end - at ? at : end - 1;
}
}  // namespace

Span strip_range(std::string_view text, const std::string_view* chars, bool left, bool right) {
  Span kept{0, text.size()};
  while (left && kept.begin < kept.end) {
    size_t size = 1;
    const int32_t c = decode_char(text, kept.begin, size);
    if (!strippable(text, kept.begin, size, c, chars)) break;
    kept.begin += size;
  }
  while (right && kept.begin < kept.end) {
    const size_t at = previous_char(text, kept.begin, kept.end);
    size_t size = 1;
    const int32_t c = decode_char(text.substr(0, kept.end), at, size);
    if (!strippable(text, at, kept.end - at, c, chars)) break;
    kept.end = at;
  }
  return kept;
}

Value substr(Meter& meter, const StrObj& s, size_t begin, size_t end) {
  StrBuilder out(meter);
  out.append(s, begin, end);
  return out.take();
}

Value concat(Meter& meter, const StrObj& a, const StrObj& b) {
  StrBuilder out(meter);
  out.append(a);
  out.append(b);
  return out.take();
}

Value repeat(Meter& meter, const StrObj& s, int64_t times) {
  StrBuilder out(meter);
  if (times <= 0 || s.text.empty()) return out.take();
  // Checked before the loop, so that `'a' * 10**9` fails at once.
  if (static_cast<uint64_t>(times) > meter.limits().max_output_bytes / s.text.size()) {
    meter.check_size(meter.limits().max_output_bytes + 1);
  }
  meter.charge(times);
  for (int64_t i = 0; i < times; ++i) out.append(s);
  return out.take();
}

StrObj repeat_char(Meter& meter, char c, int64_t count) {
  StrObj out;
  if (count <= 0) return out;
  meter.check_size(static_cast<size_t>(count));
  meter.charge_bytes(static_cast<size_t>(count));
  out.text.assign(static_cast<size_t>(count), c);
  return out;
}

bool char_at(Meter& meter, const StrObj& s, int64_t index, Value& out) {
  const std::string_view text = s.text;
  size_t at = 0;
  if (index >= 0) {
    for (; index > 0 && at < text.size(); --index) at += char_size(text, at);
    meter.charge_bytes(at);
    if (at >= text.size()) return false;
    out = substr(meter, s, at, at + char_size(text, at));
    return true;
  }
  size_t end = text.size();
  at = end;
  for (; index < 0; ++index) {
    if (at == 0) return false;
    end = at;
    at = previous_char(text, 0, end);
  }
  meter.charge_bytes(text.size() - at);
  out = substr(meter, s, at, end);
  return true;
}

Value replace(Meter& meter, const StrObj& s, std::string_view from, const StrObj& to,
              int64_t count) {
  StrBuilder out(meter);
  const std::string_view text = s.text;
  meter.charge_bytes(text.size());
  size_t at = 0;
  if (from.empty()) {  // Python puts `to` before every character and at the end.
    while (count != 0) {
      meter.charge();
      out.append(to);
      if (count > 0) --count;
      if (at >= text.size()) break;
      const size_t n = char_size(text, at);
      out.append(s, at, at + n);
      at += n;
    }
    out.append(s, at, text.size());
    return out.take();
  }
  while (count != 0) {
    const size_t hit = text.find(from, at);
    if (hit == std::string_view::npos) break;
    meter.charge();
    out.append(s, at, hit);
    out.append(to);
    at = hit + from.size();
    if (count > 0) --count;
  }
  out.append(s, at, text.size());
  return out.take();
}

namespace {
std::vector<Value> split_spaces(Meter& meter, const StrObj& s, int64_t max) {
  std::vector<Value> parts;
  const std::string_view text = s.text;
  size_t at = 0;
  while (true) {
    at += strip_range(text.substr(at), nullptr, true, false).begin;
    if (at >= text.size()) break;
    if (max == 0) {
      parts.push_back(substr(meter, s, at, text.size()));
      break;
    }
    size_t end = at;
    for (size_t size = 1; end < text.size(); end += size) {
      if (is_space(decode_char(text, end, size))) break;
    }
    meter.charge();
    parts.push_back(substr(meter, s, at, end));
    at = end;
    if (max > 0) --max;
  }
  return parts;
}

std::vector<Value> rsplit_spaces(Meter& meter, const StrObj& s, int64_t max) {
  std::vector<Value> parts;
  const std::string_view text = s.text;
  size_t end = text.size();
  while (true) {
    end = strip_range(text.substr(0, end), nullptr, false, true).end;
    if (end == 0) break;
    if (max == 0) {
      parts.push_back(substr(meter, s, 0, end));
      break;
    }
    size_t at = end;
    while (at > 0) {
      const size_t before = previous_char(text, 0, at);
      size_t size = 1;
      if (is_space(decode_char(text, before, size))) break;
      at = before;
    }
    meter.charge();
    parts.push_back(substr(meter, s, at, end));
    end = at;
    if (max > 0) --max;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}
}  // namespace

std::vector<Value> split(Meter& meter, const StrObj& s, const std::string_view* separator,
                         int64_t max) {
  meter.charge_bytes(s.text.size());
  if (separator == nullptr) return split_spaces(meter, s, max);
  if (separator->empty()) fail("empty separator");
  std::vector<Value> parts;
  const std::string_view text = s.text;
  size_t at = 0;
  while (max != 0) {
    const size_t hit = text.find(*separator, at);
    if (hit == std::string_view::npos) break;
    meter.charge();
    parts.push_back(substr(meter, s, at, hit));
    at = hit + separator->size();
    if (max > 0) --max;
  }
  parts.push_back(substr(meter, s, at, text.size()));
  return parts;
}

std::vector<Value> rsplit(Meter& meter, const StrObj& s, const std::string_view* separator,
                          int64_t max) {
  if (max < 0) return split(meter, s, separator, max);
  meter.charge_bytes(s.text.size());
  if (separator == nullptr) return rsplit_spaces(meter, s, max);
  if (separator->empty()) fail("empty separator");
  std::vector<Value> parts;
  const std::string_view text = s.text;
  size_t end = text.size();
  for (; max > 0 && end >= separator->size(); --max) {
    const size_t hit = text.rfind(*separator, end - separator->size());
    if (hit == std::string_view::npos) break;
    meter.charge();
    parts.push_back(substr(meter, s, hit + separator->size(), end));
    end = hit;
  }
  parts.push_back(substr(meter, s, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> splitlines(Meter& meter, const StrObj& s, bool keep_ends) {
  meter.charge_bytes(s.text.size());
  std::vector<Value> lines;
  const std::string_view text = s.text;
  size_t begin = 0;
  for (size_t at = 0, size = 1; at < text.size(); at += size) {
    const int32_t c = decode_char(text, at, size);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') size = 2;
    meter.charge();
    lines.push_back(substr(meter, s, begin, keep_ends ? at + size : at));
    begin = at + size;
  }
  if (begin < text.size()) lines.push_back(substr(meter, s, begin, text.size()));
  return lines;
}

namespace {
bool is_cased(int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

/// Characters whose upper case is several characters (Unicode SpecialCasing.txt, the common ones).
std::string_view special_upper(int32_t c) {
  switch (c) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\u02BCN";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return {};
  }
}

void append_case(std::string& out, int32_t c, Case how) {
  if (how == Case::kUpper) {
    if (const std::string_view special = special_upper(c); !special.empty()) {
      out.append(special);
    } else {
      append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(c)));
    }
  } else if (how == Case::kTitle) {
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(c)));
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(c)));
  }
}
}  // namespace

Value change_case(Meter& meter, const StrObj& s, Case how) {
  StrBuilder out(meter);
  bool first = true;
  bool after_cased = false;  // crosses runs: a word may be partly untrusted
  for_each_run(s, [&](std::string_view run, bool untrusted) {
    std::string changed;
    changed.reserve(run.size());
    for (size_t at = 0, size = 1; at < run.size(); at += size) {
      const int32_t c = decode_char(run, at, size);
      if (c < 0) {
        changed.append(run.substr(at, size));
        continue;
      }
      Case as = how;
      if (how == Case::kTitle) as = after_cased ? Case::kLower : Case::kTitle;
      if (how == Case::kCapitalize) as = first ? Case::kTitle : Case::kLower;
      if (how == Case::kSwap) {
        as = utf8proc_category(c) == UTF8PROC_CATEGORY_LU ? Case::kLower : Case::kUpper;
      }
      append_case(changed, c, as);
      after_cased = is_cased(c);
      first = false;
    }
    out.append(changed, untrusted);
  });
  return out.take();
}

Value escape_html(Meter& meter, const StrObj& s) {
  StrBuilder out(meter);
  for_each_run(s, [&](std::string_view run, bool untrusted) {
    std::string escaped;
    for (const char c : run) {
      switch (c) {
        case '&':
          escaped += "&amp;";
          break;
        case '<':
          escaped += "&lt;";
          break;
        case '>':
          escaped += "&gt;";
          break;
        case '\'':
          escaped += "&#39;";
          break;
        case '"':
          escaped += "&#34;";
          break;
        default:
          escaped += c;
      }
    }
    out.append(escaped, untrusted);
  });
  return out.take();
}

namespace {
template <class F>
bool all_chars(std::string_view text, F&& ok) {
  for (size_t at = 0, size = 1; at < text.size(); at += size) {
    if (!ok(decode_char(text, at, size))) return false;
  }
  return !text.empty();
}
bool alpha(int32_t c) {
  if (c < 0) return false;
  const auto k = utf8proc_category(c);
  return is_cased(c) || k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}
bool digit(int32_t c) { return c >= 0 && utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }
}  // namespace

bool all_alpha(std::string_view text) { return all_chars(text, alpha); }
bool all_digit(std::string_view text) { return all_chars(text, digit); }
bool all_alnum(std::string_view text) {
  return all_chars(text, [](int32_t c) { return alpha(c) || digit(c); });
}
bool all_space(std::string_view text) { return all_chars(text, is_space); }

namespace {
bool only_case(std::string_view text, int wanted) {
  bool seen = false;
  for (size_t at = 0, size = 1; at < text.size(); at += size) {
    const int32_t c = decode_char(text, at, size);
    if (c < 0 || !is_cased(c)) continue;
    if (utf8proc_category(c) != wanted) return false;
    seen = true;
  }
  return seen;
}
}  // namespace

bool is_upper(std::string_view text) { return only_case(text, UTF8PROC_CATEGORY_LU); }
bool is_lower(std::string_view text) { return only_case(text, UTF8PROC_CATEGORY_LL); }

}  // namespace octavo::chat_template
