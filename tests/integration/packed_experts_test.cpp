#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "reprise/tensor/packed_weight.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/quantizing_weights.h"
#include "tests/integration/step_outcome.h"

// Models whose experts stay packed: compares replay with eager, and with the numbers for which the
// packed weights stand.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using models::Parameters;
using testing::kMixes;
using testing::Mix;
using testing::Outcome;
using testing::TestBatch;
using testing::TinyEngine;
using weights::LoadQuantization;

struct Model {
  const char* name;
  const char* config;
};

constexpr Model kQwen3Moe = {"qwen3_moe", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": true,
  "vocab_size": 97, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "hidden_act": "silu"})"};
// A mixture with a shared expert, one with stacked experts that have biases, one whose experts
// multiply their input, and one with groups of experts after a dense layer.
constexpr Model kModels[] = {kQwen3Moe,
                             {"mixtral", R"({
  "architectures": ["MixtralForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 97,
  "max_position_embeddings": 256, "hidden_act": "silu"})"},
                             {"qwen2_moe", R"({
  "architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 6,
  "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
  "vocab_size": 97, "max_position_embeddings": 256, "hidden_act": "silu"})"},
                             {"gpt_oss", R"({
  "architectures": ["GptOssForCausalLM"], "hidden_size": 64, "intermediate_size": 32,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "num_local_experts": 6, "num_experts_per_tok": 2, "vocab_size": 97,
  "max_position_embeddings": 256, "sliding_window": 9})"},
                             {"llama4", R"({
  "architectures": ["Llama4ForCausalLM"], "hidden_size": 64, "intermediate_size": 32,
  "intermediate_size_mlp": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 1,
  "vocab_size": 97, "max_position_embeddings": 256, "interleave_moe_layer_step": 1})"},
                             {"deepseek", testing::kTinyDeepseekConfig}};

weights::ModelConfig parse(const Model& model) {
  return weights::parse_model_config(model.config, "config.json").config;
}

/// A source that changes another source's tensors while they are read.
class Changed : public weights::WeightSource {
 public:
  explicit Changed(const weights::WeightSource& source) : source_(source) {}
  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return source_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return source_.names(); }
  [[nodiscard]] std::string description() const override { return source_.description(); }

 protected:
  const weights::WeightSource& source_;
};

/// Dummy weights with matrices so large that the layers' results outweigh the embedding.
class Loud final : public Changed {
 public:
  using Changed::Changed;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    std::vector<float> values(dst.size() / dtype_bytes(dtype));
    source_.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    const bool is_matrix = source_.find(name)->shape.size() >= 2;
    for (float& value : values) value *= is_matrix ? 8.0F : 1.0F;
    weights::convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
  }
};

/// Offers the experts of a source in packed form and everything else as numbers. So an engine reads
/// exactly the numbers of Dequantised, or the packed form of these numbers.
class OnlyExperts final : public Changed {
 public:
  using Changed::Changed;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override {
    const bool is_matrix = name.ends_with(".weight") || name.ends_with("_proj");
    return is_matrix && name.find(".experts.") != std::string_view::npos
               ? source_.panel_format(name)
               : std::nullopt;
  }
  void read_panels(std::string_view name, std::span<std::byte> dst) const override {
    source_.read_panels(name, dst);
  }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    source_.read(name, dtype, dst);
  }
};

/// The numbers for which a source's packed weights stand.
class Dequantised final : public Changed {
 public:
  using Changed::Changed;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    const std::optional<PanelFormat> format = source_.panel_format(name);
    if (!format) return source_.read(name, dtype, dst);
    const weights::TensorSpec& spec = *source_.find(name);
    const int64_t depth = spec.shape.back();
    const PanelPart part{.format = *format, .columns = num_matrix_rows(spec)};
    std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, depth)));
    const PanelHeader header = make_panel_header({&part, 1}, depth);
    std::memcpy(packed.data(), &header, sizeof header);
    source_.read_panels(name, std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes));
    std::vector<float> values;
    for (int64_t row = 0; row < part.columns; ++row) {
      for (int64_t i = 0; i < depth; ++i) {
        values.push_back(static_cast<float>(panel_element(packed.data(), row, i)));
      }
    }
    weights::convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
  }
};

/// Owns a chain of sources.
struct PackedModel {
  PackedModel(const Model& model, LoadQuantization method)
      : dummy(parse(model), 7),
        quantised(std::make_unique<Loud>(dummy), method),
        packed(quantised),
        numbers(packed) {}

  weights::DummyWeights dummy;
  weights::QuantizingWeights quantised;
  OnlyExperts packed;
  Dequantised numbers;
};

std::vector<float> logits_of(TinyEngine& engine, const TestBatch& batch) {
  const runner::StepResult& result = engine.runner().execute(batch.requests(), batch.facts());
  return engine.logits(result);
}

/// The median over the rows of |a - b| / |b|. Rounded activations may make a router choose another
/// expert, so single rows can be far from each other.
double median_distance(std::span<const float> a, std::span<const float> b, int64_t columns) {
  std::vector<double> distances;
  const auto width = static_cast<size_t>(columns);
  for (size_t begin = 0; begin < b.size(); begin += width) {
    distances.push_back(
        testing::relative_distance(a.subspan(begin, width), b.subspan(begin, width)));
  }
  std::ranges::nth_element(distances, distances.begin() + distances.size() / 2);
  return distances[distances.size() / 2];
}

TEST(PackedExperts, give_the_logits_of_the_numbers_that_they_stand_for) {
  for (const Model& model : kModels) {
    for (const LoadQuantization method : {LoadQuantization::q8_0, LoadQuantization::int4}) {
      const PackedModel weights(model, method);
      TinyEngine packed({.dtype = DType::f32,
                         .config = model.config,
                         .weights = &weights.packed,
                         .weight_families = WeightFamilies::all()});
      TinyEngine numbers(
          {.dtype = DType::f32, .config = model.config, .weights = &weights.numbers});
      EXPECT_EQ(packed.parameters().unpacked_experts(), "");
      EXPECT_LT(packed.weight_bytes(), numbers.weight_bytes());
      // Few rows per expert, and many.
      for (const int32_t num_tokens : {1, 2, 16}) {
        const TestBatch batch(Mix::uniform_decode, num_tokens, 16, 3);
        const double distance =
            median_distance(logits_of(packed, batch), logits_of(numbers, batch), 97);
        fmt::print("[measured] {}: {} tokens, distance {:.4f}\n", model.name, num_tokens, distance);
        EXPECT_LT(distance, 0.03) << model.name << ", " << num_tokens << " tokens";
      }
    }
  }
}

class PackedExpertModes
    : public ::testing::TestWithParam<std::tuple<CudagraphMode, CompilationMode>> {};

TEST_P(PackedExpertModes, replay_gives_the_bits_of_eager_steps_of_every_size) {
  const PackedModel weights(kQwen3Moe, LoadQuantization::q8_0);
  TinyEngine engine({.mode = std::get<0>(GetParam()),
                     .level = std::get<1>(GetParam()),
                     .config = kQwen3Moe.config,
                     .weights = &weights.packed,
                     .weight_families = WeightFamilies::all()});
  for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  engine.randomize_kv(11);
  const std::vector<std::byte> kv_before = engine.save_kv();
  uint32_t seed = 100;
  for (const Mix mix : kMixes) {
    // With 3 of 8 experts for each token, the launch grid changes between 2 and 3 tokens.
    for (const int32_t num_tokens : {1, 2, 3, 4, 9, 16, 33}) {
      if (mix == Mix::uniform_decode && num_tokens > 16) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const std::string what = testing::describe(mix, num_tokens, decision);
      const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(eager, replay, what);
      const cudagraph::Decision unpadded{.descriptor = {.num_tokens = num_tokens}};
      const Outcome bare = run(engine, batch, unpadded, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(bare, replay, what + " against the unpadded batch");
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(modes_and_levels,
                         PackedExpertModes,
                         ::testing::Combine(::testing::ValuesIn(testing::kModes),
                                            ::testing::Values(CompilationMode::NONE,
                                                              CompilationMode::VLLM_COMPILE)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              to_string(std::get<0>(param_info.param)),
                                              to_string(std::get<1>(param_info.param)));
                         });

TEST(PackedExperts, are_numbers_where_a_panel_would_have_rows_of_two_experts) {
  const Model model = {"narrow", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "vocab_size": 97,
  "max_position_embeddings": 256})"};
  const PackedModel weights(model, LoadQuantization::q8_0);
  TinyEngine engine({.dtype = DType::f32,
                     .config = model.config,
                     .weights = &weights.packed,
                     .weight_families = WeightFamilies::all()});
  EXPECT_NE(engine.parameters().unpacked_experts().find(
                "gate_proj+up_proj.weight: 24 rows of an expert are not a multiple of 16"),
            std::string::npos)
      << engine.parameters().unpacked_experts();
  const std::vector<float> logits = logits_of(engine, TestBatch(Mix::prefill, 5, 16, 3));
  for (const float logit : logits) EXPECT_TRUE(std::isfinite(logit));
}

}  // namespace
}  // namespace reprise
