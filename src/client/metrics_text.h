#pragma once

#include <functional>
#include <string_view>

namespace octavo::client {

/// One line of a Prometheus text exposition.
struct MetricSample {
  std::string_view name;
  std::string_view labels;  // what stands between the braces
  double value = 0;
};

/// Calls `visit` for every sample line of `text`; comments and lines that cannot be read are
/// skipped. A last line without a newline may have been cut off and is skipped as well.
void for_each_sample(std::string_view text, const std::function<void(const MetricSample&)>& visit);

}  // namespace octavo::client
