#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/weights/codecs/quantize_rows.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/quantizing_weights.h"
#include "tests/integration/cuda_engine_machine.h"
#include "tests/integration/step_outcome.h"

// Whole engines on CUDA whose weights stay packed.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::CudaEngineMachine;
using testing::describe;
using testing::expect_same_bits;
using testing::kHead64Config;
using testing::Mix;
using testing::Outcome;
using testing::relative_distance;
using testing::run;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;
using weights::LoadQuantization;

constexpr const char* kMixtureConfig = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": true,
  "vocab_size": 97, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "hidden_act": "silu"})";

/// Dummy weights with matrices so large that the layers' results outweigh the embedding.
class LoudWeights final : public weights::WeightSource {
 public:
  explicit LoudWeights(const weights::WeightSource& source) : source_(source) {}
  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return source_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return source_.names(); }
  [[nodiscard]] std::string description() const override { return source_.description(); }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    std::vector<float> values(dst.size() / dtype_bytes(dtype));
    source_.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    const bool is_matrix = source_.find(name)->shape.size() >= 2;
    for (float& value : values) value *= is_matrix ? 8.0F : 1.0F;
    weights::convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
  }

 private:
  const weights::WeightSource& source_;
};

/// A source whose experts are stored in float8, with a scale for each output.
class Float8Experts final : public weights::WeightSource {
 public:
  explicit Float8Experts(const weights::WeightSource& source) : source_(source) {}
  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return source_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return source_.names(); }
  [[nodiscard]] std::string description() const override { return source_.description(); }
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override {
    const bool is_expert = name.find(".experts.") != std::string_view::npos;
    return is_expert ? std::optional(kCodec) : std::nullopt;
  }
  void read_panels(std::string_view name, std::span<std::byte> dst) const override {
    const int64_t depth = find(name)->shape[1];
    const auto row_size = static_cast<size_t>(depth);
    std::vector<float> values(static_cast<size_t>(find(name)->shape[0]) * row_size);
    source_.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
    for (size_t row = 0; row * row_size < values.size(); ++row) {
      weights::quantize_row(kCodec,
                            std::span(values).subspan(row * row_size, row_size),
                            static_cast<int64_t>(row),
                            dst);
    }
  }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    if (!panel_format(name)) return source_.read(name, dtype, dst);
    const int64_t rows = find(name)->shape[0];
    const int64_t depth = find(name)->shape[1];
    std::vector<std::byte> panels(static_cast<size_t>(panel_bytes(kCodec, rows, depth)));
    read_panels(name, panels);
    std::vector<float> values;
    for (int64_t row = 0; row < rows; ++row) {
      const std::byte* panel =
          panels.data() + panel_bytes(kCodec, row / kPanelColumns * kPanelColumns, depth);
      float scale = 0;
      std::memcpy(&scale, panel + float_scale_offset(kCodec, depth, 0, row), sizeof scale);
      for (int64_t i = 0; i < depth; ++i) {
        const auto code = static_cast<uint8_t>(panel[float_code_offset(kCodec, depth, row, i)]);
        values.push_back(scale * to_float(Float8E4M3{code}));
      }
    }
    weights::convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
  }

 private:
  static constexpr PanelFormat kCodec = PanelFormat::f8e4m3_rows;
  const weights::WeightSource& source_;
};

/// A model whose matrices are quantised while loading.
struct QuantisedModel {
  QuantisedModel(const char* config, LoadQuantization method)
      : dummy(weights::parse_model_config(config, "config.json").config, 7),
        packed(std::make_unique<LoudWeights>(dummy), method) {}

  weights::DummyWeights dummy;
  weights::QuantizingWeights packed;
};

/// The relative distances of rows of logits.
struct Distances {
  double median = 0;
  double largest = 0;
};
Distances distances_of(std::span<const float> got, std::span<const float> want, size_t columns) {
  std::vector<double> rows;
  for (size_t begin = 0; begin < want.size(); begin += columns) {
    rows.push_back(relative_distance(got.subspan(begin, columns), want.subspan(begin, columns)));
  }
  std::ranges::sort(rows);
  return {.median = rows[rows.size() / 2], .largest = rows.back()};
}

TinyEngineOptions options_of(const QuantisedModel& model, const char* config) {
  return {.mode = CudagraphMode::FULL_AND_PIECEWISE,
          .max_num_tokens = 16,
          .max_num_reqs = 4,
          .config = config,
          .weights = &model.packed,
          .weight_families = {
              WeightFamily::block_panels, WeightFamily::int8_panels, WeightFamily::float_panels}};
}

class CudaPackedEngine
    : public ::testing::TestWithParam<std::tuple<const char*, LoadQuantization>> {};

TEST_P(CudaPackedEngine, computes_what_the_cpu_computes_from_weights_of_the_packed_size) {
  const auto [config, method] = GetParam();
  const QuantisedModel model(config, method);
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CudaEngineMachine machine;
      TinyEngineOptions options = options_of(model, config);
      options.level = level;
      options.dtype = dtype;
      TinyEngine cpu(options);
      TinyEngine cuda(machine.options(options));
      EXPECT_TRUE(cuda.execution().executor().weight_families().has(WeightFamily::block_panels));
      EXPECT_EQ(cuda.weight_bytes(), cpu.weight_bytes());
      options.weight_families = {};
      EXPECT_LT(cuda.weight_bytes(), TinyEngine(options).weight_bytes());
      cpu.randomize_kv(3);
      const std::vector<std::byte> kv = cpu.save_kv();
      for (const Mix mix : {Mix::prefill, Mix::uniform_decode}) {
        const TestBatch batch(mix, mix == Mix::uniform_decode ? 4 : 11, 4, 5);
        const cudagraph::Decision eager{.descriptor = {.num_tokens = batch.facts().num_tokens}};
        const Outcome want = run(cpu, batch, eager, CudagraphRuntimeMode::NONE, kv);
        const Outcome got = run(cuda, batch, eager, CudagraphRuntimeMode::NONE, kv);
        ASSERT_EQ(want.logits.size(), got.logits.size());
        // Activations are rounded to 8 bits. A sum in another order may change a code, and then
        // that row and those that attend to it have other rounding errors: so most rows are near,
        // and no row is far.
        const Distances distances = distances_of(got.logits, want.logits, 97);
        // Float8 is multiplied with activations as they are. A row of int8 has one scale, so a code
        // that changes there changes more.
        const bool is_float8 = method == LoadQuantization::fp8;
        const bool is_exact = dtype == DType::f32 && (is_float8 || mix == Mix::uniform_decode);
        EXPECT_LT(distances.median, is_exact ? 1e-5 : 5e-2) << to_string(mix);
        EXPECT_LT(distances.largest, 0.1) << to_string(mix);
      }
    }
  }
}

TEST_P(CudaPackedEngine, replays_with_the_bits_of_eager_steps) {
  const auto [config, method] = GetParam();
  const QuantisedModel model(config, method);
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    CudaEngineMachine machine;
    TinyEngineOptions options = machine.options(options_of(model, config));
    options.level = level;
    TinyEngine engine(options);
    for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
    engine.randomize_kv(11);
    const std::vector<std::byte> kv = engine.save_kv();
    for (const Mix mix : {Mix::mixed, Mix::uniform_decode}) {
      for (const int32_t num_tokens : {1, 3, 7}) {
        if (mix == Mix::uniform_decode && num_tokens > options.max_num_reqs) continue;
        const TestBatch batch(mix, num_tokens, options.max_num_reqs, 100);
        const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
        ASSERT_NE(decision.mode, CudagraphRuntimeMode::NONE);
        const Outcome replay = run(engine, batch, decision, decision.mode, kv);
        const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
        expect_same_bits(eager, replay, describe(mix, num_tokens, decision));
        // Padding changes no bit either, because a row has the same bits in any batch.
        const cudagraph::Decision unpadded{.descriptor = {.num_tokens = num_tokens}};
        const Outcome bare = run(engine, batch, unpadded, CudagraphRuntimeMode::NONE, kv);
        expect_same_bits(bare, replay, describe(mix, num_tokens, decision) + ", unpadded");
        if (HasFailure()) return;
      }
    }
    if (!machine.is_real()) {
      EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
    }
  }
}

constexpr const char* kPlainHeadsConfig = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 128,
  "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 97, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

/// What a step computes by a kernel of choice, and the kernels that it launches; a replay none.
struct StepBy {
  Outcome outcome;
  std::set<std::string> functions;
};
StepBy step_by(CudaEngineMachine& machine,
               TinyEngine& engine,
               const kernels::ProductChoice& choice,
               CudagraphRuntimeMode mode,
               std::span<const std::byte> kv) {
  using namespace kernels::cuda;
  std::set<std::string> functions;
  machine.fake().driver().set_time_of_kernels([&](const std::string& function, uint32_t) {
    functions.insert(function);
    return 1.0;
  });
  auto& executor = dynamic_cast<CudaExecutor&>(engine.execution().executor());
  const ForcedChoice forced(executor.choices(), choice);
  const TestBatch batch(Mix::uniform_decode, 3, 4, 100);
  const cudagraph::Decision decision = mode == CudagraphRuntimeMode::NONE
                                           ? cudagraph::Decision{.descriptor = {.num_tokens = 3}}
                                           : engine.runner().dispatcher().dispatch(batch.facts());
  Outcome outcome = run(engine, batch, decision, mode, kv);
  machine.fake().driver().set_time_of_kernels({});
  return {.outcome = std::move(outcome), .functions = std::move(functions)};
}

// The program is the same: the executor decides at launch, and both ways have the same bits.
TEST(CudaPackedRows, are_normed_and_quantised_by_the_products_where_streamed_kernels_run) {
  using Kernel = kernels::ProductChoice::Kernel;
  const kernels::ProductChoice streamed{.kernel = Kernel::streamed};
  const kernels::ProductChoice own{.kernel = Kernel::own};
  for (const auto& [method, codes] :
       {std::pair{LoadQuantization::q8_0, "packed"}, std::pair{LoadQuantization::int8, "int8"}}) {
    const QuantisedModel model(kPlainHeadsConfig, method);
    CudaEngineMachine machine;
    if (machine.is_real()) GTEST_SKIP() << "only the fake driver tells which kernels ran";
    TinyEngineOptions options = machine.options(options_of(model, kPlainHeadsConfig));
    options.level = CompilationMode::VLLM_COMPILE;
    options.dtype = DType::bf16;
    TinyEngine engine(options);
    {
      auto& executor = dynamic_cast<kernels::cuda::CudaExecutor&>(engine.execution().executor());
      const kernels::cuda::ForcedChoice forced(executor.choices(), streamed);
      for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
    }
    engine.randomize_kv(11);
    const std::vector<std::byte> kv = engine.save_kv();
    const StepBy usual = step_by(machine, engine, own, CudagraphRuntimeMode::NONE, kv);
    const StepBy eager = step_by(machine, engine, streamed, CudagraphRuntimeMode::NONE, kv);
    const StepBy replay = step_by(machine, engine, streamed, CudagraphRuntimeMode::FULL, kv);
    expect_same_bits(usual.outcome, eager.outcome, "streamed");
    expect_same_bits(usual.outcome, replay.outcome, "replayed");
    const auto has = [](const StepBy& step, const std::string& part) {
      return std::ranges::any_of(step.functions, [&](const std::string& function) {
        return function.find(part) != std::string::npos;
      });
    };
    for (const char* product : {"linear_rope_kv_write", "linear_silu_and_mul", "linear"}) {
      EXPECT_TRUE(has(eager, std::string(codes) + "_own_rows_streamed_" + product)) << product;
    }
    EXPECT_FALSE(has(eager, "quant"));
    EXPECT_FALSE(has(eager, "reprise_rms_norm"));
    EXPECT_FALSE(has(eager, "reprise_rope"));
    EXPECT_TRUE(has(usual, "quant"));
    EXPECT_FALSE(has(usual, "_streamed_"));
  }
}

// With more than 64 rows the library multiplies codes with codes.
TEST(CudaEightBitEngine, prompts_are_quantised_unless_the_checkpoint_asks_for_elements) {
  const QuantisedModel model(kHead64Config, LoadQuantization::fp8);
  CudaEngineMachine machine;
  TinyEngineOptions options = options_of(model, kHead64Config);
  options.max_num_tokens = 80;
  options.dtype = DType::f32;
  options.compilation.cudagraph_capture_sizes = std::vector<int32_t>{4, 72, 80};
  TinyEngine cpu(options);
  TinyEngine cuda(machine.options(options));
  for (const auto& record : cuda.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  cpu.randomize_kv(3);
  const std::vector<std::byte> kv = cpu.save_kv();
  const TestBatch batch(Mix::prefill, 71, 4, 5);
  const cudagraph::Decision eager{.descriptor = {.num_tokens = batch.facts().num_tokens}};
  const auto distances = [&] {
    const Outcome want = run(cpu, batch, eager, CudagraphRuntimeMode::NONE, kv);
    const Outcome got = run(cuda, batch, eager, CudagraphRuntimeMode::NONE, kv);
    return distances_of(got.logits, want.logits, 97);
  };
  const Distances quantised = distances();
  EXPECT_GT(quantised.median, 1e-3);
  EXPECT_LT(quantised.largest, 0.2);
  const cudagraph::Decision decision = cuda.runner().dispatcher().dispatch(batch.facts());
  ASSERT_NE(decision.mode, CudagraphRuntimeMode::NONE);
  expect_same_bits(run(cuda, batch, decision, CudagraphRuntimeMode::NONE, kv),
                   run(cuda, batch, decision, decision.mode, kv),
                   describe(Mix::prefill, 71, decision));
  cuda.execution().executor().keep_activations();
  EXPECT_LT(distances().largest, 1e-4);
}

TEST(CudaPackedExperts, in_float8_stay_packed_and_compute_what_the_cpu_computes) {
  const weights::DummyWeights dummy(
      weights::parse_model_config(kMixtureConfig, "config.json").config, 7);
  const LoudWeights loud(dummy);
  const Float8Experts stored(loud);
  using enum WeightFamily;
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CudaEngineMachine machine;
      TinyEngineOptions options{.mode = CudagraphMode::FULL_AND_PIECEWISE,
                                .max_num_tokens = 16,
                                .max_num_reqs = 4,
                                .config = kMixtureConfig,
                                .weights = &stored};
      options.level = level;
      options.dtype = dtype;
      TinyEngine cpu(options);
      options.weight_families = {{block_panels, float_panels}, {block_panels, float_panels}};
      TinyEngine cuda(machine.options(options));
      EXPECT_TRUE(cuda.execution().executor().weight_families().has_experts(float_panels));
      EXPECT_FALSE(cpu.execution().executor().weight_families().has_experts(float_panels));
      // Two layers of eight experts, with gate, up and down.
      constexpr size_t kElements = size_t{2} * 8 * 3 * 32 * 64;
      constexpr size_t kScales = size_t{2} * 8 * (32 + 32 + 64);
      EXPECT_EQ(cpu.weight_bytes() - cuda.weight_bytes(),
                kElements * (dtype_bytes(dtype) - 1) - kScales * sizeof(float));
      for (const auto& record : cuda.runner().capture({}).records) EXPECT_EQ(record.failure, "");
      cpu.randomize_kv(3);
      const std::vector<std::byte> kv = cpu.save_kv();
      for (const Mix mix : {Mix::prefill, Mix::uniform_decode}) {
        const TestBatch batch(mix, mix == Mix::uniform_decode ? 4 : 11, 4, 5);
        const cudagraph::Decision eager{.descriptor = {.num_tokens = batch.facts().num_tokens}};
        const Outcome want = run(cpu, batch, eager, CudagraphRuntimeMode::NONE, kv);
        const Outcome got = run(cuda, batch, eager, CudagraphRuntimeMode::NONE, kv);
        const Distances distances = distances_of(got.logits, want.logits, 97);
        EXPECT_LT(distances.median, dtype == DType::f32 ? 1e-5 : 5e-2) << to_string(mix);
        EXPECT_LT(distances.largest, dtype == DType::f32 ? 1e-4 : 0.1) << to_string(mix);
      }
      for (const Mix mix : {Mix::mixed, Mix::uniform_decode}) {
        const TestBatch batch(mix, 4, 4, 5);
        const cudagraph::Decision decision = cuda.runner().dispatcher().dispatch(batch.facts());
        ASSERT_NE(decision.mode, CudagraphRuntimeMode::NONE);
        const Outcome replay = run(cuda, batch, decision, decision.mode, kv);
        const Outcome eager = run(cuda, batch, decision, CudagraphRuntimeMode::NONE, kv);
        expect_same_bits(eager, replay, describe(mix, 4, decision));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         CudaPackedEngine,
                         ::testing::Combine(::testing::Values(kHead64Config, kMixtureConfig),
                                            ::testing::Values(LoadQuantization::q8_0,
                                                              LoadQuantization::int4,
                                                              LoadQuantization::int8,
                                                              LoadQuantization::fp8)),
                         [](const auto& instance) {
                           const bool is_mixture = std::get<0>(instance.param) == kMixtureConfig;
                           const LoadQuantization method = std::get<1>(instance.param);
                           return std::string(is_mixture ? "mixture" : "dense") +
                                  (method == LoadQuantization::int4   ? "_int4"
                                   : method == LoadQuantization::int8 ? "_int8"
                                   : method == LoadQuantization::fp8  ? "_fp8"
                                                                      : "_q8_0");
                         });

}  // namespace
}  // namespace reprise
