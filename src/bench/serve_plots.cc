#include "bench/serve_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "bench/svg.h"

namespace octavo::bench {
namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 70;
constexpr double kAxisHeight = 40;
constexpr size_t kMaxRows = 2000;      // requests; more rows than that are no plot any more
constexpr size_t kMaxSpans = 200'000;  // coloured pieces, some 15 bytes each
constexpr double kRowHeight = 9;

constexpr std::array<std::string_view, 4> kColors = {"#636efa", "#109618", "#ff7f0e", "#d62728"};

/// One request's row: a path for each colour, gaps of one colour that touch as one piece.
class Row {
 public:
  Row(const Scale& scale, double y) : scale_(scale), y_(y) {}

  void add(size_t color, double begin_s, double end_s) {
    if (color == color_ && begin_s <= end_s_) {
      end_s_ = std::max(end_s_, end_s);
      return;
    }
    flush();
    color_ = color;
    begin_s_ = begin_s;
    end_s_ = end_s;
  }

  std::string take(std::string_view title) {
    flush();
    std::string out = fmt::format("<g><title>{}</title>", html_escape(title));
    for (size_t i = 0; i < kColors.size(); ++i) {
      if (paths_[i].empty()) continue;
      out += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"{:.0f}\"/>", paths_[i],
                         kColors[i], kRowHeight - 2);
    }
    return out + "</g>\n";
  }
  size_t num_spans() const { return num_spans_; }

 private:
  void flush() {
    if (color_ >= kColors.size()) return;
    paths_[color_] +=
        fmt::format("M{:.1f} {:.1f}H{:.1f}", scale_.at(begin_s_), y_, scale_.at(end_s_));
    ++num_spans_;
    color_ = kColors.size();
  }
  const Scale& scale_;
  const double y_;
  std::array<std::string, kColors.size()> paths_;
  size_t color_ = kColors.size();
  double begin_s_ = 0;
  double end_s_ = 0;
  size_t num_spans_ = 0;
};

std::string row_of(size_t index, const Outcome& outcome, double start_s, const Scale& scale,
                   double y, const std::array<double, 2>& limits_ms, size_t& num_spans) {
  Row row(scale, y);
  double at = outcome.start_s - start_s;
  row.add(0, at, at + outcome.ttft_s);
  at += outcome.ttft_s;
  for (const double gap : outcome.itl_s) {
    row.add(gap * 1000 < limits_ms[0] ? 1 : gap * 1000 < limits_ms[1] ? 2 : 3, at, at + gap);
    at += gap;
  }
  std::string out =
      row.take(fmt::format("Req {}: {} prompt tokens, {} output tokens, from {:.3f} s, TTFT {:.3f} "
                           "s, end {:.3f} s",
                           index, outcome.prompt_len, outcome.output_tokens,
                           outcome.start_s - start_s, outcome.ttft_s, at));
  num_spans += row.num_spans();
  return out;
}

std::string legend(const std::array<std::string, kColors.size()>& names) {
  std::string out = "<p>";
  for (size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp; ", kColors[i],
                       html_escape(names[i]));
  }
  return out + "</p>\n";
}

std::string histogram(std::string_view title, std::span<const int64_t> values,
                      std::string_view color) {
  constexpr size_t kBins = 30;
  constexpr double kTop = 10;
  constexpr double kBottom = 200;
  const auto [low, high] = std::ranges::minmax(values);
  const Scale x(double(low), double(high), kLeft, kWidth - 20);
  std::array<double, kBins> counts{};
  for (const int64_t value : values) {
    const double place = (double(value) - x.low()) / (x.high() - x.low());
    ++counts[std::min(size_t(place * double(kBins)), kBins - 1)];
  }
  const Scale y(0, *std::ranges::max_element(counts), kBottom, kTop);
  std::string out = fmt::format("<h2>{}</h2>\n", html_escape(title)) +
                    svg_begin(title, kWidth, kBottom + kAxisHeight) +
                    svg_axis_y(y, kLeft, kWidth - 20) + svg_axis_x(x, kBottom, kBottom);
  const double width = (kWidth - 20 - kLeft) / double(kBins);
  for (size_t i = 0; i < kBins; ++i) {
    if (counts[i] == 0) continue;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"#333\"><title>{:.0f}</title></rect>\n",
        kLeft + width * double(i), y.at(counts[i]), width, kBottom - y.at(counts[i]), color,
        counts[i]);
  }
  return out + "</svg>\n";
}

/// Prompt and output tokens of each request, one above the other.
std::string stacked(std::span<const int64_t> prompt_lens, std::span<const int64_t> output_lens) {
  constexpr double kTop = 10;
  constexpr double kBottom = 260;
  const size_t count = std::min(prompt_lens.size(), kMaxRows);
  int64_t most = 1;
  for (size_t i = 0; i < count; ++i) most = std::max(most, prompt_lens[i] + output_lens[i]);
  const Scale x(0, double(count), kLeft, kWidth - 20);
  const Scale y(0, double(most), kBottom, kTop);
  std::string prompts;
  std::string outputs;
  for (size_t i = 0; i < count; ++i) {
    const double at = x.at(double(i) + 0.5);
    const auto prompt = double(prompt_lens[i]);
    prompts += fmt::format("M{:.1f} {:.1f}V{:.1f}", at, y.at(0), y.at(prompt));
    outputs += fmt::format("M{:.1f} {:.1f}V{:.1f}", at, y.at(prompt),
                           y.at(prompt + double(output_lens[i])));
  }
  const double width = std::max(1.0, (kWidth - 20 - kLeft) / double(count) * 0.8);
  return "<h2>Tokens of each request: prompt, and output above it</h2>\n" +
         svg_begin("tokens of each request", kWidth, kBottom + kAxisHeight) +
         svg_axis_y(y, kLeft, kWidth - 20) + svg_axis_x(x, kBottom, kBottom) +
         fmt::format(
             "<path d=\"{}\" stroke=\"#4682b4\" stroke-width=\"{:.1f}\"/>\n<path d=\"{}\" "
             "stroke=\"#ff7f50\" stroke-width=\"{:.1f}\"/>\n</svg>\n",
             prompts, width, outputs, width) +
         (count < prompt_lens.size() ? fmt::format("<p class=\"note\">The first {} of {}.</p>\n",
                                                   count, prompt_lens.size())
                                     : "");
}

}  // namespace

std::string timeline_page(std::span<const Outcome> outcomes,
                          const std::array<double, 2>& itl_limits_ms) {
  std::vector<size_t> shown;
  double start_s = 0;
  double end_s = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.success) continue;
    start_s = shown.empty() ? outcome.start_s : std::min(start_s, outcome.start_s);
    end_s = std::max(end_s, outcome.start_s + outcome.latency_s);
    shown.push_back(i);
  }
  if (shown.empty()) return html_page("Timeline of requests", "<p>No request succeeded.</p>\n");
  const size_t num_rows = std::min(shown.size(), kMaxRows);
  const double bottom = 10 + kRowHeight * double(num_rows);
  const Scale scale(0, end_s - start_s, kLeft, kWidth - 20);
  std::string rows;
  size_t num_spans = 0;
  size_t num_shown = 0;
  for (; num_shown < num_rows && num_spans < kMaxSpans; ++num_shown) {
    const double y = 10 + kRowHeight * (double(num_shown) + 0.5);
    rows += row_of(shown[num_shown], outcomes[shown[num_shown]], start_s, scale, y, itl_limits_ms,
                   num_spans);
  }
  std::string body =
      legend({"TTFT", fmt::format("ITL < {:.0f} ms", itl_limits_ms[0]),
              fmt::format("{:.0f} ms ≤ ITL < {:.0f} ms", itl_limits_ms[0], itl_limits_ms[1]),
              fmt::format("ITL ≥ {:.0f} ms", itl_limits_ms[1])});
  body += svg_begin("timeline of requests", kWidth, bottom + kAxisHeight) +
          svg_axis_x(scale, bottom, 10) + rows + "</svg>\n";
  body += fmt::format(
      "<p class=\"note\">Seconds since the first send; a row for each of {} of {} "
      "requests ({} failed).</p>\n",
      num_shown, outcomes.size(), outcomes.size() - shown.size());
  return html_page("Timeline of requests", body);
}

std::string dataset_stats_page(std::span<const int64_t> prompt_lens,
                               std::span<const int64_t> output_lens) {
  const size_t count = std::min(prompt_lens.size(), output_lens.size());
  if (count == 0) return html_page("Lengths of requests", "<p>No requests.</p>\n");
  std::vector<int64_t> totals(count);
  for (size_t i = 0; i < count; ++i) totals[i] = prompt_lens[i] + output_lens[i];
  return html_page("Lengths of requests",
                   histogram("Prompt tokens", prompt_lens.first(count), "#4682b4") +
                       histogram("Output tokens", output_lens.first(count), "#ff7f50") +
                       histogram("All tokens", totals, "#3cb371") +
                       stacked(prompt_lens.first(count), output_lens.first(count)));
}

}  // namespace octavo::bench
