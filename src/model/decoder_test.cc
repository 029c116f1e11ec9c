#include "model/decoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "model/models.h"
#include "model/test_weights.h"

namespace octavo::model {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlockSize = 16;

/// One sequence on blocks 0, 1, ...; positions [begin, end) in one step.
ForwardBatch one_sequence(const std::vector<int32_t>& tokens, int64_t begin, int64_t end,
                          bool wants_logits = true) {
  ForwardBatch batch;
  for (int64_t position = begin; position < end; ++position) {
    batch.token_ids.push_back(tokens[size_t(position)]);
    batch.positions.push_back(int32_t(position));
    batch.slot_mapping.push_back(position);
    if (wants_logits) batch.logits_rows.push_back(int32_t(position - begin));
  }
  batch.query_start_loc = {0, int32_t(end - begin)};
  batch.seq_lens = {int32_t(end)};
  batch.max_blocks_per_seq = (end + kBlockSize - 1) / kBlockSize;
  for (int32_t block = 0; block < batch.max_blocks_per_seq; ++block) {
    batch.block_tables.push_back(block);
  }
  return batch;
}

std::vector<int32_t> some_tokens(int64_t count) {
  SplitMix64 random(5);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(int32_t(random.below(kTestVocab)));
  return tokens;
}

std::unique_ptr<Model> load(const TestKernels& kernels, const TestCheckpoint& checkpoint,
                            const ModelOptions& options) {
  std::unique_ptr<Model> model = Model::load(checkpoint, options, kernels.ctx).value();
  model->allocate_kv(16, kBlockSize).value();
  model->reserve(kernels.ctx, 64, 4, 64, 256).value();
  return model;
}

std::unique_ptr<Model> load(const TestKernels& kernels, const TestCheckpoint& checkpoint,
                            DTypeChoice dtype = DTypeChoice::kFloat32, uint64_t seed = 0) {
  return load(kernels, checkpoint, {.dtype = dtype, .kv_dtype = std::nullopt, .seed = seed});
}

ModelOptions with_kv(DTypeChoice dtype, device::DType kv_dtype) {
  return {.dtype = dtype, .kv_dtype = kv_dtype};
}

std::vector<float> run(const TestKernels& kernels, Model& model, const ForwardBatch& batch) {
  std::vector<float> logits(batch.logits_rows.size() * size_t(model.info().vocab_size));
  model.forward(kernels.ctx, batch, logits, {}).value();
  return logits;
}

std::string load_error(const TestCheckpoint& checkpoint, const ModelOptions& options = {}) {
  TestKernels kernels;
  const auto result = Model::load(checkpoint, options, kernels.ctx);
  return result.ok() ? "no error" : result.error().message;
}

TestCheckpoint hf_llama(const std::string& extra = "", bool tied = false) {
  TestCheckpoint checkpoint(test_hf_config("LlamaForCausalLM", extra));
  add_test_weights(checkpoint, kLlama, {}, tied);
  return checkpoint;
}

TEST(Decoder, GgufOfTheSameWeightsGivesTheSameLogits) {
  const std::pair<const Architecture*, std::vector<Target>> families[] = {
      {&kLlama, {}}, {&kQwen2, {Target::kQkvProj}}, {&kQwen3, {}}};
  const std::vector<int32_t> tokens = some_tokens(40);
  for (const auto& [architecture, biased] : families) {
    TestKernels kernels;
    TestCheckpoint hf(test_hf_config(std::string(architecture->name)));
    add_test_weights(hf, *architecture, biased, false);
    TestCheckpoint gguf(test_gguf_config(std::string(architecture->gguf_name)), true);
    add_test_weights(gguf, *architecture, biased, false);
    const auto from_hf = load(kernels, hf);
    const auto a = run(kernels, *from_hf, one_sequence(tokens, 0, 40));
    const auto from_gguf = load(kernels, gguf);
    const auto b = run(kernels, *from_gguf, one_sequence(tokens, 0, 40));
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << architecture->name;
  }
}

TEST(Decoder, GgufBiasesOfQAndKAreReorderedToo) {
  const std::vector<Target> biased = {Target::kQkvProj, Target::kOProj};
  TestKernels kernels;
  TestCheckpoint hf(test_hf_config("LlamaForCausalLM", R"("attention_bias": true)"));
  add_test_weights(hf, kLlama, biased, false);
  TestCheckpoint gguf(test_gguf_config("llama"), true);
  add_test_weights(gguf, kLlama, biased, false);
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto from_hf = load(kernels, hf);
  const auto from_gguf = load(kernels, gguf);
  EXPECT_EQ(run(kernels, *from_hf, one_sequence(tokens, 0, 20)),
            run(kernels, *from_gguf, one_sequence(tokens, 0, 20)));
}

TEST(Decoder, ATiedHeadIsTheEmbedding) {
  TestKernels kernels;
  const TestCheckpoint tied_hf = hf_llama(R"("tie_word_embeddings": true)", true);
  TestCheckpoint tied_gguf(test_gguf_config("llama"), true);
  add_test_weights(tied_gguf, kLlama, {}, true);
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto a = load(kernels, tied_hf);
  const auto b = load(kernels, tied_gguf);
  const auto untied = load(kernels, hf_llama());
  EXPECT_LT(a->info().weight_bytes, untied->info().weight_bytes);
  EXPECT_EQ(run(kernels, *a, one_sequence(tokens, 0, 20)),
            run(kernels, *b, one_sequence(tokens, 0, 20)));
}

TEST(Decoder, UnequalFormatsOfQKVAreKeptApart) {
  TestKernels kernels;
  const TestCheckpoint whole = hf_llama();
  TestCheckpoint mixed = hf_llama();
  // v is the same constant in both, once as bf16 beside q and k in f32.
  for (int64_t layer = 0; layer < kTestLayers; ++layer) {
    const std::string name = fmt::format("model.layers.{}.self_attn.v_proj.weight", layer);
    const std::vector<int64_t> shape = mixed.find(name)->shape;
    mixed.remove(name);
    std::vector<std::byte> half(size_t(shape[0] * shape[1]) * 2);
    for (size_t i = 0; i < half.size(); i += 2) half[i + 1] = std::byte{0x3e};  // 0.125
    mixed.add_raw(name, checkpoint::TensorType::kBF16, shape, half);
  }
  const auto model = load(kernels, mixed);
  TestCheckpoint constant = hf_llama();
  for (int64_t layer = 0; layer < kTestLayers; ++layer) {
    const std::string name = fmt::format("model.layers.{}.self_attn.v_proj.weight", layer);
    const std::vector<int64_t> shape = constant.find(name)->shape;
    constant.remove(name);
    constant.add(name, shape, std::vector<float>(size_t(shape[0] * shape[1]), 0.125f));
  }
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto expected = load(kernels, constant);
  EXPECT_EQ(run(kernels, *model, one_sequence(tokens, 0, 20)),
            run(kernels, *expected, one_sequence(tokens, 0, 20)));
  EXPECT_LT(model->info().weight_bytes, load(kernels, whole)->info().weight_bytes);
}

TEST(Decoder, MissingMisshapenAndUnexpectedTensorsAreNamed) {
  const std::string v = "model.layers.1.self_attn.v_proj";
  TestCheckpoint missing = hf_llama();
  missing.remove(v + ".weight");
  EXPECT_THAT(load_error(missing), HasSubstr(v + ".weight is missing"));

  TestCheckpoint misshapen = hf_llama();
  misshapen.remove(v + ".weight");
  misshapen.add(v + ".weight", {16, 31}, std::vector<float>(16 * 31));
  EXPECT_THAT(load_error(misshapen), testing::AllOf(HasSubstr("test.file"), HasSubstr(v),
                                                    HasSubstr("[16, 31]"), HasSubstr("[16, 32]")));

  TestCheckpoint flat = hf_llama();
  flat.remove("model.norm.weight");
  flat.add("model.norm.weight", {32, 1}, std::vector<float>(32));
  EXPECT_THAT(load_error(flat), HasSubstr("model.norm.weight"));

  TestCheckpoint biased = hf_llama();
  biased.add(v + ".bias", {16}, std::vector<float>(16));
  EXPECT_THAT(load_error(biased), HasSubstr(v + ".bias has no place"));

  TestCheckpoint short_data = hf_llama();
  short_data.remove(v + ".weight");
  short_data.add(v + ".weight", {16, 32}, std::vector<float>(8));
  EXPECT_THAT(load_error(short_data), HasSubstr("32 bytes"));

  TestCheckpoint untied = hf_llama("", true);
  EXPECT_THAT(load_error(untied), HasSubstr("lm_head.weight is missing"));
}

TEST(Decoder, TensorsOutsideTheLayersOnlyWarn) {
  TestCheckpoint extra = hf_llama();
  extra.add("model.layers.7.self_attn.q_proj.weight", {4}, {1, 2, 3, 4});
  extra.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, {1, 2, 3, 4});
  extra.add("vision.weight", {1}, {1});
  EXPECT_EQ(load_error(extra), "no error");
}

TEST(Decoder, OneRankOnly) {
  ModelOptions options;
  options.world_size = 2;
  EXPECT_THAT(load_error(hf_llama(), options), HasSubstr("--tensor-parallel-size"));
}

TEST(Decoder, ReservesWhatItAnnounced) {
  TestKernels kernels;
  const auto model =
      Model::load(hf_llama(), {.dtype = DTypeChoice::kBFloat16}, kernels.ctx).value();
  const size_t announced = model->activation_bytes(100, 7, 9, 256, kernels.ctx.pool.num_threads());
  model->reserve(kernels.ctx, 100, 7, 9, 256).value();
  const auto& decoder = dynamic_cast<const Decoder&>(*model);
  const StepLimits limits{100, 7, 9, 256, kernels.ctx.pool.num_threads()};
  const auto activations = Activations::create(decoder.config(), limits).value();
  EXPECT_EQ(activations.size_bytes() + kernels.workspace.capacity_bytes(), announced);
}

TEST(Decoder, KvBlocksAreAsLargeAsTheirDTypeSays) {
  TestKernels kernels;
  const auto f32 = load(kernels, hf_llama(), DTypeChoice::kFloat32);
  const auto bf16 = load(kernels, hf_llama(), DTypeChoice::kBFloat16);
  // Layers, K and V, tokens, heads, head_dim, bytes.
  EXPECT_EQ(f32->kv_block_bytes(32), size_t(3 * 2 * 32 * 2 * 8 * 4));
  EXPECT_EQ(bf16->kv_block_bytes(32), size_t(3 * 2 * 32 * 2 * 8 * 2));
  for (const device::DType kv_dtype : {device::DType::kE4M3, device::DType::kE5M2}) {
    const auto fp8 = load(kernels, hf_llama(), with_kv(DTypeChoice::kFloat32, kv_dtype));
    EXPECT_EQ(fp8->kv_block_bytes(32), size_t(3 * 2 * 32 * 2 * 8));
  }
  EXPECT_FALSE(f32->allocate_kv(4, 8).ok());
  EXPECT_FALSE(f32->allocate_kv(4, 24).ok());
  EXPECT_FALSE(f32->allocate_kv(0, 16).ok());
  EXPECT_FALSE(f32->allocate_kv(int64_t{1} << 62, 16).ok());
}

/// The weights of `module` in every layer times `factor`.
void multiply_weights(TestCheckpoint& checkpoint, const std::string& module, float factor) {
  for (int64_t layer = 0; layer < kTestLayers; ++layer) {
    const std::string name = fmt::format("model.layers.{}.self_attn.{}.weight", layer, module);
    const checkpoint::Tensor tensor = *checkpoint.find(name);
    std::vector<float> values(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    for (float& value : values) value *= factor;
    checkpoint.remove(name);
    checkpoint.add(name, tensor.shape, values);
  }
}

/// A model whose keys and values are 2^14 times those of another, its queries and what comes behind
/// attention that much smaller: the same logits. Without scales no code of e4m3 reaches them.
TEST(Decoder, ScalesOfTheCacheAreThoseOfTheCheckpoint) {
  constexpr float kLarge = 0x1p14f;
  TestCheckpoint bare = hf_llama();
  for (const auto& [module, factor] : {std::pair{"k_proj", kLarge},
                                       {"q_proj", 1 / kLarge},
                                       {"v_proj", kLarge},
                                       {"o_proj", 1 / kLarge}}) {
    multiply_weights(bare, module, factor);
  }
  TestCheckpoint scaled = bare;
  for (int64_t layer = 0; layer < kTestLayers; ++layer) {
    const std::string module = fmt::format("model.layers.{}.self_attn.", layer);
    scaled.add(module + "k_scale", {1}, {0.9f * kLarge});
    scaled.add(module + "v_scale", {1}, {0.7f * kLarge});
  }
  TestKernels kernels;
  const std::vector<int32_t> tokens = some_tokens(60);
  const auto logits = [&](const TestCheckpoint& checkpoint, device::DType kv_dtype) {
    const auto model = load(kernels, checkpoint, with_kv(DTypeChoice::kFloat32, kv_dtype));
    return run(kernels, *model, one_sequence(tokens, 0, 60));
  };
  const std::vector<float> reference = logits(bare, device::DType::kF32);
  EXPECT_EQ(logits(hf_llama(), device::DType::kF32), reference);
  EXPECT_EQ(logits(scaled, device::DType::kF32), reference);
  const auto error = [&](const std::vector<float>& got) {
    double sum = 0;
    for (size_t i = 0; i < got.size(); ++i) sum += std::pow(double{got[i]} - reference[i], 2);
    return std::sqrt(sum / double(got.size()));
  };
  for (const device::DType kv_dtype : {device::DType::kE4M3, device::DType::kE5M2}) {
    // As far from it as codes of the small model without scales are, but for luck of rounding.
    const double of_rounding = error(logits(hf_llama(), kv_dtype));
    EXPECT_LT(error(logits(scaled, kv_dtype)), 1.3 * of_rounding) << device::name_of(kv_dtype);
    EXPECT_GT(error(logits(bare, device::DType::kE4M3)), 10 * of_rounding);
  }
  const auto with_scales =
      load(kernels, scaled, with_kv(DTypeChoice::kFloat32, device::DType::kE4M3));
  EXPECT_TRUE(with_scales->info().has_kv_scales);
  EXPECT_THAT(with_scales->block_identity().layout, HasSubstr("scaled"));
  TestCheckpoint damaged = scaled;
  damaged.remove("model.layers.1.self_attn.k_scale");
  damaged.add("model.layers.1.self_attn.k_scale", {1}, {0.0f});
  EXPECT_THAT(load_error(damaged, with_kv(DTypeChoice::kFloat32, device::DType::kE4M3)),
              HasSubstr("model.layers.1.self_attn.k_scale is 0"));
}

TEST(Decoder, DTypeChoosesFormatAndCache) {
  TestKernels kernels;
  const auto dtype_of = [&](const std::string& extra, DTypeChoice choice,
                            std::optional<device::DType> kv_dtype = std::nullopt) {
    const auto model =
        load(kernels, hf_llama(extra), ModelOptions{.dtype = choice, .kv_dtype = kv_dtype});
    const ModelInfo& info = model->info();
    return fmt::format("{} {} {}", info.dtype, info.weight_format, device::name_of(info.kv_dtype));
  };
  EXPECT_EQ(dtype_of("", DTypeChoice::kAuto), "float32 F32 float32");
  EXPECT_EQ(dtype_of(R"("dtype": "bfloat16")", DTypeChoice::kAuto), "bfloat16 BF16 bfloat16");
  EXPECT_EQ(dtype_of(R"("torch_dtype": "float16")", DTypeChoice::kAuto), "float16 F16 float16");
  EXPECT_EQ(dtype_of(R"("dtype": "bfloat16")", DTypeChoice::kFloat32), "float32 F32 float32");
  EXPECT_EQ(dtype_of("", DTypeChoice::kFloat16), "float16 F16 float16");
  using device::DType;
  EXPECT_EQ(dtype_of("", DTypeChoice::kBFloat16, DType::kE4M3), "bfloat16 BF16 fp8_e4m3");
  EXPECT_EQ(dtype_of("", DTypeChoice::kFloat32, DType::kE5M2), "float32 F32 fp8_e5m2");
  EXPECT_EQ(dtype_of("", DTypeChoice::kBFloat16, DType::kF16), "bfloat16 BF16 float16");
  EXPECT_THAT(load_error(hf_llama(R"("dtype": "float8_e4m3fn")")), HasSubstr("--dtype"));
}

TEST(Decoder, DummyWeightsFollowTheSeed) {
  TestKernels kernels;
  const TestCheckpoint config(test_hf_config("Qwen3ForCausalLM", R"("torch_dtype": "bfloat16")"));
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto one = load(kernels, config, DTypeChoice::kAuto, 1);
  const auto again = load(kernels, config, DTypeChoice::kAuto, 1);
  const auto two = load(kernels, config, DTypeChoice::kAuto, 2);
  const auto logits = run(kernels, *one, one_sequence(tokens, 0, 20));
  EXPECT_EQ(logits, run(kernels, *again, one_sequence(tokens, 0, 20)));
  EXPECT_NE(logits, run(kernels, *two, one_sequence(tokens, 0, 20)));
  EXPECT_EQ(one->info().weight_hash, again->info().weight_hash);
  EXPECT_NE(one->info().weight_hash, two->info().weight_hash);
  EXPECT_EQ(one->info().weight_hash.size(), 64u);
  for (const float value : logits) EXPECT_TRUE(std::isfinite(value));
}

TEST(Decoder, AChunkWithoutLogitsFillsTheCacheAllTheSame) {
  TestKernels kernels;
  const auto model = load(kernels, hf_llama());
  const std::vector<int32_t> tokens = some_tokens(50);
  const auto whole = run(kernels, *model, one_sequence(tokens, 0, 50));
  run(kernels, *model, one_sequence(tokens, 0, 33, /*wants_logits=*/false));
  ForwardBatch rest = one_sequence(tokens, 33, 50);
  rest.logits_rows = {3, 16};  // some rows only
  const auto some = run(kernels, *model, rest);
  EXPECT_EQ(std::memcmp(some.data(), &whole[36 * kTestVocab], kTestVocab * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(&some[kTestVocab], &whole[49 * kTestVocab], kTestVocab * sizeof(float)), 0);
}

TEST(Decoder, ABlockGatheredAndRestoredGivesTheSameBits) {
  for (const ModelOptions& options :
       {ModelOptions{.dtype = DTypeChoice::kFloat32}, ModelOptions{.dtype = DTypeChoice::kBFloat16},
        with_kv(DTypeChoice::kBFloat16, device::DType::kE4M3),
        with_kv(DTypeChoice::kFloat32, device::DType::kE5M2)}) {
    TestKernels kernels;
    const auto model = load(kernels, hf_llama(), options);
    const std::vector<int32_t> tokens = some_tokens(50);
    run(kernels, *model, one_sequence(tokens, 0, 40, /*wants_logits=*/false));
    const auto expected = run(kernels, *model, one_sequence(tokens, 40, 50));
    run(kernels, *model, one_sequence(tokens, 0, 40, /*wants_logits=*/false));
    std::vector<std::vector<std::byte>> blocks(3);
    for (int32_t block = 0; block < 3; ++block) {
      blocks[size_t(block)].resize(model->kv_block_bytes(kBlockSize));
      model->gather_block(block, blocks[size_t(block)]).value();
    }
    const std::vector<int32_t> others(60, 1);
    run(kernels, *model, one_sequence(others, 0, 60, /*wants_logits=*/false));
    EXPECT_NE(run(kernels, *model, one_sequence(tokens, 40, 50)), expected);
    // Not where they were: a block's bytes do not know their place.
    ForwardBatch rest = one_sequence(tokens, 40, 50);
    const std::vector<int32_t> places = {7, 5, 9, 11};
    for (size_t i = 0; i < 3; ++i) model->restore_block(places[i], blocks[i]).value();
    rest.block_tables.assign(places.begin(), places.begin() + rest.max_blocks_per_seq);
    for (int64_t& slot : rest.slot_mapping) {
      slot = int64_t(places[size_t(slot / kBlockSize)]) * kBlockSize + slot % kBlockSize;
    }
    EXPECT_EQ(run(kernels, *model, rest), expected);
  }
}

TEST(Decoder, BlocksHaveAnIdentityAndABound) {
  TestKernels kernels;
  const auto f32 = load(kernels, hf_llama());
  const auto bf16 = load(kernels, hf_llama(), DTypeChoice::kBFloat16);
  EXPECT_EQ(f32->block_identity(), load(kernels, hf_llama())->block_identity());
  EXPECT_NE(f32->block_identity(), bf16->block_identity());
  const auto e4m3 =
      load(kernels, hf_llama(), with_kv(DTypeChoice::kBFloat16, device::DType::kE4M3));
  const auto e5m2 =
      load(kernels, hf_llama(), with_kv(DTypeChoice::kBFloat16, device::DType::kE5M2));
  EXPECT_NE(bf16->block_identity(), e4m3->block_identity());
  EXPECT_NE(e5m2->block_identity(), e4m3->block_identity());
  EXPECT_EQ(f32->block_identity().weight_hash, f32->info().weight_hash);
  std::vector<std::byte> bytes(f32->kv_block_bytes(kBlockSize));
  EXPECT_TRUE(f32->gather_block(15, bytes).ok());
  EXPECT_FALSE(f32->gather_block(16, bytes).ok());
  EXPECT_FALSE(f32->restore_block(-1, bytes).ok());
  bytes.pop_back();
  EXPECT_FALSE(f32->gather_block(0, bytes).ok());
  EXPECT_FALSE(f32->restore_block(0, bytes).ok());
}

/// A llama whose files name and place their weights by `names`, its description changed by
/// `change`.
std::unique_ptr<Model> load_family(
    const TestKernels& kernels, const TestCheckpoint& checkpoint,
    const std::vector<WeightName>& names,
    const std::function<void(DecoderConfig&)>& change = [](DecoderConfig&) {}) {
  Architecture family = kLlama;
  family.weight_names = names;
  DecoderConfig config = read_decoder_config(checkpoint, family).value();
  change(config);
  const DTypePlan dtype = plan_dtype(DTypeChoice::kFloat32, config, checkpoint).value();
  const auto source = make_checkpoint_source(checkpoint);
  auto communicator = std::make_unique<SingleRank>();
  WeightLoader loader({family, config, dtype, *source, false, communicator.get()}, kernels.ctx);
  std::unique_ptr<Model> model =
      Decoder::create(config, dtype, loader, *source, std::move(communicator)).value();
  model->allocate_kv(16, kBlockSize).value();
  model->reserve(kernels.ctx, 64, 4, 64, 256).value();
  return model;
}

const std::vector<WeightName> kNames(kLlamaWeightNames.begin(), kLlamaWeightNames.end());

TEST(Decoder, ATransposedTensorIsTurnedWhenItIsRead) {
  TestKernels kernels;
  TestCheckpoint checkpoint = hf_llama();
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto expected = run(kernels, *load(kernels, checkpoint), one_sequence(tokens, 0, 20));
  std::vector<WeightName> names = kNames;
  for (WeightName& name : names) {
    name.hf_transposed = name.target == Target::kQkvProj || name.target == Target::kDownProj ||
                         name.target == Target::kLmHead;
    if (!name.hf_transposed) continue;
    for (int64_t layer = 0; layer < kTestLayers; ++layer) {
      std::string tensor_name(name.hf);
      const size_t at = tensor_name.find("{}");
      if (at == std::string::npos && layer > 0) continue;
      if (at != std::string::npos) tensor_name.replace(at, 2, std::to_string(layer));
      const checkpoint::Tensor* tensor = checkpoint.find(tensor_name + ".weight");
      const int64_t rows = tensor->shape[0], cols = tensor->shape[1];
      const auto* values = reinterpret_cast<const float*>(tensor->data.data());
      std::vector<float> turned(size_t(rows * cols));
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; col < cols; ++col)
          turned[size_t(col * rows + row)] = values[row * cols + col];
      }
      checkpoint.remove(tensor_name + ".weight");
      checkpoint.add(tensor_name + ".weight", {cols, rows}, std::move(turned));
    }
  }
  EXPECT_EQ(run(kernels, *load_family(kernels, checkpoint, names), one_sequence(tokens, 0, 20)),
            expected);
}

TEST(Decoder, MultipliersScaleEmbeddingResidualAndLogits) {
  const std::vector<int32_t> tokens = some_tokens(20);
  TestKernels kernels;
  const auto logits_of = [&](const TestCheckpoint& checkpoint) {
    return run(kernels, *load(kernels, checkpoint), one_sequence(tokens, 0, 20));
  };
  const auto plain = logits_of(hf_llama());
  // The same function by other means: scaled tensors instead of multipliers.
  const auto scale_tensors = [](TestCheckpoint& checkpoint, std::string_view suffix, float factor) {
    std::vector<std::string> names;
    for (const auto& tensor : checkpoint.tensors()) {
      if (tensor.name.ends_with(suffix)) names.push_back(tensor.name);
    }
    for (const std::string& name : names) {
      const checkpoint::Tensor tensor = *checkpoint.find(name);
      const auto* values = reinterpret_cast<const float*>(tensor.data.data());
      std::vector<float> scaled(values, values + tensor.data.size() / sizeof(float));
      for (float& value : scaled) value *= factor;
      checkpoint.remove(name);
      checkpoint.add(name, tensor.shape, std::move(scaled));
    }
  };
  // Powers of two, so that both ways round alike.
  const struct {
    const char* extra;
    std::vector<const char*> suffixes;
    float factor;
  } cases[] = {{R"("embedding_multiplier": 4)", {"embed_tokens.weight"}, 4.0f},
               {R"("residual_multiplier": 0.25)", {"o_proj.weight", "down_proj.weight"}, 0.25f},
               {R"("logits_scaling": 8)", {"lm_head.weight"}, 0.125f}};
  for (const auto& c : cases) {
    TestCheckpoint scaled = hf_llama();
    for (const char* suffix : c.suffixes) scale_tensors(scaled, suffix, c.factor);
    const auto expected = logits_of(scaled);
    const auto got = logits_of(hf_llama(c.extra));
    EXPECT_NE(expected, plain) << c.extra;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << c.extra;
    // P1 holds with them too: a chunked prompt gives the bits of the whole.
    const auto model = load(kernels, hf_llama(c.extra));
    run(kernels, *model, one_sequence(tokens, 0, 7, /*wants_logits=*/false));
    const auto rest = run(kernels, *model, one_sequence(tokens, 7, 20));
    EXPECT_EQ(std::memcmp(rest.data(), &got[7 * kTestVocab], rest.size() * sizeof(float)), 0);
  }
}

TEST(Decoder, LayersOfAnotherKvGroupUseItsTables) {
  TestKernels kernels;
  const std::vector<int32_t> tokens = some_tokens(40);
  const ForwardBatch one_group = one_sequence(tokens, 0, 40);
  const auto expected = run(kernels, *load(kernels, hf_llama()), one_group);
  const auto model = load_family(kernels, hf_llama(), kNames, [](DecoderConfig& config) {
    config.kv_groups = {0, 1, 0};
  });
  EXPECT_EQ(model->info().num_kv_groups, 2);
  ForwardBatch batch = one_group;
  batch.num_kv_groups = 2;
  const std::vector<int32_t> places = {9, 3, 12};
  for (const int32_t place : places) batch.block_tables.push_back(place);
  for (const int64_t slot : one_group.slot_mapping) {
    batch.slot_mapping.push_back(int64_t(places[size_t(slot / kBlockSize)]) * kBlockSize +
                                 slot % kBlockSize);
  }
  EXPECT_EQ(run(kernels, *model, batch), expected);
  std::vector<float> logits(expected.size());
  EXPECT_FALSE(model->forward(kernels.ctx, one_group, logits, {}).ok()) << "a table is missing";
  batch.block_tables.back() = -1;
  EXPECT_FALSE(model->forward(kernels.ctx, batch, logits, {}).ok());
}

TEST(Decoder, RowsWithoutAdapterAreThoseOfTheModel) {
  TestKernels kernels;
  const auto model = load(kernels, hf_llama());
  ForwardBatch batch = one_sequence(some_tokens(20), 0, 20);
  const auto expected = run(kernels, *model, batch);
  batch.row_adapters.assign(20, -1);
  EXPECT_EQ(run(kernels, *model, batch), expected);
  for (const std::vector<int32_t>& adapters :
       {std::vector<int32_t>(20, 0), std::vector<int32_t>(20, -2), std::vector<int32_t>(19, -1)}) {
    batch.row_adapters = adapters;
    std::vector<float> logits(expected.size());
    EXPECT_FALSE(model->forward(kernels.ctx, batch, logits, {}).ok());
  }
}

TEST(Decoder, OtherValuesAreAnotherIdentity) {
  TestKernels kernels;
  TestCheckpoint tuned = hf_llama();
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const std::vector<int64_t> shape = tuned.find(name)->shape;
  tuned.remove(name);
  tuned.add(name, shape, test_values(4711, shape[0] * shape[1], 0.4f, 0.0f));
  EXPECT_NE(load(kernels, tuned)->block_identity(), load(kernels, hf_llama())->block_identity());
}

TEST(Decoder, AFusedTensorIsItsPartsStacked) {
  TestKernels kernels;
  TestCheckpoint checkpoint = hf_llama();
  const auto apart = load(kernels, checkpoint);
  for (int layer = 0; layer < apart->info().num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
    std::vector<std::byte> bytes;
    std::vector<int64_t> shape = {0, apart->info().hidden_size};
    for (const char* part : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
      const checkpoint::Tensor* tensor = checkpoint.find(prefix + part);
      bytes.insert(bytes.end(), tensor->data.begin(), tensor->data.end());
      shape[0] += tensor->shape[0];
      checkpoint.remove(prefix + part);
    }
    checkpoint.add_raw(prefix + "qkv_proj.weight", checkpoint::TensorType::kF32, shape, bytes);
  }
  std::vector<WeightName> names = {
      {Target::kQkvProj, kFused, "model.layers.{}.self_attn.qkv_proj", ""}};
  for (const WeightName& name : kLlamaWeightNames) {
    if (name.target != Target::kQkvProj) names.push_back(name);
  }
  const auto fused = load_family(kernels, checkpoint, names);
  const std::vector<int32_t> tokens = some_tokens(20);
  EXPECT_EQ(run(kernels, *fused, one_sequence(tokens, 0, 20)),
            run(kernels, *apart, one_sequence(tokens, 0, 20)));
}

TEST(Decoder, AWindowChangesWhatLiesBehindItOnly) {
  TestKernels kernels;
  const std::string types = R"("sliding_window": 8, "layer_types": ["sliding_attention",
    "sliding_attention", "sliding_attention"])";
  const std::vector<int32_t> tokens = some_tokens(20);
  const auto full = load(kernels, hf_llama());
  const auto windowed = load(kernels, hf_llama(types));
  const auto a = run(kernels, *full, one_sequence(tokens, 0, 20));
  const auto b = run(kernels, *windowed, one_sequence(tokens, 0, 20));
  EXPECT_EQ(std::memcmp(a.data(), b.data(), 8 * kTestVocab * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(&a[8 * kTestVocab], &b[8 * kTestVocab], kTestVocab * sizeof(float)), 0);
}

TEST(Decoder, TheLargestAloneIsThatOfTheWrittenRow) {
  const std::vector<int32_t> tokens = some_tokens(20);
  for (const char* extra : {"", R"("logits_scaling": 7)"}) {
    TestKernels kernels;
    const auto model = load(kernels, hf_llama(extra));
    ForwardBatch batch = one_sequence(tokens, 0, 20);
    const auto expected = run(kernels, *model, batch);
    const auto row_of = [&](size_t row) {
      return std::span(expected).subspan(row * kTestVocab, kTestVocab);
    };
    for (const size_t whole_every : {2, 5, 100}) {
      batch.only_largest.clear();
      for (size_t row = 0; row < 20; ++row) batch.only_largest.push_back(row % whole_every != 1);
      std::vector<float> logits(size_t(batch.num_whole_rows()) * kTestVocab);
      std::vector<kernels::LogitsScan> largest(20);
      model->forward(kernels.ctx, batch, logits, largest).value();
      size_t next = 0;
      for (size_t row = 0; row < 20; ++row) {
        if (batch.only_largest[row] == 0) {
          ASSERT_EQ(std::memcmp(&logits[next++ * kTestVocab], row_of(row).data(),
                                kTestVocab * sizeof(float)),
                    0)
              << extra << row;
          continue;
        }
        const kernels::LogitsScan scan = kernels::scan_logits(row_of(row));
        ASSERT_TRUE(largest[row].is_valid);
        ASSERT_EQ(largest[row].argmax, scan.argmax) << extra << row;
        ASSERT_EQ(largest[row].max, scan.max) << extra << row;
      }
    }
  }
}

TEST(Decoder, BrokenBatchesAreErrorsNotCrashes) {
  TestKernels kernels;
  const auto model = load(kernels, hf_llama());
  const std::vector<int32_t> tokens = some_tokens(20);
  const ForwardBatch good = one_sequence(tokens, 4, 20);
  const auto fails = [&](auto&& change) {
    ForwardBatch batch = good;
    change(batch);
    std::vector<float> logits(batch.logits_rows.size() * kTestVocab);
    return !model->forward(kernels.ctx, batch, logits, {}).ok();
  };
  EXPECT_FALSE(fails([](ForwardBatch&) {}));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.token_ids[3] = kTestVocab; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.token_ids[3] = -1; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.positions[2] = 3; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.slot_mapping[2] = 1 << 30; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.block_tables[1] = -1; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.block_tables[1] = 16; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.block_tables.pop_back(); }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.seq_lens[0] = 1000; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.seq_lens[0] = 3; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.query_start_loc[1] = 7; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.query_start_loc.pop_back(); }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.logits_rows = {5, 5}; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.logits_rows = {16}; }));
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.only_largest = {0}; })) << "one for 16 rows";
  EXPECT_TRUE(fails([](ForwardBatch& b) { b.only_largest.assign(16, 0); })) << "no place for it";
  std::vector<float> too_small(3);
  EXPECT_FALSE(model->forward(kernels.ctx, good, too_small, {}).ok());
  EXPECT_FALSE(model->forward(kernels.ctx, one_sequence(some_tokens(65), 0, 65), {}, {}).ok())
      << "more tokens than reserved";
}

}  // namespace
}  // namespace octavo::model
