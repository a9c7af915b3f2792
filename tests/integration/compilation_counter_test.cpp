#include <gtest/gtest.h>

#include "tests/integration/tiny_engine.h"

// Rows CNT of the behaviour reference: what compiling and capturing one engine counts. A 12-layer
// Llama stands for vLLM's 12-layer OPT and toy Llama.
//
// Where Reprise differs: equal pieces are compiled once, so the L+1 = 13 compilations of CNT-22 are
// 3 here; programs that are equal for several ranges are one. Left out: CNT-08 (no
// TORCH_COMPILE_DISABLE here), CNT-10..18 and CNT-24..28 (separately decorated sub-models; one
// model is one program here, and a function of one's own is guarded_function_test.cpp), CNT-34..36
// (multimodal encoders), CNT-38..42 as such (counts of other architectures; warm starts are
// compile_cache_start_test.cpp, as are CNT-44, 47, 48).
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using testing::TinyEngine;
using testing::TinyEngineOptions;

constexpr uint64_t kLayers = 12;
constexpr const char* kTwelveLayers = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 12, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";

struct Counted {
  compile::CompilationCounter counter;
  uint64_t captured = 0;  // graphs
  CudagraphMode mode = CudagraphMode::NONE;
};

Counted count(CudagraphMode mode, CompilationMode level, TinyEngineOptions options = {}) {
  options.config = kTwelveLayers;
  options.mode = mode;
  options.level = level;
  if (!options.compilation.cudagraph_capture_sizes) {
    options.compilation.cudagraph_capture_sizes = {std::vector<int32_t>{16}};
  }
  // With this rule each size has one key, as in vLLM.
  options.compilation.capture_size_rule = cudagraph::CaptureSizeRule::vllm_v1;
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  return {engine.compilation().counter,
          engine.runner().full_wrapper().num_graphs() +
              engine.runner().forward().num_piecewise_graphs(),
          engine.resolved().mode};
}

TEST(CompilationCounter, counts_one_program_and_the_graphs_of_each_mode) {
  struct Row {
    const char* id;
    CudagraphMode mode;
    uint64_t captured;
  };
  for (const Row& row : {Row{"CNT-01", CudagraphMode::NONE, 0},
                         Row{"CNT-02", CudagraphMode::FULL_DECODE_ONLY, 1},
                         Row{"CNT-03", CudagraphMode::PIECEWISE, kLayers + 1},
                         Row{"CNT-04", CudagraphMode::FULL_AND_PIECEWISE, kLayers + 2}}) {
    SCOPED_TRACE(row.id);
    const Counted counted = count(row.mode, CompilationMode::VLLM_COMPILE);
    EXPECT_EQ(counted.counter.num_graphs_seen, 1U);
    EXPECT_EQ(counted.captured, row.captured);
  }
}

TEST(CompilationCounter, counts_stock_compilation_apart_and_nothing_at_level_0) {
  EXPECT_EQ(count(CudagraphMode::NONE, CompilationMode::STOCK_TORCH_COMPILE)
                .counter.stock_torch_compile_count,
            1U)
      << "CNT-05";
  EXPECT_EQ(count(CudagraphMode::NONE, CompilationMode::NONE).counter,
            compile::CompilationCounter{})
      << "CNT-06, CNT-19";
  EXPECT_EQ(
      count(CudagraphMode::NONE, CompilationMode::VLLM_COMPILE, {.enforce_eager = true}).counter,
      compile::CompilationCounter{})
      << "CNT-07";
}

TEST(CompilationCounter, counts_2L_plus_1_pieces_of_which_3_are_unique) {
  TinyEngineOptions options;
  options.compilation.cudagraph_capture_sizes = {std::vector<int32_t>{1, 2}};
  for (const char* backend : {"eager", ""}) {
    options.compilation.backend = backend;
    const Counted counted = count(CudagraphMode::PIECEWISE, CompilationMode::VLLM_COMPILE, options);
    EXPECT_EQ(counted.counter.num_graphs_seen, 1U) << "CNT-22";
    EXPECT_EQ(counted.counter.num_piecewise_graphs_seen, 2 * kLayers + 1);
    EXPECT_EQ(counted.counter.num_piecewise_capturable_graphs_seen, kLayers + 1);
    EXPECT_EQ(counted.counter.num_unique_pieces, 3U);
    EXPECT_EQ(counted.counter.num_backend_compilations, 3U) << "vLLM: one per piece, 13";
    EXPECT_EQ(counted.captured, 2 * (kLayers + 1));
  }
}

TEST(CompilationCounter, counts_one_piece_where_nothing_splits) {
  TinyEngineOptions options;
  options.compilation.splitting_ops.emplace();
  options.compilation.backend = "eager";
  const Counted counted = count(CudagraphMode::FULL, CompilationMode::VLLM_COMPILE, options);
  EXPECT_EQ(counted.counter.num_piecewise_graphs_seen, 1U) << "CNT-20";
  EXPECT_EQ(counted.counter.num_piecewise_capturable_graphs_seen, 1U);
  EXPECT_EQ(counted.counter.num_backend_compilations, 1U);
  EXPECT_EQ(counted.counter.num_eager_compiles, 1U);
  // The whole program is one piece that contains attention, so only FULL graphs can hold it.
  EXPECT_EQ(count(CudagraphMode::PIECEWISE, CompilationMode::VLLM_COMPILE, options).mode,
            CudagraphMode::NONE);
}

TEST(CompilationCounter, counts_a_compilation_per_range_and_size) {
  TinyEngineOptions options;
  options.compilation.splitting_ops.emplace();
  options.compilation.compile_ranges_endpoints = {std::vector<int32_t>{8, 32}};
  options.compilation.compile_sizes = {{.sizes = {16, 63, 64}}};
  EXPECT_EQ(count(CudagraphMode::NONE, CompilationMode::VLLM_COMPILE, options)
                .counter.num_backend_compilations,
            6U)
      << "CNT-30: 1..8, 9..32, 33.., and three sizes";
}

TEST(CompilationCounter, counts_groups_and_generated_kernels) {
  const auto with = count(CudagraphMode::NONE, CompilationMode::VLLM_COMPILE).counter;
  TinyEngineOptions eager;
  eager.compilation.backend = "eager";
  const auto without = count(CudagraphMode::NONE, CompilationMode::VLLM_COMPILE, eager).counter;
  EXPECT_EQ(without.num_fused_groups, 0U);
  EXPECT_EQ(without.num_generated_kernels, 0U);
  EXPECT_LE(with.num_generated_kernels, with.num_fused_groups);
}

}  // namespace
}  // namespace reprise
