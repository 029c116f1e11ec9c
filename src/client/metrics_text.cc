#include "client/metrics_text.h"

#include <charconv>
#include <optional>

namespace octavo::client {
namespace {

/// The index after the closing brace of `line`, which has its opening one at `open`; quotes may
/// hold braces and escaped quotes.
std::optional<size_t> after_labels(std::string_view line, size_t open) {
  bool is_quoted = false;
  for (size_t i = open + 1; i < line.size(); ++i) {
    if (is_quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      is_quoted = !is_quoted;
    } else if (line[i] == '}' && !is_quoted) {
      return i + 1;
    }
  }
  return std::nullopt;
}

std::optional<MetricSample> read_line(std::string_view line) {
  if (line.empty() || line[0] == '#') return std::nullopt;
  MetricSample sample;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  sample.name = line.substr(0, end);
  size_t rest = end;
  if (line[end] == '{') {
    const auto after = after_labels(line, end);
    if (!after) return std::nullopt;
    sample.labels = line.substr(end + 1, *after - end - 2);
    rest = *after;
  }
  std::string_view number = line.substr(rest);
  while (number.starts_with(' ')) number.remove_prefix(1);
  number = number.substr(0, number.find(' '));  // a timestamp may follow
  if (number.starts_with('+')) number.remove_prefix(1);
  const auto [stop, error] =
      std::from_chars(number.data(), number.data() + number.size(), sample.value);
  if (error != std::errc() || stop != number.data() + number.size()) return std::nullopt;
  return sample;
}

}  // namespace

void for_each_sample(std::string_view text, const std::function<void(const MetricSample&)>& visit) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const auto sample = read_line(line)) visit(*sample);
    text.remove_prefix(end + 1);
  }
}

}  // namespace octavo::client
