#include "config/parse_serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "base/temp_folder.h"

namespace octavo::config {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string, std::less<>>;

Result<ParseOutcome> parse(const Words& args, const Variables& variables = {}) {
  return parse_serve(args, [&](std::string_view name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
}

Config config_of(const Words& args, const Variables& variables = {}) {
  auto outcome = parse(args, variables);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return outcome.ok() ? outcome->config : Config();
}

std::vector<std::string> warnings_of(const Words& args) {
  auto outcome = parse(args);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return outcome.ok() ? outcome->warnings : std::vector<std::string>();
}

std::string error_of(const Words& args, const Variables& variables = {}) {
  auto outcome = parse(args, variables);
  EXPECT_FALSE(outcome.ok()) << testing::PrintToString(args);
  if (outcome.ok()) return "";
  EXPECT_THAT(outcome.error().message,
              StartsWith("usage: octavo serve [model_tag] [options]\noctavo serve: error: "));
  return outcome.error().message;
}

/// A file that is removed with the object.
class TempFile {
 public:
  TempFile(std::string_view suffix, std::string_view text)
      : path_(folder_.write("f" + std::string(suffix), text)) {}
  const std::string& path() const { return path_; }

 private:
  TempFolder folder_;
  std::string path_;
};

TEST(ParseServe, WithoutArgumentsTheDefaultsStand) {
  const Config c = config_of({});
  EXPECT_EQ(c.engine.model.model, "");
  EXPECT_EQ(c.server.host, "127.0.0.1");
  EXPECT_EQ(c.server.port, 8000);
  EXPECT_EQ(c.server.shutdown_timeout_s, 30);
  EXPECT_EQ(c.frontend.log_stats_interval_s, 5.0);
  EXPECT_THAT(c.non_default_args, IsEmpty());
}

TEST(ParseServe, ReadsEveryKindOfValue) {
  const Config c = config_of({"m",
                              "--max-model-len",
                              "4k",
                              "--gpu_memory_utilization=0.5",
                              "--enable-prefix-caching",
                              "--no-enable-chunked-prefill",
                              "--api-key",
                              "k1",
                              "k2",
                              "--allowed-origins",
                              "[\"*\"]",
                              "--served-model-name",
                              "a",
                              "b",
                              "--kv-cache-memory-bytes",
                              "192M",
                              "--dtype",
                              "float32",
                              "--disable-log-stats",
                              "--seed",
                              "-3",
                              "--watermark",
                              "0.01"});
  EXPECT_EQ(c.engine.model.model, "m");
  EXPECT_EQ(c.engine.model.max_model_len, 4000);
  EXPECT_EQ(c.engine.cache.gpu_memory_utilization, 0.5);
  EXPECT_TRUE(c.engine.cache.user_specified_gpu_memory_utilization);
  EXPECT_EQ(c.engine.cache.enable_prefix_caching, true);
  EXPECT_EQ(c.engine.scheduler.enable_chunked_prefill, false);
  EXPECT_THAT(c.server.api_key, ElementsAre("k1", "k2"));
  EXPECT_THAT(c.server.allowed_origins, ElementsAre("*"));
  EXPECT_THAT(c.engine.model.served_model_name, ElementsAre("a", "b"));
  EXPECT_EQ(c.engine.cache.kv_cache_memory_bytes, 192 << 20);
  EXPECT_EQ(c.engine.model.dtype, "float32");
  EXPECT_TRUE(c.frontend.disable_log_stats);
  EXPECT_EQ(c.engine.model.seed, -3);
  EXPECT_TRUE(config_of({"--seed", "0"}).engine.model.user_specified_seed);
  EXPECT_FALSE(config_of({}).engine.model.user_specified_seed);
  EXPECT_EQ(config_of({"--prefix-caching-hash-algo", "xxhash_cbor"})
                .engine.cache.prefix_caching_hash_algo,
            "xxhash_cbor");
  EXPECT_EQ(c.engine.scheduler.watermark, 0.01);
}

TEST(ParseServe, BooleansHaveAllTheirSpellings) {
  const auto caching = [](const Words& args) {
    return config_of(args).engine.cache.enable_prefix_caching;
  };
  EXPECT_EQ(caching({}), std::nullopt);
  EXPECT_EQ(caching({"--enable-prefix-caching"}), true);
  EXPECT_EQ(caching({"--enable_prefix_caching"}), true);
  EXPECT_EQ(caching({"--no-enable-prefix-caching"}), false);
  EXPECT_EQ(caching({"--disable-prefix-caching"}), false);
  EXPECT_EQ(caching({"--enable-prefix-caching", "false"}), false);
  EXPECT_EQ(caching({"--enable-prefix-caching=true"}), true);
  EXPECT_EQ(caching({"--no-enable-prefix-caching=false"}), true);
  EXPECT_TRUE(config_of({"--disable-uvicorn-access-log"}).server.disable_uvicorn_access_log);
  EXPECT_FALSE(config_of({"--enable-uvicorn-access-log"}).server.disable_uvicorn_access_log);
  EXPECT_THAT(error_of({"--enable-prefix-caching=maybe"}), HasSubstr("invalid bool value"));
  EXPECT_THAT(error_of({"--no-disable-log-stats"}), HasSubstr("unrecognized arguments"));
  EXPECT_THAT(error_of({"--disable-log-stats=1"}), HasSubstr("ignored explicit argument"));
}

TEST(ParseServe, UnambiguousBeginningsOfNamesAreRead) {
  EXPECT_EQ(config_of({"--kv-cache-memory", "1G"}).engine.cache.kv_cache_memory_bytes, 1 << 30);
  EXPECT_EQ(config_of({"--max-num-se", "4", "--por", "1"}).server.port, 1);
  EXPECT_EQ(config_of({"--device-memory-utilization", "0.1"}).engine.cache.gpu_memory_utilization,
            0.1);
  EXPECT_THAT(error_of({"--max-num", "4"}),
              AllOf(HasSubstr("ambiguous option: --max-num"), HasSubstr("--max-num-seqs")));
}

TEST(ParseServe, UnknownFlagsAreRefusedWithASuggestion) {
  EXPECT_THAT(error_of({"--max-modle-len", "4"}),
              HasSubstr("unrecognized arguments: --max-modle-len (did you mean --max-model-len?)"));
  EXPECT_THAT(error_of({"--api_keys", "4"}), HasSubstr("(did you mean --api-key?)"));
  EXPECT_THAT(error_of({"--entirely-different"}),
              testing::EndsWith("unrecognized arguments: --entirely-different"));
  EXPECT_THAT(error_of({"--task", "embed"}), HasSubstr("--runner pooling and --convert"));
  EXPECT_THAT(error_of({"--omni"}), HasSubstr("text only"));
  EXPECT_THAT(error_of({"-x"}), HasSubstr("unrecognized arguments: -x"));
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("unrecognized arguments: b"));
  EXPECT_THAT(error_of({"--port.x", "1"}), HasSubstr("unrecognized arguments: --port.x"));
}

TEST(ParseServe, BadValuesNameFlagAndBound) {
  EXPECT_THAT(error_of({"--port", "x"}), HasSubstr("argument --port: invalid int value: 'x'"));
  EXPECT_THAT(error_of({"--port", "65536"}), HasSubstr("allowed is >=0 <=65535"));
  EXPECT_THAT(error_of({"--port", "99999999999999999999"}), HasSubstr("invalid int value"));
  EXPECT_THAT(error_of({"--port"}), HasSubstr("argument --port: expected one argument"));
  EXPECT_THAT(error_of({"--api-key", "--port", "1"}), HasSubstr("expected at least one argument"));
  EXPECT_THAT(error_of({"--gpu-memory-utilization", "0"}), HasSubstr("allowed is >0 <=1"));
  EXPECT_THAT(error_of({"--gpu-memory-utilization", "nan"}), HasSubstr("invalid float value"));
  EXPECT_THAT(error_of({"--dtype", "int8"}), HasSubstr("invalid choice: 'int8'"));
  EXPECT_THAT(error_of({"--load-format", "pt"}), HasSubstr("choose from auto, hf, safetensors"));
  EXPECT_THAT(error_of({"--max-model-len", "0"}), HasSubstr("argument --max-model-len: 0"));
  EXPECT_THAT(error_of({"--max-model-len", "1.5K"}), HasSubstr("1.5k"));
  EXPECT_THAT(error_of({"--allowed-origins", "a"}), HasSubstr("JSON list"));
  EXPECT_THAT(error_of({"--override-generation-config", "[1]"}), HasSubstr("JSON object"));
}

TEST(ParseServe, MaxModelLenTakesAuto) {
  EXPECT_EQ(config_of({"--max-model-len", "auto"}).engine.model.max_model_len, -1);
  EXPECT_EQ(config_of({"--max-model-len", "-1"}).engine.model.max_model_len, -1);
  EXPECT_EQ(config_of({"--max-model-len", "None"}).engine.model.max_model_len, std::nullopt);
  EXPECT_EQ(config_of({"--max-model-len="}).engine.model.max_model_len, std::nullopt);
}

TEST(ParseServe, TheLastOfTwoValuesCountsAndIsWarnedAbout) {
  EXPECT_EQ(config_of({"--port", "1", "--port", "2"}).server.port, 2);
  EXPECT_THAT(warnings_of({"--port", "1", "--port", "2", "--seed", "1"}),
              ElementsAre(HasSubstr("duplicate keys --port;")));
  EXPECT_THAT(warnings_of({"-cc.mode=3", "-cc.mode=2", "-cc.x=1"}),
              ElementsAre(HasSubstr("--compilation-config.mode")));
  EXPECT_THAT(warnings_of({"--port", "1"}), IsEmpty());
}

TEST(ParseServe, DottedKeysMergeIntoJson) {
  const Config c = config_of({"--override-generation-config", R"({"top_k": 5, "temperature": 1})",
                              "--override_generation_config.temperature", "0.5",
                              "--override-generation-config.max_new_tokens=1k"});
  EXPECT_EQ(c.engine.model.override_generation_config,
            R"({"max_new_tokens":1000,"temperature":0.5,"top_k":5})");
  EXPECT_EQ(config_of({"--default-chat-template-kwargs.enable_thinking=false"})
                .frontend.default_chat_template_kwargs,
            R"({"enable_thinking":false})");
}

TEST(ParseServe, LaterFlagsAreRefusedByNameUnlessNeutral) {
  for (const Words& args : std::vector<Words>{{"--enable-lora"},
                                              {"--tensor-parallel-size", "2"},
                                              {"-tp", "2"},
                                              {"--runner", "pooling"},
                                              {"--kv-transfer-config", R"({"a": 1})"},
                                              {"--speculative-config.method", "ngram"},
                                              {"--lora-modules", "a=b"},
                                              {"--middleware", "a"},
                                              {"--hf-token"},
                                              {"--tokenizer-mode", "slow"},
                                              {"--data-parallel-size", "2"}}) {
    EXPECT_THAT(error_of(args), AllOf(HasSubstr("octavo knows this flag"),
                                      HasSubstr("belongs to a later version")));
  }
  const auto outcome =
      parse({"m", "-tp", "1", "-pp=1", "--data-parallel-size=1", "--runner", "generate",
             "--runner=auto", "--tokenizer-mode", "hf", "--no-enable-lora", "--kv-transfer-config",
             "None", "--speculative-config={}", "--convert", "none", "--nnodes", "1"});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_THAT(outcome->notes, Contains(HasSubstr("--tensor-parallel-size belongs to a later")));
}

TEST(ParseServe, FlagsWithoutEffectAreAccepted) {
  const auto outcome = parse({"m",
                              "--trust-remote-code",
                              "--enforce-eager",
                              "--async-scheduling",
                              "false",
                              "--no-async-scheduling",
                              "-O3",
                              "-O",
                              "2",
                              "-O=1",
                              "--compilation-config",
                              R"({"mode": 3})",
                              "-cc.pass_config.fuse_x=true",
                              "--cudagraph-capture-sizes",
                              "1",
                              "2",
                              "--limit-mm-per-prompt",
                              R"({"image": 0})",
                              "--use-tqdm-on-load",
                              "--disable-custom-all-reduce",
                              "--disable-fastapi-docs",
                              "--attention-backend",
                              "X"});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_THAT(outcome->notes, Contains(HasSubstr("--enforce-eager has no effect here")));
}

TEST(ParseServe, ModelByFlagWarnsAndThePositionalWins) {
  EXPECT_EQ(config_of({"--model", "x"}).engine.model.model, "x");
  EXPECT_EQ(config_of({"m", "--model", "x"}).engine.model.model, "m");
  EXPECT_EQ(config_of({"--port", "1", "m"}).engine.model.model, "m");
  EXPECT_EQ(config_of({"--", "-m"}).engine.model.model, "-m");
  EXPECT_THAT(warnings_of({"--model", "x"}), ElementsAre(HasSubstr("positional argument")));
  EXPECT_THAT(error_of({"--served-model-name", "a", "m"}), HasSubstr("--served-model-name needs"));
}

TEST(ParseServe, CommandLineBeatsFileBeatsEnvironment) {
  const TempFile file(".yaml",
                      "model: from-file\nport: 1\nmax_num_seqs: 7\napi-key: [k1, k2]\n"
                      "enable-prefix-caching: false\nenable-log-requests: true\n"
                      "disable-log-stats: false\nallowed-origins: [\"*\"]\nmax-model-len: 8k\n"
                      "override-generation-config: {temperature: 0.5, nested: {a: [1, x]}}\n"
                      "uds: null\n");
  const Config c = config_of({"--config", file.path(), "--port", "2"},
                             {{"VLLM_API_KEY", "env"}, {"VLLM_LOGGING_LEVEL", "debug"}});
  EXPECT_EQ(c.engine.model.model, "from-file");
  EXPECT_EQ(c.server.port, 2);
  EXPECT_EQ(c.engine.scheduler.max_num_seqs, 7);
  EXPECT_THAT(c.server.api_key, ElementsAre("k1", "k2"));
  EXPECT_EQ(c.log_level, "DEBUG");
  EXPECT_EQ(c.engine.cache.enable_prefix_caching, false);
  EXPECT_TRUE(c.frontend.enable_log_requests);
  EXPECT_FALSE(c.frontend.disable_log_stats);
  EXPECT_THAT(c.server.allowed_origins, ElementsAre("*"));
  EXPECT_EQ(c.engine.model.max_model_len, 8000);
  EXPECT_EQ(c.engine.model.override_generation_config,
            R"({"nested":{"a":[1,"x"]},"temperature":0.5})");
  EXPECT_EQ(config_of({"m", "--config", file.path()}).engine.model.model, "m");
  EXPECT_EQ(config_of({"--config", file.path(), "--override-generation-config.temperature", "1"})
                .engine.model.override_generation_config,
            R"({"nested":{"a":[1,"x"]},"temperature":1})");
  EXPECT_THAT(warnings_of({"--config", file.path(), "--port", "2"}), IsEmpty());
}

TEST(ParseServe, BadConfigFilesAreExplained) {
  const auto error = [](std::string_view text) {
    const TempFile file(".yaml", text);
    return error_of({"m", "--config", file.path()});
  };
  EXPECT_THAT(error_of({"--config", "missing.yaml"}), HasSubstr("there is no such file"));
  EXPECT_THAT(error_of({"--config", "x.json"}), HasSubstr("must end in .yaml or .yml"));
  EXPECT_THAT(error("a: [1"), HasSubstr("line "));
  EXPECT_THAT(error("- a"), HasSubstr("is no map of flags"));
  EXPECT_THAT(error("prot: 1"), HasSubstr("did you mean --port?"));
  EXPECT_THAT(error("config: a.yaml"), HasSubstr("another config file"));
  EXPECT_THAT(error("port: x"), HasSubstr("argument --port"));
  EXPECT_THAT(error("hf-overrides: " + std::string(100, '{') + std::string(100, '}')),
              HasSubstr("config file"));
  EXPECT_THAT(error(std::string(2 << 20, '#')), HasSubstr("longer than"));
  EXPECT_THAT(error("a: " + std::string(100'000, '[')), HasSubstr("config file"));
  std::string bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string previous = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += previous + ",";
    bomb += "]\n";
  }
  EXPECT_THAT(error(bomb), HasSubstr("config file"));
  const TempFile file(".yaml", "port: 1\n");
  EXPECT_THAT(error_of({"--config", file.path()}), HasSubstr("no model"));
  EXPECT_THAT(error_of({"m", "--config", file.path(), "--config", file.path()}),
              HasSubstr("only one config file"));
}

TEST(ParseServe, ReadsTheEnvironment) {
  const Config c = config_of({}, {{"VLLM_API_KEY", "secret"},
                                  {"VLLM_LOG_STATS_INTERVAL", "2.5"},
                                  {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "9"},
                                  {"VLLM_CPU_KVCACHE_SPACE", "2"},
                                  {"VLLM_CPU_OMP_THREADS_BIND", "0-2"},
                                  {"VLLM_CPU_NUM_OF_RESERVED_CPU", "1"},
                                  {"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "1"},
                                  {"VLLM_MAX_N_SEQUENCES", "4"},
                                  {"PYTHONHASHSEED", "12"},
                                  {"VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"}});
  EXPECT_THAT(c.server.api_key, ElementsAre("secret"));
  EXPECT_EQ(c.frontend.log_stats_interval_s, 2.5);
  EXPECT_EQ(c.server.keep_alive_timeout_s, 9);
  EXPECT_EQ(c.engine.cache.kv_cache_memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(c.engine.cpus, "0-2");
  EXPECT_EQ(c.engine.num_reserved_cpus, 1);
  EXPECT_THAT(error_of({}, {{"VLLM_CPU_NUM_OF_RESERVED_CPU", "-1"}}), HasSubstr("a count of CPUs"));
  EXPECT_TRUE(c.server.keep_alive_on_engine_death);
  EXPECT_EQ(c.frontend.max_n_sequences, 4);
  EXPECT_TRUE(c.engine.model.allow_long_max_model_len);
  EXPECT_EQ(c.engine.cache.python_hash_seed, "12");
  EXPECT_THAT(config_of({"--api-key", "flag"}, {{"VLLM_API_KEY", "env"}}).server.api_key,
              ElementsAre("flag"));
  EXPECT_EQ(config_of({}, {{"VLLM_LOG_STATS_INTERVAL", "0"}}).frontend.log_stats_interval_s, 5.0);
  EXPECT_THAT(config_of({}, {{"VLLM_API_KEY", ""}}).server.api_key, IsEmpty());
  EXPECT_THAT(error_of({}, {{"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "x"}}),
              HasSubstr("environment variable VLLM_HTTP_TIMEOUT_KEEP_ALIVE is 'x'"));
  EXPECT_THAT(error_of({}, {{"VLLM_LOGGING_LEVEL", "loud"}}), HasSubstr("VLLM_LOGGING_LEVEL"));
}

TEST(Environment, VariablesThatNothingReadsAreNamed) {
  const Words names = {"VLLM_USE_V1", "PATH", "VLLM_API_KEY", "VLLM_ATTENTION_BACKEND"};
  EXPECT_THAT(unread_variables(names), ElementsAre("VLLM_ATTENTION_BACKEND", "VLLM_USE_V1"));
  EXPECT_FALSE(process_variable_names().empty());
}

TEST(ParseServe, StartLineHidesSecrets) {
  const Config c = config_of({"m", "--api-key", "hush", "--port", "8000", "--seed", "4"});
  EXPECT_THAT(c.non_default_args,
              testing::UnorderedElementsAre(Pair("model_tag", "m"), Pair("api_key", "***"),
                                            Pair("seed", "4")));
}

TEST(ParseServe, TheCommandLineIsKeptWholeButForSecrets) {
  const Config c =
      config_of({"m", "--api_key", "hush", "hush2", "--seed=0", "--no-enable-prefix-caching"});
  EXPECT_THAT(c.command_line, ElementsAre("m", "--api-key", "***", "***", "--seed", "0",
                                          "--no-enable-prefix-caching"));
}

TEST(ParseServe, StartLineIsADictOfPython) {
  EXPECT_EQ(python_dict({}), "{}");
  const auto shown =
      python_dict(config_of({"it's", "--api-key", "hush", "--served-model-name", "a b", "c",
                             "--max-model-len", "4k", "--kv-cache-memory-bytes", "1K",
                             "--gpu-memory-utilization", "0.5", "--enable-prefix-caching",
                             "--dtype", "float32", "--override-generation-config.top_k", "3"})
                      .non_default_args);
  for (const char* part :
       {"'model_tag': \"it's\"", "'api_key': '***'", "'served_model_name': ['a b', 'c']",
        "'max_model_len': 4000", "'kv_cache_memory_bytes': 1024", "'gpu_memory_utilization': 0.5",
        "'enable_prefix_caching': True", "'dtype': 'float32'",
        "'override_generation_config': {\"top_k\":3}"}) {
    EXPECT_THAT(shown, HasSubstr(part));
  }
  EXPECT_EQ(python_dict(config_of({"m", "--served-model-name", "a b"}).non_default_args),
            "{'model_tag': 'm', 'served_model_name': ['a b']}");
  EXPECT_EQ(python_dict(config_of({"--max-model-len", "auto"}).non_default_args),
            "{'max_model_len': 'auto'}");
}

TEST(ParseServe, ChecksBeforeLoading) {
  EXPECT_THAT(error_of({"--chat-template", "no-such-file.jinja"}),
              HasSubstr("neither a file nor a template"));
  EXPECT_EQ(config_of({"--chat-template", "{{ x }}"}).frontend.chat_template, "{{ x }}");
  EXPECT_THAT(error_of({"--generation-config", "nowhere"}), HasSubstr("--generation-config"));
  EXPECT_THAT(error_of({"--sse-keep-alive-interval", "-1"}), HasSubstr("out of range"));
}

TEST(ParseServe, HelpIsGrouped) {
  const auto help = [](const std::string& flag) { return parse({"m", flag, "--bad"})->help_text; };
  EXPECT_THAT(help("--help"), AllOf(HasSubstr("Config Groups:"), HasSubstr("\n  CacheConfig\n"),
                                    testing::Not(HasSubstr("--block-size"))));
  EXPECT_EQ(help("-h"), help("--help"));
  EXPECT_THAT(help("--help=cacheconfig"),
              AllOf(HasSubstr("--block-size N"), HasSubstr("(default: 16)"),
                    HasSubstr("--enable-prefix-caching, --disable-prefix-caching"),
                    testing::Not(HasSubstr("--port"))));
  EXPECT_THAT(help("--help=all"), AllOf(HasSubstr("--block-size N"), HasSubstr("--port N")));
  EXPECT_THAT(help("--help=max_num"),
              AllOf(HasSubstr("--max-num-seqs N"), testing::Not(HasSubstr("--port"))));
  EXPECT_THAT(help("--help=xyzzy"), AllOf(HasSubstr("No group or flag matches 'xyzzy'")));
  EXPECT_THAT(help("--help=markdown"),
              AllOf(StartsWith("# Flags of `octavo serve`\n"),
                    HasSubstr("| `--host` | text | `127.0.0.1` (vLLM: unset) |")));
}

/// docs/reference/flags.md is written by --help=markdown.
TEST(ParseServe, ReferenceOfFlagsIsCurrent) {
  std::ifstream in(OCTAVO_SOURCE_DIR "/docs/reference/flags.md");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(text == parse({"--help=markdown"})->help_text)
      << "run: octavo serve --help=markdown > docs/reference/flags.md";
}

}  // namespace
}  // namespace octavo::config
