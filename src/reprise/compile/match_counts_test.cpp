// How often passes match in decoders: the rows PAS of vLLM's tests (fusions_e2e). These rows are
// left out, because they do not apply here or are tested elsewhere:
// - PAS-03, PAS-06 and PAS-10 use four-bit floats, PAS-09 uses multi-head latent attention, and
//   PAS-05 uses a model whose experts take quantised rows: this project has no such ops;
// - the part of PAS-02 about GEMM and collective in one op: there is no such op for quantised
//   products;
// - PAS-18 chooses between attention libraries, and PAS-43 starts engines;
// - PAS-26 to PAS-34 remove clones and check writes, and PAS-38 undoes in-place rotation: programs
//   are functional, so there is nothing to clone and nothing to undo;
// - PAS-44 and PAS-45 are about Python.
//
// PAS-20 to PAS-25 are in collective_limits_test.cpp, PAS-46 is in collectives_test.cpp.

#include <gtest/gtest.h>

#include "reprise/compile/pipeline.h"
#include "reprise/compile/scale_tokens.h"
#include "tests/support/compile/decoder_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

constexpr int kLayers[] = {1, 2, 5};

PipelineReport compile(const DecoderOptions& decoder, const PassOptions& passes) {
  Program program = make_decoder(decoder);
  if (decoder.ranks > 1) scale_tokens(program, decoder.ranks);
  return make_pipeline(passes).run(program);
}

PassOptions with_ranks(int64_t ranks) {
  return {.rope_kvcache_fusion_max_token_num = 0, .tensor_parallel_size = ranks};
}
PassOptions with_fused_all_reduce(int64_t ranks) {
  PassOptions options = with_ranks(ranks);
  options.fuse_allreduce_rms = true;
  options.allreduce_fusion_max_token_num = 256;
  options.range = {1, 256};
  return options;
}
PassOptions with_sequence_parallelism(int64_t ranks) {
  PassOptions options = with_ranks(ranks);
  options.enable_sp = options.fuse_gemm_comms = true;
  options.sp_min_token_num = 1;
  return options;
}

struct CollectiveCase {
  const char* row;
  bool has_qk_norm;
  bool has_experts;
  size_t gemm_matches_per_layer;
};

TEST(MatchCounts, of_collectives) {
  constexpr CollectiveCase kCases[] = {
      {"PAS-01, Llama-3.1-8B", false, false, 4},
      {"PAS-07, Qwen3-30B-A3B", true, true, 2},  // only the products that are not in experts
      {"PAS-12, gpt-oss-20b", false, true, 2},
  };
  for (const CollectiveCase& c : kCases) {
    for (int num_layers : kLayers) {
      SCOPED_TRACE(testing::Message() << c.row << ", " << num_layers << " layers");
      const auto n = static_cast<size_t>(num_layers);
      const DecoderOptions decoder{.num_layers = num_layers,
                                   .ranks = 2,
                                   .has_qk_norm = c.has_qk_norm,
                                   .has_experts = c.has_experts};
      EXPECT_EQ(compile(decoder, with_fused_all_reduce(2)).num_matches("fuse_allreduce_rms"),
                2 * n + 1);
      const PipelineReport report = compile(decoder, with_sequence_parallelism(2));
      EXPECT_EQ(report.num_matches("parallelize_sequence"), 2 * n + 1);
      EXPECT_EQ(report.num_matches("fuse_gemm_comms"), c.gemm_matches_per_layer * n);
      EXPECT_EQ(report.num_matches("fuse_qk_norm_rope_kv_write"), c.has_qk_norm ? n : 0);
    }
  }
}

TEST(MatchCounts, PAS_02_of_quantisation) {
  for (int num_layers : kLayers) {
    const auto n = static_cast<size_t>(num_layers);
    const DecoderOptions decoder{.num_layers = num_layers, .ranks = 2, .is_quantized = true};
    const PipelineReport alone = compile(decoder, with_ranks(2));
    EXPECT_EQ(alone.num_matches("fuse_norm_quant"), 2 * n);
    EXPECT_EQ(alone.num_matches("fuse_act_quant"), n);
    EXPECT_EQ(alone.num_matches("fuse_attn_quant"), n);
    const PipelineReport reduced = compile(decoder, with_fused_all_reduce(2));
    EXPECT_EQ(reduced.num_matches("fuse_allreduce_rms"), 2 * n + 1);
    // PAS-17: the fusion with the all-reduce takes precedence.
    EXPECT_EQ(reduced.num_matches("fuse_norm_quant"), 0U);
    EXPECT_EQ(reduced.num_matches("fuse_act_quant"), n);
    EXPECT_EQ(compile(decoder, with_sequence_parallelism(2)).num_matches("parallelize_sequence"),
              2 * n + 1);
  }
}

// PAS-13, PAS-15 and PAS-16: the token ranges for a budget of 8192 tokens, if all-reduces are fused
// up to 256 tokens and sequence parallelism begins at 512 tokens.
TEST(MatchCounts, of_collectives_by_range) {
  const DecoderOptions decoder{.num_layers = 3, .ranks = 2};
  const auto counts = [&](program::TokenRange range, bool enable_sp) {
    PassOptions options = with_fused_all_reduce(2);
    options.range = range;
    options.enable_sp = options.fuse_gemm_comms = enable_sp;
    options.sp_min_token_num = 512;
    const PipelineReport report = compile(decoder, options);
    return std::vector{report.num_matches("fuse_allreduce_rms"),
                       report.num_matches("parallelize_sequence"),
                       report.num_matches("fuse_gemm_comms")};
  };
  using Counts = std::vector<size_t>;
  EXPECT_EQ(counts({1, 256}, false), (Counts{7, 0, 0})) << "PAS-13: all ranges but the largest";
  EXPECT_EQ(counts({257, 8192}, false), (Counts{0, 0, 0}));
  EXPECT_EQ(counts({1, 256}, true), (Counts{7, 0, 0})) << "PAS-15, PAS-16: the smallest range";
  EXPECT_EQ(counts({257, 511}, true), (Counts{0, 0, 0}));
  EXPECT_EQ(counts({512, 8192}, true), (Counts{0, 7, 12}));
}

TEST(MatchCounts, PAS_15_sequence_parallelism_has_the_first_pick_of_sums) {
  PassOptions options = with_sequence_parallelism(2);
  options.fuse_allreduce_rms = true;
  options.allreduce_fusion_max_token_num = 8192;
  options.range = {1, 8192};
  const PipelineReport report = compile({.num_layers = 3, .ranks = 2}, options);
  EXPECT_EQ(report.num_matches("parallelize_sequence"), 7U);
  EXPECT_EQ(report.num_matches("fuse_allreduce_rms"), 0U);
}

TEST(MatchCounts, PAS_40_one_pass_serves_models_with_different_heads) {
  const Pipeline pipeline = make_pipeline(with_ranks(1));
  for (int64_t num_heads : {32, 16}) {
    Program program = make_decoder({.num_layers = 1, .num_heads = num_heads, .has_qk_norm = true});
    EXPECT_EQ(pipeline.run(program).num_matches("fuse_qk_norm_rope_kv_write"), 1U);
  }
}

TEST(MatchCounts, of_collectives_are_none_where_ranks_do_not_divide_the_rows) {
  Program program = make_decoder({.num_layers = 2, .ranks = 2});
  const PipelineReport report = make_pipeline(with_sequence_parallelism(2)).run(program);
  EXPECT_EQ(report.num_matches("parallelize_sequence"), 0U);
}

}  // namespace
}  // namespace reprise::compile
