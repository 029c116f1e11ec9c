#include "config/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "config/arguments.h"
#include "config/value.h"

namespace octavo::config {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(Flags, NamesAreUniqueAndDashed) {
  std::set<std::string_view> names;
  for (const Flag* flag : all_flags()) {
    EXPECT_TRUE(names.insert(flag->name).second) << flag->name;
    EXPECT_EQ(flag->name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string_view::npos)
        << flag->name;
    if (!flag->extra.short_name.empty()) {
      EXPECT_TRUE(names.insert(flag->extra.short_name).second) << flag->extra.short_name;
    }
  }
  EXPECT_EQ(engine_flags().size() + frontend_flags().size() + octavo_flags().size() +
                no_effect_flags().size() + later_flags().size(),
            all_flags().size());
}

TEST(Flags, EveryFlagOfTheContractIsKnown) {
  // 254 engine, 62 front-end and 4 launcher flags; octavo's own come on top.
  EXPECT_EQ(all_flags().size() - octavo_flags().size(), 320u);
}

TEST(Flags, OnlyBuiltFlagsApply) {
  for (const Flag* flag : all_flags()) {
    EXPECT_EQ(flag->apply != nullptr, flag->stage == Stage::kBuilt) << flag->name;
    EXPECT_TRUE(flag->tier == 'A' || flag->tier == 'B' || flag->tier == 'C') << flag->name;
    EXPECT_FALSE(flag->stage == Stage::kBuilt && flag->help.empty()) << flag->name;
    EXPECT_FALSE(flag->kind == Kind::kEnum && flag->extra.choices.empty()) << flag->name;
  }
}

TEST(Flags, DefaultsDifferFromVllmOnlyWhereDesignSaysSo) {
  std::map<std::string_view, std::string_view> differing;
  for (const Flag* flag : all_flags()) {
    if (!flag->extra.octavo_default.empty()) {
      differing.emplace(flag->name, flag->extra.octavo_default);
    }
  }
  EXPECT_THAT(
      differing,
      UnorderedElementsAre(Pair("host", "127.0.0.1"), Pair("enable-prompt-tokens-details", "True"),
                           Pair("shutdown-timeout", "30"), Pair("block-size", "16")));
}

/// Reading a flag's default and applying it must change nothing: the table and config.h agree.
TEST(Flags, DefaultsOfTheTableAreThoseOfConfig) {
  for (const Flag* flag : all_flags()) {
    const std::string text(flag->effective_default());
    if (flag->stage != Stage::kBuilt || text == "unset") continue;
    Assignment use{.flag = flag, .words = {text}, .dotted = {}};
    use.boolean = text == "True";
    const auto value = read_value(*flag, {&use});
    ASSERT_TRUE(value.ok()) << flag->name << ": " << value.error().message;
    Config applied;
    flag->apply(applied, *value);
    const Config untouched;
    const EngineConfig &a = applied.engine, &b = untouched.engine;
    EXPECT_EQ(std::tie(a.model.dtype, a.model.seed, a.model.max_logprobs, a.model.load_format,
                       a.model.generation_config, a.model.override_generation_config, a.kernel,
                       a.num_threads, a.max_queued_prompt_bytes),
              std::tie(b.model.dtype, b.model.seed, b.model.max_logprobs, b.model.load_format,
                       b.model.generation_config, b.model.override_generation_config, b.kernel,
                       b.num_threads, b.max_queued_prompt_bytes))
        << flag->name;
    EXPECT_EQ(std::tie(a.cache.block_size, a.cache.gpu_memory_utilization, a.cache.kv_cache_dtype,
                       a.cache.prefix_caching_hash_algo, a.scheduler.scheduling_policy,
                       a.scheduler.scheduler_reserve_full_isl, a.scheduler.watermark,
                       a.scheduler.long_prefill_token_threshold, a.scheduler.performance_mode),
              std::tie(b.cache.block_size, b.cache.gpu_memory_utilization, b.cache.kv_cache_dtype,
                       b.cache.prefix_caching_hash_algo, b.scheduler.scheduling_policy,
                       b.scheduler.scheduler_reserve_full_isl, b.scheduler.watermark,
                       b.scheduler.long_prefill_token_threshold, b.scheduler.performance_mode))
        << flag->name;
    const ServerConfig &s = applied.server, &t = untouched.server;
    EXPECT_EQ(std::tie(s.host, s.port, s.unguarded_metrics, s.disable_uvicorn_access_log,
                       s.enable_request_id_headers, s.enable_server_load_tracking,
                       s.allowed_origins, s.allowed_methods, s.allowed_headers, s.allow_credentials,
                       s.shutdown_timeout_s, s.sse_keep_alive_interval_s),
              std::tie(t.host, t.port, t.unguarded_metrics, t.disable_uvicorn_access_log,
                       t.enable_request_id_headers, t.enable_server_load_tracking,
                       t.allowed_origins, t.allowed_methods, t.allowed_headers, t.allow_credentials,
                       t.shutdown_timeout_s, t.sse_keep_alive_interval_s))
        << flag->name;
    EXPECT_EQ(
        std::tie(s.max_request_body_bytes, s.max_header_bytes, s.max_header_count,
                 s.header_timeout_ms, s.body_timeout_ms, s.write_timeout_ms, s.max_connections,
                 s.max_json_depth, s.max_buffered_response_bytes, s.num_http_threads),
        std::tie(t.max_request_body_bytes, t.max_header_bytes, t.max_header_count,
                 t.header_timeout_ms, t.body_timeout_ms, t.write_timeout_ms, t.max_connections,
                 t.max_json_depth, t.max_buffered_response_bytes, t.num_http_threads))
        << flag->name;
    const FrontendConfig &f = applied.frontend, &g = untouched.frontend;
    EXPECT_EQ(std::tie(f.chat_template_content_format, f.trust_request_chat_template,
                       f.response_role, f.return_tokens_as_token_ids, f.enable_force_include_usage,
                       f.special_tokens_in_content, f.enable_log_requests, f.stream_interval,
                       f.disable_log_stats),
              std::tie(g.chat_template_content_format, g.trust_request_chat_template,
                       g.response_role, g.return_tokens_as_token_ids, g.enable_force_include_usage,
                       g.special_tokens_in_content, g.enable_log_requests, g.stream_interval,
                       g.disable_log_stats))
        << flag->name;
  }
}

/// The default of a flag that is not built must itself be accepted.
TEST(Flags, DefaultsOfLaterFlagsAreNeutral) {
  for (const Flag& flag : later_flags()) {
    if (flag.kind == Kind::kList || flag.kind == Kind::kRepeat) continue;
    const std::string text = flag.default_text == "unset" ? "None" : std::string(flag.default_text);
    Assignment use{.flag = &flag, .words = {text}, .dotted = {}};
    use.boolean = text == "True";
    const auto value = read_value(flag, {&use});
    ASSERT_TRUE(value.ok()) << flag.name << ": " << value.error().message;
    EXPECT_TRUE(is_neutral(flag, *value)) << flag.name;
  }
}

}  // namespace
}  // namespace octavo::config
