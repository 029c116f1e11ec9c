#include "observability/text_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "observability/metrics.h"

namespace octavo::observability {

bool created_series_enabled() {
  const char* value = std::getenv("PROMETHEUS_DISABLE_CREATED_SERIES");
  if (value == nullptr) return true;
  std::string text(value);
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return text != "true" && text != "1" && text != "t";
}

std::string format_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  char buffer[400];
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    exponent ? std::chars_format::scientific : std::chars_format::fixed)
          .ptr;
  std::string text(buffer, end);
  if (exponent) return text;
  size_t dot = text.find('.');
  if (dot == std::string::npos) {
    dot = text.size();
    text += ".0";
  }
  // Go's form, which prometheus_client imitates: an exponent from seven digits on. It does so for
  // positive numbers only.
  if (value <= 0 || dot <= 6) return text;
  std::string digits = text.substr(0, dot) + text.substr(dot + 1);
  const size_t last = digits.find_last_not_of('0');
  digits.erase(last + 1);
  std::string mantissa = digits.substr(0, 1);
  if (digits.size() > 1) mantissa.append(1, '.').append(digits, 1);
  const std::string power = std::to_string(dot - 1);
  return mantissa + (power.size() < 2 ? "e+0" : "e+") + power;
}

namespace {
void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}
void append_label(std::string& out, std::string_view name, std::string_view value) {
  out += out.empty() ? '{' : ',';
  out += name;
  out += "=\"";
  append_escaped(out, value, true);
  out += '"';
}
}  // namespace

std::string label_text(Labels labels) {
  std::string out;
  for (const auto& [name, value] : labels) append_label(out, name, value);
  if (!out.empty()) out += '}';
  return out;
}

std::string label_text_with(Labels labels, std::string_view name, std::string_view value) {
  std::vector<std::pair<std::string, std::string>> all(labels.begin(), labels.end());
  all.emplace_back(std::string(name), std::string(value));
  std::sort(all.begin(), all.end());
  return label_text(all);
}

void append_header(std::string& out, std::string_view family, std::string_view help,
                   std::string_view type) {
  out.append("# HELP ").append(family).append(1, ' ');
  append_escaped(out, help, false);
  out.append("\n# TYPE ").append(family).append(1, ' ').append(type).append(1, '\n');
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix,
                   std::string_view labels, double value) {
  out.append(name).append(suffix).append(labels).append(1, ' ');
  out.append(format_value(value)).append(1, '\n');
}

}  // namespace octavo::observability
