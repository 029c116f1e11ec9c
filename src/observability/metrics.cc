#include "observability/metrics.h"

#include <algorithm>

#include "base/check.h"
#include "observability/text_format.h"

namespace octavo::observability {

namespace {

/// Where a metric's numbers lie in the flat state: per child one number, or for a histogram the
/// counts of its buckets and of +Inf, then the sum.
struct Layout {
  const MetricDef* def = nullptr;
  std::vector<double> buckets;
  std::vector<std::string> bucket_labels;  // of each bucket and +Inf; empty for the others
  std::vector<std::string> child_labels;
  size_t offset = 0;
  size_t size_per_child() const { return def->kind == Kind::kHistogram ? buckets.size() + 2 : 1; }
};

size_t index_of(MetricId id) {
  CHECK_LT(static_cast<size_t>(id), static_cast<size_t>(MetricId::kNumMetrics));
  return static_cast<size_t>(id);
}

}  // namespace

struct EngineMetrics::State {
  Options options;
  std::vector<std::pair<std::string, std::string>> labels;  // common ones
  std::vector<Layout> layout;
  std::vector<double> working;  // the writer's
  mutable std::mutex mutex;     // guards published
  std::vector<double> published;

  void add_metric(const MetricDef& def);
  size_t slot(MetricId id, int label_index) const;
  std::vector<double> snapshot() const {
    std::lock_guard lock(mutex);
    return published;
  }
  void append_metric(std::string& out, const Layout& m, const double* numbers, bool created) const;
  void append_histogram(std::string& out, const Layout& m, const double* numbers) const;
};

void EngineMetrics::State::add_metric(const MetricDef& def) {
  Layout m;
  m.def = &def;
  m.offset = working.size();
  if (def.kind == Kind::kHistogram) {
    m.buckets.assign(def.buckets.begin(), def.buckets.end());
    if (m.buckets.empty()) m.buckets = request_tokens_buckets(options.max_model_len);
    for (const double bound : m.buckets) {
      m.bucket_labels.push_back(label_text_with(labels, "le", format_value(bound)));
    }
    m.bucket_labels.push_back(label_text_with(labels, "le", "+Inf"));
  }
  for (const std::string_view value : def.label_values) {
    m.child_labels.push_back(label_text_with(labels, def.label, value));
  }
  if (m.child_labels.empty()) m.child_labels.push_back(label_text(labels));
  working.resize(working.size() + m.size_per_child() * m.child_labels.size());
  layout.push_back(std::move(m));
}

size_t EngineMetrics::State::slot(MetricId id, int label_index) const {
  const Layout& m = layout[index_of(id)];
  CHECK_GE(label_index, 0);
  CHECK_LT(static_cast<size_t>(label_index), m.child_labels.size());
  return m.offset + m.size_per_child() * static_cast<size_t>(label_index);
}

EngineMetrics::EngineMetrics(Options options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->labels = {{"engine", std::to_string(state_->options.engine_index)},
                    {"model_name", state_->options.model_name}};
  for (const MetricDef& def : metric_table()) {
    CHECK_EQ(index_of(def.id), state_->layout.size());
    state_->add_metric(def);
  }
  set(MetricId::kEngineSleepState, 1, 0);
  publish();
}

EngineMetrics::~EngineMetrics() = default;

void EngineMetrics::set(MetricId id, double value, int label_index) {
  CHECK(state_->layout[index_of(id)].def->kind == Kind::kGauge);
  state_->working[state_->slot(id, label_index)] = value;
  if (id == MetricId::kKvCacheUsagePerc) set(MetricId::kGpuCacheUsagePerc, value);
}

void EngineMetrics::add(MetricId id, double value, int label_index) {
  const Kind kind = state_->layout[index_of(id)].def->kind;
  CHECK(kind == Kind::kGauge || (kind == Kind::kCounter && value >= 0));
  state_->working[state_->slot(id, label_index)] += value;
}

void EngineMetrics::observe(MetricId id, double value) {
  const Layout& m = state_->layout[index_of(id)];
  CHECK(m.def->kind == Kind::kHistogram);
  // A bucket holds what is at most its bound.
  const auto bucket = std::lower_bound(m.buckets.begin(), m.buckets.end(), value);
  double* numbers = state_->working.data() + m.offset;
  numbers[bucket - m.buckets.begin()] += 1;
  numbers[m.buckets.size() + 1] += value;
}

void EngineMetrics::publish() {
  std::lock_guard lock(state_->mutex);
  state_->published = state_->working;  // same size: no allocation after the first
}

void EngineMetrics::State::append_histogram(std::string& out, const Layout& m,
                                            const double* numbers) const {
  double count = 0;
  for (size_t i = 0; i < m.bucket_labels.size(); ++i) {
    count += numbers[i];
    append_sample(out, m.def->name, "_bucket", m.bucket_labels[i], count);
  }
  append_sample(out, m.def->name, "_count", m.child_labels[0], count);
  append_sample(out, m.def->name, "_sum", m.child_labels[0], numbers[m.buckets.size() + 1]);
}

void EngineMetrics::State::append_metric(std::string& out, const Layout& m, const double* numbers,
                                         bool created) const {
  const MetricDef& def = *m.def;
  if (def.kind == Kind::kHistogram) {
    append_header(out, def.name, def.help, "histogram");
    append_histogram(out, m, numbers);
  } else {
    const bool counter = def.kind == Kind::kCounter;
    const std::string family = std::string(def.name) + (counter ? "_total" : "");
    append_header(out, family, def.help, counter ? "counter" : "gauge");
    for (size_t i = 0; i < m.child_labels.size(); ++i) {
      append_sample(out, family, "", m.child_labels[i], numbers[i]);
    }
    if (!counter) return;
  }
  if (!created) return;
  append_header(out, std::string(def.name) + "_created", def.help, "gauge");
  for (const std::string& labels : m.child_labels) {
    append_sample(out, def.name, "_created", labels, options.now_wall_s);
  }
}

void EngineMetrics::append_text(std::string& out) const {
  const std::vector<double> numbers = state_->snapshot();
  const bool created = created_series_enabled();
  for (const Layout& m : state_->layout) {
    state_->append_metric(out, m, numbers.data() + m.offset, created);
  }
  if (state_->options.cache_config_info.empty()) return;
  append_header(out, "vllm:cache_config_info", "Information of the LLMEngine CacheConfig", "gauge");
  append_sample(out, "vllm:cache_config_info", "",
                label_text_with(state_->options.cache_config_info, "engine",
                                std::to_string(state_->options.engine_index)),
                1);
}

double EngineMetrics::value(MetricId id, int label_index) const {
  const Layout& m = state_->layout[index_of(id)];
  const size_t slot = state_->slot(id, label_index);
  std::lock_guard lock(state_->mutex);
  if (m.def->kind != Kind::kHistogram) return state_->published[slot];
  double count = 0;
  for (size_t i = 0; i < m.bucket_labels.size(); ++i) count += state_->published[slot + i];
  return count;
}

double EngineMetrics::histogram_sum(MetricId id) const {
  const Layout& m = state_->layout[index_of(id)];
  CHECK(m.def->kind == Kind::kHistogram);
  std::lock_guard lock(state_->mutex);
  return state_->published[m.offset + m.buckets.size() + 1];
}

}  // namespace octavo::observability
