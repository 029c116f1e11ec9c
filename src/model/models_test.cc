#include "model/models.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/architectures/common.h"
#include "model/test_checkpoint.h"

namespace octavo::model {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// A small Llama with `extra` members, which replace nothing: keys must be unique.
std::string llama(const std::string& extra = "", const std::string& sizes = "") {
  const std::string base = sizes.empty()
                               ? R"("vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256)"
                               : sizes;
  return R"({"architectures": ["LlamaForCausalLM"], )" + base + (extra.empty() ? "" : ", ") +
         extra + "}";
}

Result<DecoderConfig> read(const std::string& text, bool is_gguf = false) {
  const TestCheckpoint checkpoint(text, is_gguf);
  OCTAVO_TRY(const Architecture* architecture, find_architecture(checkpoint));
  return read_decoder_config(checkpoint, *architecture);
}

std::string error_of(const Result<DecoderConfig>& result) {
  return result.ok() ? "no error" : result.error().message;
}

std::string gguf(const std::string& arch, const std::string& extra = "") {
  return fmt::format(R"({{"general.architecture": "{0}", "{0}.block_count": 4,
    "{0}.context_length": 256, "{0}.embedding_length": 32, "{0}.feed_forward_length": 48,
    "{0}.attention.head_count": 4, "{0}.attention.head_count_kv": 2, "{0}.vocab_size": 64,
    "{0}.attention.layer_norm_rms_epsilon": 1e-5{1}{2}}})",
                     arch, extra.empty() ? "" : ", ", extra);
}

TEST(Models, EveryNameStandsOnce) {
  std::set<std::string_view> names, gguf_names;
  for (const Architecture* row : known_architectures()) {
    EXPECT_TRUE(names.insert(row->name).second) << row->name;
    EXPECT_TRUE(gguf_names.insert(row->gguf_name).second) << row->gguf_name;
    std::set<std::pair<Target, int>> targets;
    for (const WeightName& weight : row->weight_names) {
      EXPECT_TRUE(targets.insert({weight.target, weight.part}).second) << weight.hf;
    }
  }
}

TEST(Models, AnUnknownArchitectureIsToldTheKnownOnes) {
  const std::string error =
      error_of(read(R"({"architectures": ["MambaForCausalLM"], "hidden_size": 8})"));
  EXPECT_THAT(error, HasSubstr("MambaForCausalLM"));
  EXPECT_THAT(error, HasSubstr("LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM"));
  EXPECT_THAT(error_of(read("{}")), HasSubstr("`architectures` is missing"));
  EXPECT_THAT(error_of(read(R"({"general.architecture": "mamba"})", true)),
              HasSubstr("llama, qwen2, qwen3"));
  EXPECT_THAT(error_of(read(R"({"architectures": 7})")), HasSubstr("architectures"));
}

TEST(Models, LlamaReadsSizesAndDefaults) {
  const DecoderConfig config = read(llama()).value();
  EXPECT_EQ(config.vocab_size, 64);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.qkv_size(), 64);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.max_model_len, 256);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.sliding_windows, ElementsAre(0, 0, 0, 0));
  EXPECT_FLOAT_EQ(config.scale_of_attention(), 0.35355339f);
}

TEST(Models, NullMeansAbsent) {
  const DecoderConfig config =
      read(llama(R"("head_dim": null, "rope_scaling": null, "sliding_window": null)")).value();
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.rope.kind, RopeKind::kDefault);
}

TEST(Models, BiasesAreWhatTheFamilySays) {
  const DecoderConfig biased = read(llama(R"("attention_bias": true, "mlp_bias": true)")).value();
  EXPECT_TRUE(biased.qkv_bias);
  EXPECT_TRUE(biased.attention_output_bias);
  EXPECT_TRUE(biased.mlp_bias);
  std::string text = llama();
  text.replace(text.find("Llama"), 5, "Qwen2");
  const DecoderConfig qwen2 = read(text).value();
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  text.replace(text.find("Qwen2"), 5, "Qwen3");
  const DecoderConfig qwen3 = read(text).value();
  EXPECT_EQ(qwen3.qk_norm, QkNorm::kPerHead);
  EXPECT_FALSE(qwen3.qkv_bias);
}

TEST(Models, BothSpellingsOfRopeAndDTypeMeanTheSame) {
  const DecoderConfig old_spelling = read(llama(R"("rope_theta": 5e5, "torch_dtype": "float16",
        "rope_scaling": {"type": "linear", "factor": 4})"))
                                         .value();
  const DecoderConfig new_spelling = read(llama(R"("dtype": "float16",
        "rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 4.0})"))
                                         .value();
  for (const DecoderConfig& config : {old_spelling, new_spelling}) {
    EXPECT_EQ(config.rope.kind, RopeKind::kLinear);
    EXPECT_EQ(config.rope.theta, 5e5);
    EXPECT_EQ(config.rope.factor, 4.0);
    EXPECT_EQ(config.dtype, "float16");
    EXPECT_EQ(config.max_model_len, 1024) << "linear scaling multiplies the length";
  }
}

TEST(Models, Llama3ScalingIsAlreadyInTheLength) {
  const DecoderConfig config = read(llama(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64})"))
                                   .value();
  EXPECT_EQ(config.rope.kind, RopeKind::kLlama3);
  EXPECT_EQ(config.max_model_len, 256);
}

TEST(Models, YarnCountsFromTheOriginalLength) {
  const DecoderConfig config = read(llama(R"("rope_scaling": {"type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 128, "attention_factor": 1.25, "beta_fast": 24,
        "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 1, "truncate": false})"))
                                   .value();
  EXPECT_EQ(config.rope.kind, RopeKind::kYarn);
  EXPECT_EQ(config.max_model_len, 512);
  EXPECT_EQ(config.rope.attention_factor, 1.25);
  EXPECT_EQ(config.rope.beta_fast, 24.0);
  EXPECT_EQ(config.rope.beta_slow, 2.0);
  EXPECT_EQ(config.rope.mscale, 0.7);
  EXPECT_FALSE(config.rope.truncate);
  const DecoderConfig bare =
      read(llama(R"("rope_scaling": {"rope_type": "yarn", "factor": 2.0})")).value();
  EXPECT_EQ(bare.rope.original_max_position_embeddings, 256);
  EXPECT_EQ(bare.max_model_len, 512);
}

TEST(Models, RopeKindsThatAreNotBuiltAreRefusedByName) {
  for (const std::string kind : {"dynamic", "longrope", "su", "mrope"}) {
    const std::string error =
        error_of(read(llama(R"("rope_scaling": {"rope_type": ")" + kind + R"(", "factor": 2.0})")));
    EXPECT_THAT(error, HasSubstr("rope_scaling.rope_type is \"" + kind));
  }
  EXPECT_THAT(error_of(read(llama(R"("rope_parameters": {"full_attention": {}})"))),
              HasSubstr("rope_parameters"));
}

TEST(Models, WindowsCountOnlyWhenTheyAreUsed) {
  std::string text = llama(R"("use_sliding_window": false, "sliding_window": 16,
    "max_window_layers": 2)");
  text.replace(text.find("Llama"), 5, "Qwen2");
  EXPECT_THAT(read(text).value().sliding_windows, Each(0));
  text.replace(text.find("false"), 5, "true");
  EXPECT_THAT(read(text).value().sliding_windows, ElementsAre(0, 0, 16, 16));
  EXPECT_THAT(
      read(llama(R"("sliding_window": 8, "layer_types": ["sliding_attention", "full_attention",
        "sliding_attention", "full_attention"])"))
          .value()
          .sliding_windows,
      ElementsAre(8, 0, 8, 0));
  EXPECT_THAT(error_of(read(llama(R"("layer_types": ["full_attention"])"))),
              HasSubstr("layer_types has 1 entries for 4 layers"));
  EXPECT_THAT(error_of(read(llama(R"("layer_types": ["full_attention", "full_attention",
                                     "linear_attention", "full_attention"])"))),
              HasSubstr("linear_attention"));
}

TEST(Models, WhatIsNotBuiltIsRefusedByItsKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("hidden_act": "gelu")", "hidden_act"},
      {R"("hidden_act": "xielu")", "hidden_act"},
      {R"("partial_rotary_factor": 0.5)", "partial_rotary_factor"},
      {R"("num_local_experts": 8)", "num_local_experts"},
      {R"("num_experts": 4)", "num_experts"},
      {R"("final_logit_softcapping": 30.0)", "final_logit_softcapping"},
      {R"("use_parallel_residual": true)", "use_parallel_residual"},
      {R"("position_embedding_type": "alibi")", "position_embedding_type"},
  };
  for (const auto& [extra, key] : cases) {
    const Result<DecoderConfig> result = read(llama(extra));
    ASSERT_FALSE(result.ok()) << extra;
    EXPECT_EQ(result.error().code, Code::kUnsupported) << extra;
    EXPECT_THAT(result.error().message, HasSubstr(key));
    EXPECT_THAT(result.error().message, HasSubstr("config.json"));
  }
}

TEST(Models, SoftcapAndScaleOfAttentionAreBuilt) {
  const DecoderConfig config =
      read(llama(R"("attn_logit_softcapping": 50.0, "attention_multiplier": 0.25)")).value();
  EXPECT_EQ(config.attention_softcap, 50.0);
  EXPECT_EQ(config.scale_of_attention(), 0.25f);
}

TEST(Models, HostileSizesAreErrorsThatNameTheKey) {
  const auto sizes = [](const std::string& key, const std::string& value) {
    std::string text = R"({"architectures": ["LlamaForCausalLM"], "head_dim": 8)";
    const std::pair<const char*, const char*> defaults[] = {
        {"vocab_size", "64"},         {"hidden_size", "32"},
        {"intermediate_size", "48"},  {"num_hidden_layers", "4"},
        {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
        {"rms_norm_eps", "1e-6"},     {"max_position_embeddings", "256"}};
    for (const auto& [name, number] : defaults) {
      text += ", \"" + std::string(name) + "\": " + (name == key ? value : number);
    }
    return text + "}";
  };
  ASSERT_TRUE(read(sizes("", "")).ok());
  const std::string huge[] = {"0",    "-1",  "9223372036854775807", "1e300", "1.5", "\"8\"", "[8]",
                              "true", "null"};
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings"}) {
    for (const std::string& value : huge) {
      EXPECT_THAT(error_of(read(sizes(key, value))), HasSubstr(key)) << key << " " << value;
    }
  }
  EXPECT_THAT(error_of(read(sizes("num_key_value_heads", "3"))), HasSubstr("no multiple"));
  EXPECT_THAT(error_of(read(sizes("num_key_value_heads", "0"))), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(error_of(read(sizes("rms_norm_eps", "-1"))), HasSubstr("rms_norm_eps"));
}

TEST(Models, AbsentHeadDimMustFollowFromTheHeads) {
  const auto text = [](const std::string& heads) {
    return llama("", R"("vocab_size": 64, "hidden_size": 30, "intermediate_size": 48,
      "num_hidden_layers": 4, "max_position_embeddings": 256, "num_attention_heads": )" +
                         heads);
  };
  EXPECT_THAT(error_of(read(text("4"))), HasSubstr("head_dim"));
  EXPECT_THAT(error_of(read(text("0"))), HasSubstr("head_dim"));
  EXPECT_THAT(error_of(read(text("2"))), HasSubstr("head_dim 15 is odd"));
}

TEST(Models, HostileRopeIsAnError) {
  const char* cases[] = {
      R"("rope_theta": 0)",
      R"("rope_theta": -5)",
      R"("rope_theta": "x")",
      R"("rope_scaling": {"rope_type": "linear"})",
      R"("rope_scaling": {"rope_type": "linear", "factor": 0})",
      R"("rope_scaling": {"rope_type": "linear", "factor": 1e300})",
      R"("rope_scaling": {"rope_type": "yarn", "factor": 1e5,
          "original_max_position_embeddings": 1000000})",
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
          "high_freq_factor": 4, "original_max_position_embeddings": 64})",
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8})",
      R"("rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 32})",
      R"("rope_scaling": {"rope_type": "yarn", "factor": 2,
          "original_max_position_embeddings": 0})",
      R"("rope_scaling": {"rope_type": "yarn", "factor": 2, "attention_factor": 0})",
      R"("rope_scaling": {"rope_type": 5})",
      R"("rope_scaling": [1, 2])",
  };
  for (const char* extra : cases) EXPECT_FALSE(read(llama(extra)).ok()) << extra;
}

TEST(Models, ManyLayersWithTypesAreRefusedBeforeAnythingIsSized) {
  std::string types = "\"layer_types\": [\"full_attention\"";
  for (int i = 1; i < 2000; ++i) types += ", \"sliding_attention\"";
  types += "], \"sliding_window\": 4";
  const std::string sizes = R"("vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2000, "num_attention_heads": 4, "max_position_embeddings": 256)";
  EXPECT_FALSE(read(llama(types, sizes)).ok());
}

TEST(Models, GgufReadsItsOwnKeys) {
  const DecoderConfig config =
      read(gguf("llama", R"("llama.rope.freq_base": 500000.0, "llama.rope.dimension_count": 8,
        "llama.attention.key_length": 8, "llama.attention.value_length": 8)"),
           true)
          .value();
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.vocab_size, 64);
  EXPECT_EQ(config.intermediate_size, 48);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.max_model_len, 256);
  EXPECT_TRUE(config.tie_word_embeddings) << "no output.weight";
  EXPECT_TRUE(read(gguf("qwen2"), true).value().qkv_bias);
  EXPECT_EQ(read(gguf("qwen3"), true).value().qk_norm, QkNorm::kPerHead);
}

TEST(Models, GgufRopeScaling) {
  const DecoderConfig yarn =
      read(gguf("qwen2", R"("qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0,
        "qwen2.rope.scaling.original_context_length": 64)"),
           true)
          .value();
  EXPECT_EQ(yarn.rope.kind, RopeKind::kYarn);
  EXPECT_EQ(yarn.rope.original_max_position_embeddings, 64);
  EXPECT_EQ(yarn.max_model_len, 256) << "GGUF's context_length is the whole length";
  const DecoderConfig old_linear =
      read(gguf("llama", R"("llama.rope.scale_linear": 2.0)"), true).value();
  EXPECT_EQ(old_linear.rope.kind, RopeKind::kLinear);
  EXPECT_EQ(old_linear.rope.factor, 2.0);
  EXPECT_THAT(error_of(read(gguf("llama", R"("llama.rope.scaling.type": "longrope")"), true)),
              HasSubstr("longrope"));
}

TEST(Models, GgufVariationsAreRefusedByTheirKey) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("llama.expert_count": 8)", "expert_count"},
      {R"("llama.rope.dimension_count": 4)", "rope.dimension_count"},
      {R"("llama.attention.value_length": 4)", "attention.value_length"},
      {R"("llama.attention.causal": false)", "attention.causal"},
      {R"("llama.logit_scale": 0.5)", "logit_scale"},
  };
  for (const auto& [extra, key] : cases) {
    EXPECT_THAT(error_of(read(gguf("llama", extra), true)), HasSubstr(key));
  }
}

TEST(Models, GgufFreqFactorsMustFitTheHead) {
  TestCheckpoint checkpoint(gguf("llama"), true);
  checkpoint.add("rope_freqs.weight", {4}, {1, 1, 2, 8});
  checkpoint.add("token_embd.weight", {80, 32}, std::vector<float>(80 * 32));
  const DecoderConfig config = read_decoder_config(checkpoint, kLlama).value();
  EXPECT_THAT(config.rope.freq_factors, ElementsAre(1, 1, 2, 8));
  EXPECT_EQ(config.vocab_size, 80) << "the rows of the embedding, whatever vocab_size says";
  checkpoint.remove("rope_freqs.weight");
  checkpoint.add("rope_freqs.weight", {3}, {1, 1, 2});
  EXPECT_THAT(error_of(read_decoder_config(checkpoint, kLlama)), HasSubstr("rope_freqs.weight"));
  checkpoint.remove("rope_freqs.weight");
  checkpoint.add("rope_freqs.weight", {4}, {1, 0, 2, 8});
  EXPECT_THAT(error_of(read_decoder_config(checkpoint, kLlama)), HasSubstr("rope_freqs.weight"));
}

TEST(Models, MultipliersAreReadAndMustBePositive) {
  const DecoderConfig config = read(llama(R"("embedding_multiplier": 12, "residual_multiplier": 0.2,
        "logits_scaling": 8, "attention_multiplier": 0.015625)"))
                                   .value();
  EXPECT_EQ(config.embedding_multiplier, 12.0);
  EXPECT_EQ(config.residual_multiplier, 0.2);
  EXPECT_EQ(config.logits_multiplier, 0.125) << "transformers divides by logits_scaling";
  EXPECT_EQ(config.scale_of_attention(), 0.015625f);
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling"}) {
    for (const char* value : {"0", "-1", "1e300", "\"x\""}) {
      EXPECT_THAT(error_of(read(llama(fmt::format(R"("{}": {})", key, value)))), HasSubstr(key))
          << value;
    }
  }
}

TEST(Models, SinksAreFoundByTheirTensor) {
  TestCheckpoint hf(llama());
  hf.add("model.layers.0.self_attn.sinks", {4}, {0, 0, 0, 0});
  EXPECT_THAT(error_of(read_decoder_config(hf, kLlama)), HasSubstr("attention sinks"));
  TestCheckpoint of_gguf(gguf("llama"), true);
  of_gguf.add("blk.0.attn_sinks.weight", {4}, {0, 0, 0, 0});
  EXPECT_THAT(error_of(read_decoder_config(of_gguf, kLlama)), HasSubstr("attention sinks"));
}

TEST(Models, GroupsAndExpertsMustFitTheModel) {
  const DecoderConfig good = read(llama()).value();
  EXPECT_EQ(good.num_kv_groups(), 1);
  DecoderConfig config = good;
  config.kv_groups = {0, 1, 1, 0};
  EXPECT_TRUE(validate(config, "f").ok());
  EXPECT_EQ(config.num_kv_groups(), 2);
  EXPECT_EQ(config.kv_group_of(1), 1);
  for (const std::vector<int32_t>& groups :
       {std::vector<int32_t>{0, 1}, std::vector<int32_t>{1, 1, 1, 1},
        std::vector<int32_t>{0, -1, 0, 0}, std::vector<int32_t>{0, 9, 0, 0}}) {
    config.kv_groups = groups;
    EXPECT_FALSE(validate(config, "f").ok());
  }
  config = good;
  config.num_experts_per_token = 2;
  EXPECT_FALSE(validate(config, "f").ok()) << "of no experts";
  config = good;
  config.partial_rotary_factor = 0.0;
  EXPECT_FALSE(validate(config, "f").ok());
}

TEST(Models, DescriptionsThatNoReaderMakesYetAreRefusedToo) {
  const DecoderConfig good = read(llama()).value();
  ASSERT_TRUE(check_built(good, "f").ok());
  DecoderConfig config = good;
  config.norm_kind = NormKind::kLayer;
  EXPECT_FALSE(check_built(config, "f").ok());
  config = good;
  config.norm_place = NormPlace::kSandwich;
  EXPECT_FALSE(check_built(config, "f").ok());
  config = good;
  config.qk_norm = QkNorm::kWhole;
  EXPECT_FALSE(check_built(config, "f").ok());
  config = good;
  config.attention_sinks = true;
  EXPECT_FALSE(check_built(config, "f").ok());
  config = good;
  config.gated_mlp = false;
  EXPECT_FALSE(check_built(config, "f").ok());
}

}  // namespace
}  // namespace octavo::model
