#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

// Prometheus text format as prometheus_client writes it.

namespace octavo::observability {

using Labels = std::span<const std::pair<std::string, std::string>>;

/// `{a="1",b="2"}`, or nothing when there are none. `labels` are in order already.
std::string label_text(Labels labels);
/// The same with one more label in its alphabetical place.
std::string label_text_with(Labels labels, std::string_view name, std::string_view value);

/// `# HELP` and `# TYPE`.
void append_header(std::string& out, std::string_view family, std::string_view help,
                   std::string_view type);
/// One sample line; `labels` as label_text made them.
void append_sample(std::string& out, std::string_view name, std::string_view suffix,
                   std::string_view labels, double value);

}  // namespace octavo::observability
