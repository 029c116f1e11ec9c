#include "bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/numpy_random.h"
#include "bench/offline_command.h"
#include "bench/run_record.h"

namespace octavo::bench {
namespace {

using config::OptionKind;
using Json = nlohmann::ordered_json;

constexpr auto kFlags = std::to_array<config::Option>({
    {"input-len", OptionKind::kInt, "128", "Tokens of a prompt."},
    {"output-len", OptionKind::kInt, "32", "Tokens of an answer."},
    {"batch-size", OptionKind::kInt, "1", "Prompts at once."},
    {"num-iters-warmup", OptionKind::kInt, "1", "Iterations that are not counted."},
    {"num-iters", OptionKind::kInt, "3", "Iterations."},
    {"output-json", OptionKind::kText, "", "File of the result."},
});
constexpr auto kCounts =
    std::to_array<std::string_view>({"input-len", "output-len", "batch-size", "num-iters"});

/// Steps are to be timed, and each iteration is to compute its prompt.
Status adjust(const config::CommandLine&, config::Config& config) {
  config.engine.profile = true;
  config.engine.cache.enable_prefix_caching = false;
  return {};
}

Result<StepTimes> run_engine(OfflineCommand& command) {
  const config::CommandLine& line = command.line;
  NumpyLegacy random(0);
  std::vector<OfflineRequest> batch(static_cast<size_t>(line.integer("batch-size")));
  for (OfflineRequest& request : batch) {
    const auto ids = random.randint(0, std::min<int64_t>(10000, command.engine->vocab_size()),
                                    static_cast<size_t>(line.integer("input-len")));
    request.prompt.assign(ids.begin(), ids.end());
    request.max_tokens = line.integer("output-len");
  }
  for (int64_t i = 0; i < line.integer("num-iters-warmup"); ++i) {
    OCTAVO_TRY(command.engine->generate(batch, 1));
  }
  (void)command.engine->take_step_times();
  for (int64_t i = 0; i < line.integer("num-iters"); ++i) {
    OCTAVO_TRY(command.engine->generate(batch, 1));
  }
  auto times = command.engine->take_step_times();
  if (!times) return Error{Code::kInternal, "the engine kept no account of its steps"};
  return std::move(*times);
}

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string bytes_text(double bytes) {
  return bytes < (1 << 20) ? fmt::format("{:.0f} KiB", bytes / 1024)
                           : fmt::format("{:.0f} MiB", bytes / (1 << 20));
}

double least_seconds(const PhaseTimes& phase) {
  double sum = 0;
  for (const OpTime& op : phase.ops) sum += op.least_seconds;
  return sum;
}

/// What keeps an op from being faster: "memory", its arithmetic, or "-" when its work is unknown.
std::string_view bound_of(const OpTime& op) {
  if (op.least_seconds <= 0) return "-";
  return op.reading_seconds >= op.least_seconds ? std::string_view("memory") : op.unit;
}

Json roofs_json(const MachineRoofs& roofs) {
  return {{"read_gb_s", roofs.read_gb_s},
          {"f32_gflop_s", roofs.f32_gflop_s},
          {"bf16_gflop_s", roofs.bf16_gflop_s},
          {"int8_gop_s", roofs.int8_gop_s}};
}

Json phase_json(const PhaseTimes& phase) {
  if (phase.num_steps == 0) return nullptr;
  const auto steps = double(phase.num_steps);
  const double least = least_seconds(phase);
  Json out{{"num_steps", phase.num_steps},
           {"num_tokens", phase.num_tokens},
           {"step_ms", phase.seconds * 1e3 / steps},
           {"tokens_per_s", rate(double(phase.num_tokens), phase.seconds)},
           {"limit_step_ms", least * 1e3 / steps},
           {"limit_tokens_per_s", rate(double(phase.num_tokens), least)},
           {"share_of_limit", rate(least, phase.seconds)},
           {"ops", Json::object()}};
  for (const OpTime& op : phase.ops) {
    const bool has_limit = op.least_seconds > 0;
    out["ops"][op.name] = {
        {"step_us", op.seconds * 1e6 / steps},
        {"share_of_step", rate(op.seconds, phase.seconds)},
        {"gb_s", rate(op.bytes / 1e9, op.seconds)},
        {"gop_s", rate(op.ops / 1e9, op.seconds)},
        {"arithmetic", op.unit},
        {"limit_step_us", has_limit ? Json(op.least_seconds * 1e6 / steps) : Json()},
        {"share_of_limit", has_limit ? Json(rate(op.least_seconds, op.seconds)) : Json()},
        {"bound_by", has_limit ? Json(bound_of(op)) : Json()}};
  }
  return out;
}

std::string format_roofs(const StepTimes& times) {
  const MachineRoofs& roofs = times.roofs;
  return fmt::format(
      "Limits: weights {} ({:.1f} MB), KV cache {}; at the engine's start the machine read {:.1f} "
      "GB/s over as many bytes,\nf32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, int8 {:.0f} GOP/s\n",
      times.weight_format, times.weight_bytes / 1e6, times.kv_cache_dtype, roofs.read_gb_s,
      roofs.f32_gflop_s, roofs.bf16_gflop_s, roofs.int8_gop_s);
}

}  // namespace

std::string format_machine(const Machine& machine) {
  std::string out = fmt::format("Machine: kernels {}\n{:<28}{:>10}{:>12}{:>12}\n", machine.isa, "",
                                "", "1 thread", fmt::format("{} threads", machine.num_threads));
  const auto row = [&](const std::string& name, std::string_view unit, double one, double all) {
    if (one <= 0) return;
    out += fmt::format("  {:<26}{:>10}{:>12.1f}{:>12.1f}\n", name, unit, one, all);
  };
  for (const MemoryLevel& level : machine.levels) {
    const char* whose = level.name == "memory" ? "" : " a thread";
    row(fmt::format("{}, {}{}", level.name, bytes_text(level.working_set), whose), "GB/s",
        level.one_thread_gb_s, level.all_threads_gb_s);
  }
  const MachineRoofs& one = machine.one_thread;
  const MachineRoofs& all = machine.all_threads;
  row("f32 multiply-add", "GFLOP/s", one.f32_gflop_s, all.f32_gflop_s);
  row("bf16 dot product", "GFLOP/s", one.bf16_gflop_s, all.bf16_gflop_s);
  row("int8 dot product", "GOP/s", one.int8_gop_s, all.int8_gop_s);
  return out;
}

std::string format_phase(std::string_view name, const PhaseTimes& phase) {
  if (phase.num_steps == 0) return "";
  const auto steps = double(phase.num_steps);
  const auto tokens = double(phase.num_tokens);
  const double least = least_seconds(phase);
  std::string out = fmt::format(
      "{}: {} steps of {:.1f} tokens; {:.3f} ms a step, {:.0f} tokens/s; limit {:.3f} ms, {:.0f} "
      "tokens/s: {:.0f} % reached\n",
      name, phase.num_steps, tokens / steps, phase.seconds * 1e3 / steps,
      rate(tokens, phase.seconds), least * 1e3 / steps, rate(tokens, least),
      percent(least, phase.seconds));
  out += fmt::format("  {:<14}{:>11}{:>8}{:>9}{:>10}{:>11}{:>9}  {}\n", "op", "us a step", "share",
                     "GB/s", "GOP/s", "limit us", "reached", "bound by");
  double known = 0;
  for (const OpTime& op : phase.ops) {
    known += op.seconds;
    const bool has_limit = op.least_seconds > 0;
    out += fmt::format(
        "  {:<14}{:>11.1f}{:>6.1f} %{:>9.1f}{:>10.1f}{:>11}{:>9}  {}\n", op.name,
        op.seconds * 1e6 / steps, percent(op.seconds, phase.seconds),
        rate(op.bytes / 1e9, op.seconds), rate(op.ops / 1e9, op.seconds),
        has_limit ? fmt::format("{:.1f}", op.least_seconds * 1e6 / steps) : "-",
        has_limit ? fmt::format("{:.0f} %", percent(op.least_seconds, op.seconds)) : "-",
        bound_of(op));
  }
  const double rest = std::max(phase.seconds - known, 0.0);
  out += fmt::format("  {:<14}{:>11.1f}{:>6.1f} %\n", "rest", rest * 1e6 / steps,
                     percent(rest, phase.seconds));
  return out;
}

nlohmann::ordered_json roofline_json(const std::string& model, const Machine& machine,
                                     const StepTimes& times) {
  Json levels = Json::array();
  for (const MemoryLevel& level : machine.levels) {
    levels.push_back({{"name", level.name},
                      {"working_set_bytes", level.working_set},
                      {"one_thread_gb_s", level.one_thread_gb_s},
                      {"all_threads_gb_s", level.all_threads_gb_s}});
  }
  return {
      {"model_id", model},
      {"weight_format", times.weight_format},
      {"weight_bytes", times.weight_bytes},
      {"kv_cache_dtype", times.kv_cache_dtype},
      {"machine",
       {{"kernels", machine.isa},
        {"num_threads", machine.num_threads},
        {"levels", std::move(levels)},
        {"one_thread", roofs_json(machine.one_thread)},
        {"all_threads", roofs_json(machine.all_threads)}}},
      {"limits", roofs_json(times.roofs)},
      {"phases", {{"prefill", phase_json(times.prefill)}, {"decode", phase_json(times.decode)}}},
      {"between_steps_us", times.gap_seconds * 1e6}};
}

int run_roofline(std::span<const std::string> args, const Host& host) {
  int exit_code = 0;
  auto command = open_offline("roofline", kFlags, args, host, adjust, exit_code);
  if (!command) return exit_code;
  const auto fail = [&](int code, const std::string& message) {
    fmt::print(host.err, "octavo bench roofline: error: {}\n", message);
    return code;
  };
  if (const Status status = check_batch(command->line, *command->engine, kCounts); !status.ok()) {
    return fail(2, status.error().message);
  }
  const auto machine = host.measure_machine(command->config);
  if (!machine.ok()) return fail(1, machine.error().message);
  fmt::print(host.out, "{}", format_machine(*machine));
  if (const auto load = read_noise().load1) {
    fmt::print(host.out, "  load of the last minute {:.2f}: what others take is missing above\n",
               *load);
  }
  fmt::print(host.out, "\n");
  std::fflush(host.out);
  const auto times = run_engine(*command);
  if (!times.ok()) return fail(1, times.error().message);
  fmt::print(host.out, "Model: {}\n{}\n{}\n{}", command->engine->model(), format_roofs(*times),
             format_phase("prefill", times->prefill), format_phase("decode", times->decode));
  if (times->gap_seconds > 0) {
    fmt::print(host.out, "\nbetween steps (schedule, publish): {:.1f} us\n",
               times->gap_seconds * 1e6);
  }
  const std::string& path = command->line.text("output-json");
  if (path.empty()) return 0;
  return write_json(path, roofline_json(command->engine->model(), *machine, *times).dump(4), host);
}

}  // namespace octavo::bench
