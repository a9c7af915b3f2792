#include "reprise/config/resolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/config/splitting_ops.h"

// Rows that are not tested here: CMB-07 to CMB-10 are about ROCm backends with support ALWAYS,
// which resolve like CMB-04. CMB-21 and -22 describe a version of vLLM that raised an error where
// later versions downgrade. The compiler, not the resolution, makes the compile range that SIZ-16,
// -18 and -19 mention.

namespace reprise::config {
namespace {

using enum cudagraph::CudagraphMode;
using Support = cudagraph::AttentionCGSupport;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ResolutionInputs asking(std::string_view compilation_config) {
  ResolutionInputs inputs;
  inputs.compilation = parse_compilation_config(compilation_config).config;
  inputs.attention = {{"backend", Support::ALWAYS}};
  return inputs;
}

ResolutionInputs asking(cudagraph::CudagraphMode mode) {
  ResolutionInputs inputs = asking("{}");
  inputs.compilation.cudagraph_mode = mode;
  return inputs;
}

/// Inputs that follow vLLM exactly: rule vllm for sizes, and no PIECEWISE without the compiler.
ResolutionInputs as_vllm(ResolutionInputs inputs) {
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::vllm_v1;
  inputs.breakable = false;
  return inputs;
}

std::vector<std::string> rules_of(const ResolvedConfig& resolved) {
  std::vector<std::string> rules;
  for (const ResolutionReason& reason : resolved.reasons) rules.push_back(reason.rule);
  return rules;
}

// ---- the complete table of support levels and modes ----

enum Column : size_t { q1_split, q1_whole, spec_split, spec_whole, kNumColumns };

struct SupportRow {
  cudagraph::CudagraphMode requested;
  Support support;
  std::array<std::optional<cudagraph::CudagraphMode>, kNumColumns> expected;  // unset = refused
};

std::vector<SupportRow> support_table() {
  const std::nullopt_t error = std::nullopt;
  std::vector<SupportRow> rows;
  const std::array<Support, 4> every = {Support::ALWAYS,
                                        Support::UNIFORM_BATCH,
                                        Support::UNIFORM_SINGLE_TOKEN_DECODE,
                                        Support::NEVER};
  for (Support s : every) {
    rows.push_back({NONE, s, {NONE, NONE, NONE, NONE}});
    rows.push_back({PIECEWISE, s, {PIECEWISE, PIECEWISE, PIECEWISE, PIECEWISE}});
  }
  const Support single = Support::UNIFORM_SINGLE_TOKEN_DECODE;
  const auto add = [&](cudagraph::CudagraphMode mode,
                       Support support,
                       std::array<std::optional<cudagraph::CudagraphMode>, kNumColumns> expected) {
    rows.push_back({mode, support, expected});
  };
  add(FULL, Support::ALWAYS, {FULL, FULL, FULL, FULL});
  add(FULL,
      Support::UNIFORM_BATCH,
      {FULL_AND_PIECEWISE, FULL_DECODE_ONLY, FULL_AND_PIECEWISE, FULL_DECODE_ONLY});
  add(FULL, single, {FULL_AND_PIECEWISE, FULL_DECODE_ONLY, PIECEWISE, NONE});
  add(FULL, Support::NEVER, {error, error, error, error});
  for (Support s : {Support::ALWAYS, Support::UNIFORM_BATCH}) {
    add(FULL_DECODE_ONLY,
        s,
        {FULL_DECODE_ONLY, FULL_DECODE_ONLY, FULL_DECODE_ONLY, FULL_DECODE_ONLY});
    add(FULL_AND_PIECEWISE,
        s,
        {FULL_AND_PIECEWISE, FULL_AND_PIECEWISE, FULL_AND_PIECEWISE, FULL_AND_PIECEWISE});
  }
  add(FULL_DECODE_ONLY, single, {FULL_DECODE_ONLY, FULL_DECODE_ONLY, PIECEWISE, NONE});
  add(FULL_DECODE_ONLY, Support::NEVER, {PIECEWISE, NONE, PIECEWISE, NONE});
  add(FULL_AND_PIECEWISE, single, {FULL_AND_PIECEWISE, FULL_AND_PIECEWISE, PIECEWISE, NONE});
  add(FULL_AND_PIECEWISE, Support::NEVER, {PIECEWISE, NONE, PIECEWISE, NONE});
  return rows;
}

ResolutionInputs inputs_of(const SupportRow& row, size_t column) {
  ResolutionInputs inputs = as_vllm(asking(row.requested));
  inputs.compilation.mode = CompilationMode::VLLM_COMPILE;
  inputs.attention = {{"strong", Support::ALWAYS}, {"weak", row.support}};
  if (column == q1_whole || column == spec_whole) {
    inputs.compilation.splitting_ops = std::vector<std::string>{"vllm::short_conv"};
  }
  if (column == spec_split || column == spec_whole) inputs.num_speculative_tokens = 3;
  return inputs;
}

TEST(Resolution, follows_the_complete_support_table) {
  for (const SupportRow& row : support_table()) {
    for (size_t column = 0; column < kNumColumns; ++column) {
      SCOPED_TRACE(fmt::format(
          "{} x {} column {}", to_string(row.requested), to_string(row.support), column));
      const ResolutionInputs inputs = inputs_of(row, column);
      if (!row.expected[column]) {
        EXPECT_THROW((void)resolve(inputs), InvalidArgument);
        continue;
      }
      const ResolvedConfig resolved = resolve(inputs);
      EXPECT_EQ(resolved.mode, *row.expected[column]);
      // Each downgrade is reported once. The text names the mode, the backend and its support.
      size_t changes = 0;
      for (const ResolutionReason& reason : resolved.reasons) {
        changes += reason.before != reason.after ? 1 : 0;
      }
      EXPECT_EQ(resolved.warnings.size(), changes);
      EXPECT_EQ(changes == 0, resolved.mode == row.requested);
      for (const std::string& warning : resolved.warnings) {
        EXPECT_THAT(warning, HasSubstr("weak"));
        EXPECT_THAT(warning, HasSubstr(std::string(to_string(row.support))));
      }
    }
  }
}

TEST(Resolution, full_with_single_token_support_and_speculation_warns_twice) {
  const ResolvedConfig resolved =
      resolve(inputs_of({FULL, Support::UNIFORM_SINGLE_TOKEN_DECODE, {}}, spec_split));
  EXPECT_EQ(resolved.mode, PIECEWISE);
  EXPECT_EQ(resolved.warnings.size(), 2U);
  EXPECT_THAT(rules_of(resolved), ElementsAre("C2", "C4"));
}

TEST(Resolution, with_inductor_partition_and_a_short_list_step_3_and_step_4_differ) {
  ResolutionInputs inputs = inputs_of({FULL_DECODE_ONLY, Support::NEVER, {}}, q1_whole);
  inputs.compilation.use_inductor_graph_partition = true;
  EXPECT_EQ(resolve(inputs).mode, PIECEWISE);
  inputs.attention = {{"weak", Support::UNIFORM_SINGLE_TOKEN_DECODE}};
  inputs.num_speculative_tokens = 3;
  EXPECT_EQ(resolve(inputs).mode, NONE);
}

TEST(Resolution, breakable_capture_makes_pieces_without_a_compiler) {
  for (const SupportRow& row : support_table()) {
    for (size_t column : {q1_split, spec_split}) {
      ResolutionInputs inputs = inputs_of(row, column);
      inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::reprise;
      inputs.compilation.mode = CompilationMode::NONE;
      inputs.breakable = true;
      if (!row.expected[column]) {
        EXPECT_THROW((void)resolve(inputs), InvalidArgument);
      } else {
        const ResolvedConfig resolved = resolve(inputs);
        EXPECT_EQ(resolved.mode, *row.expected[column]) << to_string(row.requested);
        EXPECT_TRUE(resolved.piecewise_available);
      }
    }
  }
}

// ---- compile level 0 and -O levels ----

struct LevelRow {
  std::string id;
  CompilationMode level;
  cudagraph::CudagraphMode requested;
  Support support;
  cudagraph::CudagraphMode expected;
};

TEST(Resolution, end_to_end_rows_of_backend_mode_and_level_agree) {  // CMB
  const Support fa2 = Support::UNIFORM_BATCH;
  const Support flashinfer = Support::UNIFORM_SINGLE_TOKEN_DECODE;
  using enum CompilationMode;
  const auto none = CompilationMode::NONE;
  const auto graphs_off = cudagraph::CudagraphMode::NONE;
  for (const LevelRow& row :
       std::vector<LevelRow>{{"CMB-03", VLLM_COMPILE, FULL, fa2, FULL_AND_PIECEWISE},
                             {"CMB-04", VLLM_COMPILE, FULL_AND_PIECEWISE, fa2, FULL_AND_PIECEWISE},
                             {"CMB-05", VLLM_COMPILE, FULL, flashinfer, FULL_AND_PIECEWISE},
                             {"CMB-11", none, FULL, fa2, FULL_DECODE_ONLY},
                             {"CMB-12", VLLM_COMPILE, FULL, fa2, FULL_AND_PIECEWISE},
                             {"CMB-13", none, PIECEWISE, fa2, graphs_off},
                             {"CMB-15", none, FULL_AND_PIECEWISE, fa2, graphs_off},
                             {"CMB-16", VLLM_COMPILE, FULL_AND_PIECEWISE, fa2, FULL_AND_PIECEWISE},
                             {"CMB-17", none, FULL_DECODE_ONLY, fa2, FULL_DECODE_ONLY},
                             {"CMB-24", none, FULL_DECODE_ONLY, fa2, FULL_DECODE_ONLY}}) {
    ResolutionInputs inputs = as_vllm(asking(row.requested));
    inputs.compilation.mode = row.level;
    inputs.attention = {{"backend", row.support}};
    EXPECT_EQ(resolve(inputs).mode, row.expected) << row.id;
  }
}

struct SourceRow {
  std::string_view backend;
  Support support;
};

// The table of backends on vLLM's design page about CUDA graphs, and the rule below it: for
// backends that can capture only decode batches, FULL becomes FULL_AND_PIECEWISE, or
// FULL_DECODE_ONLY if there are no pieces.
TEST(Resolution, full_is_aliased_as_the_source_documents_say) {
  for (const SourceRow& row :
       std::vector<SourceRow>{{"FlashAttention v2", Support::UNIFORM_BATCH},
                              {"FlashAttention v3", Support::ALWAYS},
                              {"Triton Attention", Support::ALWAYS},
                              {"AITER FlashAttention", Support::UNIFORM_BATCH},
                              {"FlashInfer", Support::UNIFORM_SINGLE_TOKEN_DECODE},
                              {"FlashMLA", Support::UNIFORM_BATCH},
                              {"FlashInferMLA", Support::UNIFORM_BATCH},
                              {"AITER MLA", Support::UNIFORM_SINGLE_TOKEN_DECODE},
                              {"CUTLASS MLA", Support::UNIFORM_SINGLE_TOKEN_DECODE},
                              {"Mamba attention", Support::UNIFORM_SINGLE_TOKEN_DECODE}}) {
    ResolutionInputs inputs = as_vllm(asking(FULL));
    inputs.attention = {{std::string(row.backend), row.support}};
    const bool always = row.support == Support::ALWAYS;
    inputs.optimization_level = OptimizationLevel::O3;
    EXPECT_EQ(resolve(inputs).mode, always ? FULL : FULL_AND_PIECEWISE) << row.backend;
    inputs.optimization_level = OptimizationLevel::O0;
    EXPECT_EQ(resolve(inputs).mode, always ? FULL : FULL_DECODE_ONLY) << row.backend;
  }
}

// ---- rule vllm-0.10: the defaults and aliases of vLLM's design page about CUDA graphs ----

struct PageRow {
  OptimizationLevel level;
  std::optional<cudagraph::CudagraphMode> requested;
  Support support;
  cudagraph::CudagraphMode expected;
};

// "If you're on v1 with piecewise compilation, we default to FULL_AND_PIECEWISE ... Otherwise ...
// we default to NONE." "We alias FULL to FULL_AND_PIECEWISE (-O 3) or FULL_DECODE_ONLY (-O 0) for
// backends that support CUDA Graphs for only pure decode or uniform decode." "... or PIECEWISE mode
// if the minimum capability is NEVER for -O3 compilation level."
TEST(Resolution, the_rule_of_vllm_0_10_has_the_modes_of_the_design_page) {
  using enum OptimizationLevel;
  const Support single = Support::UNIFORM_SINGLE_TOKEN_DECODE;
  for (const PageRow& row :
       std::vector<PageRow>{{O3, std::nullopt, Support::ALWAYS, FULL_AND_PIECEWISE},
                            {O3, std::nullopt, Support::UNIFORM_BATCH, FULL_AND_PIECEWISE},
                            {O3, std::nullopt, single, FULL_AND_PIECEWISE},
                            {O3, std::nullopt, Support::NEVER, PIECEWISE},
                            {O0, std::nullopt, Support::ALWAYS, NONE},
                            {O0, std::nullopt, Support::NEVER, NONE},
                            {O3, FULL, Support::ALWAYS, FULL},
                            {O3, FULL, Support::UNIFORM_BATCH, FULL_AND_PIECEWISE},
                            {O3, FULL, single, FULL_AND_PIECEWISE},
                            {O3, FULL, Support::NEVER, PIECEWISE},
                            {O0, FULL, Support::ALWAYS, FULL},
                            {O0, FULL, Support::UNIFORM_BATCH, FULL_DECODE_ONLY},
                            {O0, FULL, single, FULL_DECODE_ONLY},
                            {O0, FULL, Support::NEVER, NONE},
                            {O0, FULL_DECODE_ONLY, single, FULL_DECODE_ONLY},
                            {O0, PIECEWISE, Support::ALWAYS, NONE},
                            {O3, PIECEWISE, Support::NEVER, PIECEWISE}}) {
    for (const bool breakable : {false, true}) {
      ResolutionInputs inputs = asking(R"({"capture_size_rule": "vllm-0.10"})");
      inputs.optimization_level = row.level;
      inputs.compilation.cudagraph_mode = row.requested;
      inputs.attention = {{"backend", row.support}};
      inputs.breakable = breakable;  // vLLM 0.10 had no captures that can be interrupted
      const ResolvedConfig resolved = resolve(inputs);
      EXPECT_EQ(resolved.mode, row.expected)
          << to_string(row.level) << ' ' << (row.requested ? to_string(*row.requested) : "unset")
          << ' ' << to_string(row.support);
      if (row.requested && *row.requested != row.expected) {
        EXPECT_THAT(resolved.warnings, Not(IsEmpty()));
      }
    }
  }
}

TEST(Resolution, the_rule_of_vllm_0_10_decides_by_the_level_and_not_by_its_name) {
  for (const char* level : {"0", "1", "2", "\"DYNAMO_ONCE\""}) {
    const ResolvedConfig resolved =
        resolve(asking(fmt::format(R"({{"capture_size_rule": "vllm-0.10", "level": {}}})", level)));
    EXPECT_EQ(resolved.mode, NONE) << level;
    EXPECT_THAT(rules_of(resolved), ElementsAre("P1"));
  }
  ResolutionInputs pooling = asking(R"({"capture_size_rule": "vllm-0.10"})");
  pooling.pooling = true;
  EXPECT_EQ(resolve(pooling).mode, PIECEWISE);  // "for pooling models, it's still PIECEWISE"
}

TEST(Resolution, the_rule_of_vllm_0_10_has_the_sizes_and_keys_of_the_first_runner) {
  for (const int32_t speculative : {0, 3}) {
    std::vector<cudagraph::CaptureGroup> plans[2];
    for (const bool is_page : {false, true}) {
      ResolutionInputs inputs = as_vllm(asking(FULL_AND_PIECEWISE));
      inputs.num_speculative_tokens = speculative;
      inputs.max_num_seqs = 100;
      inputs.compilation.capture_size_rule =
          is_page ? cudagraph::CaptureSizeRule::vllm_0_10 : cudagraph::CaptureSizeRule::vllm_v1;
      cudagraph::CudagraphDispatcher dispatcher;
      dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolve(inputs)));
      plans[is_page ? 1 : 0] = dispatcher.capture_plan();
    }
    EXPECT_EQ(plans[0], plans[1]);
    EXPECT_FALSE(plans[0].empty());
  }
}

// ---- one or two sets of FULL graphs: the table of backends and flags of vLLM's pull request 20059
// ----

using Sets = cudagraph::FullGraphSets;

struct FlagRow {
  std::string_view backend;
  Support support;
  Sets sets;
  cudagraph::CudagraphMode flag_off;  // full_cuda_graph alone
  cudagraph::CudagraphMode flag_on;   // with separate_attention_routine
};

// "It would be overridden when the support is PURE_DECODE_ONLY or ALWAYS_UNIFIED." FLASH_ATTN 2 has
// the level of the later design page, so full_cuda_graph alone gives FULL_AND_PIECEWISE.
const std::vector<FlagRow> kFlagRows = {
    {"FA2", Support::UNIFORM_BATCH, Sets::two_if_asked, FULL_AND_PIECEWISE, FULL_AND_FULL},
    {"FA3", Support::ALWAYS, Sets::one, FULL, FULL},
    {"Triton", Support::ALWAYS, Sets::two_if_asked, FULL, FULL_AND_FULL},
    {"ALWAYS_SEPARATE", Support::ALWAYS, Sets::two, FULL_AND_FULL, FULL_AND_FULL},
    {"FlashMLA", Support::UNIFORM_BATCH, Sets::one, FULL_AND_PIECEWISE, FULL_AND_PIECEWISE},
    {"FlashInfer",
     Support::UNIFORM_SINGLE_TOKEN_DECODE,
     Sets::one,
     FULL_AND_PIECEWISE,
     FULL_AND_PIECEWISE}};

TEST(Resolution, the_legacy_flags_give_the_sets_of_full_graphs_that_the_source_says) {
  for (const FlagRow& row : kFlagRows) {
    for (const bool is_on : {false, true}) {
      ResolutionInputs inputs =
          asking(Json{{"full_cuda_graph", true}, {"separate_attention_routine", is_on}}.dump());
      inputs.attention = {{.backend = std::string(row.backend),
                           .support = row.support,
                           .full_graph_sets = row.sets}};
      EXPECT_EQ(resolve(inputs).mode, is_on ? row.flag_on : row.flag_off) << row.backend << is_on;
    }
  }
}

TEST(Resolution, two_sets_of_full_graphs_have_both_ladders_and_no_pieces) {
  ResolutionInputs inputs = asking(FULL_AND_FULL);
  inputs.attention = {{.backend = "FLASH_ATTN",
                       .support = Support::UNIFORM_BATCH,
                       .full_graph_sets = Sets::two_if_asked}};
  const ResolvedConfig resolved = resolve(inputs);
  EXPECT_THAT(resolved.warnings, IsEmpty());
  EXPECT_EQ(resolved.capture_sizes.max_decode(), 256);
  EXPECT_EQ(resolved.capture_sizes.max_mixed(), 512);
  cudagraph::CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
  ASSERT_EQ(dispatcher.capture_plan().size(), 2U);
  EXPECT_TRUE(dispatcher.keys(cudagraph::CudagraphRuntimeMode::PIECEWISE).empty());
}

TEST(Resolution, one_set_of_kernels_needs_one_set_of_full_graphs) {  // R2
  const ResolvedConfig resolved = resolve(asking(FULL_AND_FULL));
  EXPECT_EQ(resolved.mode, FULL);
  EXPECT_THAT(rules_of(resolved), ElementsAre("R2"));
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("backend uses the same kernels")));
  ResolutionInputs never = asking(FULL_AND_FULL);
  never.attention = {{"backend", Support::NEVER}};
  EXPECT_THROW((void)resolve(never), InvalidArgument);
}

TEST(Resolution, the_weakest_of_several_backends_decides_about_two_sets) {
  ResolutionInputs inputs = asking(FULL_AND_FULL);
  inputs.attention = {{.backend = "FLASH_ATTN",
                       .support = Support::UNIFORM_BATCH,
                       .full_graph_sets = Sets::two_if_asked},
                      {"MAMBA2_ATTN", Support::UNIFORM_SINGLE_TOKEN_DECODE}};
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
  EXPECT_THAT(resolve(inputs).warnings, ElementsAre(HasSubstr("MAMBA2_ATTN")));
  inputs.attention[1] = {"FLASH_ATTN 3", Support::ALWAYS};
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_FULL);
}

// vLLM's design page about Triton: "prefer FULL_AND_PIECEWISE since it has different kernels for
// prefill/mixed and pure decode batches".
TEST(Resolution, full_hints_at_better_modes_for_backends_with_kernels_for_decode) {  // R4
  ResolutionInputs inputs = asking(FULL);
  inputs.attention = {{.backend = "TRITON_ATTN",
                       .support = Support::ALWAYS,
                       .full_graph_sets = Sets::two_if_asked}};
  const ResolvedConfig resolved = resolve(inputs);
  EXPECT_EQ(resolved.mode, FULL);
  EXPECT_THAT(rules_of(resolved), ElementsAre("R4"));
  ASSERT_EQ(resolved.warnings.size(), 1U);
  EXPECT_THAT(resolved.warnings[0],
              testing::AllOf(HasSubstr("TRITON_ATTN"), HasSubstr("FULL_AND_PIECEWISE")));
  for (const auto mode : {FULL_AND_PIECEWISE, FULL_DECODE_ONLY, FULL_AND_FULL, PIECEWISE}) {
    inputs.compilation.cudagraph_mode = mode;
    EXPECT_THAT(resolve(inputs).warnings, IsEmpty()) << to_string(mode);
  }
  EXPECT_THAT(resolve(asking(FULL)).warnings, IsEmpty());
}

TEST(Resolution, the_default_mode_follows_the_optimisation_level) {
  const std::array<cudagraph::CudagraphMode, 4> expected = {
      NONE, PIECEWISE, FULL_AND_PIECEWISE, FULL_AND_PIECEWISE};
  for (size_t level = 0; level < 4; ++level) {
    for (bool breakable : {false, true}) {
      ResolutionInputs inputs = asking("{}");
      inputs.breakable = breakable;
      inputs.optimization_level = static_cast<OptimizationLevel>(level);
      const ResolvedConfig resolved = resolve(inputs);
      EXPECT_EQ(resolved.mode, expected[level]);
      EXPECT_EQ(resolved.compilation_mode,
                level == 0 ? CompilationMode::NONE : CompilationMode::VLLM_COMPILE);
      EXPECT_EQ(resolved.requested, std::nullopt);
      EXPECT_THAT(rules_of(resolved), ElementsAre("A8"));
      EXPECT_THAT(resolved.warnings, IsEmpty());
    }
  }
}

// From vLLM's design page: PIECEWISE for pooling models, NONE if PIECEWISE is not available.
TEST(Resolution, defaults_for_pooling_and_for_engines_without_pieces) {
  ResolutionInputs inputs = asking("{}");
  inputs.pooling = true;
  EXPECT_EQ(resolve(inputs).mode, PIECEWISE);
  EXPECT_THAT(resolve(inputs).warnings, IsEmpty());  // the user did not ask for FULL
  inputs = asking(R"({"mode": 0})");
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
  inputs.breakable = false;
  EXPECT_EQ(resolve(inputs).mode, NONE);
  EXPECT_THAT(rules_of(resolve(inputs)), ElementsAre("A8", "A11"));
}

TEST(Resolution, default_splitting_ops_contain_every_attention_op) {  // CFG-01
  const ResolvedConfig resolved = resolve(as_vllm(asking("{}")));
  EXPECT_EQ(resolved.mode, FULL_AND_PIECEWISE);
  EXPECT_TRUE(contains_attention(resolved.splitting_ops));
  for (std::string_view op : kv_cache_update_ops()) {
    EXPECT_NE(std::find(resolved.splitting_ops.begin(), resolved.splitting_ops.end(), op),
              resolved.splitting_ops.end());
  }
}

TEST(Resolve, R1_pieces_with_attention_inside_are_no_piecewise_graphs) {
  for (const auto& [ops, mode] :
       std::vector<std::pair<std::vector<std::string>, cudagraph::CudagraphMode>>{
           {{"linear"}, cudagraph::CudagraphMode::FULL},
           {{"attention"}, cudagraph::CudagraphMode::FULL_AND_PIECEWISE},
           {{"vllm::unified_attention_with_output"},
            cudagraph::CudagraphMode::FULL_AND_PIECEWISE}}) {
    ResolutionInputs inputs;
    inputs.compilation.mode = CompilationMode::VLLM_COMPILE;
    inputs.compilation.splitting_ops = ops;
    const ResolvedConfig resolved = resolve(inputs);
    EXPECT_EQ(resolved.mode, mode) << ops.front();
    EXPECT_EQ(resolved.warnings.empty(), mode == cudagraph::CudagraphMode::FULL_AND_PIECEWISE)
        << ops.front();
  }
}

TEST(Resolution, a_users_splitting_ops_are_kept_as_given) {  // CFG-02, CFG-06
  ResolutionInputs inputs = as_vllm(asking(
      R"({"mode": 3, "use_inductor_graph_partition": true,
          "splitting_ops": ["vllm::unified_attention_with_output"]})"));
  EXPECT_THAT(resolve(inputs).splitting_ops, ElementsAre("vllm::unified_attention_with_output"));
  inputs.compilation.splitting_ops->emplace_back("vllm::moe_forward");
  inputs.compilation.splitting_ops->emplace_back("vllm::moe_forward_shared");
  EXPECT_EQ(resolve(inputs).splitting_ops, *inputs.compilation.splitting_ops);
}

TEST(Resolution, attention_quant_fusion_needs_the_whole_program) {
  ResolutionInputs inputs =
      as_vllm(asking(R"({"mode": 3, "pass_config": {"fuse_attn_quant": true}})"));
  EXPECT_EQ(resolve(inputs).mode, FULL);  // B2
  EXPECT_THAT(resolve(inputs).splitting_ops, IsEmpty());
  EXPECT_THAT(rules_of(resolve(inputs)), ElementsAre("A8", "B2"));

  inputs.compilation.splitting_ops.emplace(attention_ops().begin(), attention_ops().end());
  EXPECT_THROW((void)resolve(inputs), InvalidArgument);  // CFG-04, B3
  inputs.compilation.use_inductor_graph_partition = true;
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
}

TEST(Resolution, an_empty_list_of_splitting_ops_leaves_no_pieces) {  // B5
  for (bool breakable : {false, true}) {
    ResolutionInputs inputs = asking(R"({"mode": 3, "splitting_ops": []})");
    inputs.breakable = breakable;
    inputs.compilation.cudagraph_mode = PIECEWISE;
    EXPECT_EQ(resolve(inputs).mode, NONE);
    inputs.compilation.cudagraph_mode = FULL_AND_PIECEWISE;
    EXPECT_EQ(resolve(inputs).mode, FULL);
    EXPECT_THAT(rules_of(resolve(inputs)), ElementsAre("B5"));
    EXPECT_EQ(resolve(inputs).warnings.size(), 1U);
    inputs.compilation.cudagraph_mode = FULL_DECODE_ONLY;
    EXPECT_EQ(resolve(inputs).mode, FULL_DECODE_ONLY);
  }
}

TEST(Resolution, sequence_parallelism_needs_the_whole_program) {  // SIZ-16, -18, -19
  for (bool breakable : {false, true}) {
    ResolutionInputs inputs = as_vllm(asking(
        R"({"mode": 3, "cudagraph_capture_sizes": [1, 2, 4, 15],
            "compile_sizes": "cudagraph_capture_sizes",
            "pass_config": {"fuse_gemm_comms": true, "sp_min_token_num": 512}})"));
    inputs.breakable = breakable;
    inputs.tensor_parallel_size = 2;
    inputs.max_num_seqs = 128;
    inputs.max_num_batched_tokens = 2048;
    for (cudagraph::CudagraphMode mode : {PIECEWISE, FULL_AND_PIECEWISE}) {
      inputs.compilation.cudagraph_mode = mode;
      inputs.compilation.use_inductor_graph_partition = false;
      const ResolvedConfig resolved = resolve(inputs);
      EXPECT_EQ(resolved.mode, FULL);
      EXPECT_EQ(resolved.pass_config.enable_sp, true);
      EXPECT_THAT(resolved.splitting_ops, IsEmpty());
      EXPECT_THAT(resolved.capture_sizes.mixed, ElementsAre(2, 4));
      EXPECT_THAT(resolved.compile_sizes, ElementsAre(2, 4));
    }
    inputs.compilation.use_inductor_graph_partition = true;
    const ResolvedConfig resolved = resolve(inputs);
    EXPECT_EQ(resolved.mode, FULL_AND_PIECEWISE);
    EXPECT_FALSE(resolved.splitting_ops.empty());
    EXPECT_THAT(resolved.capture_sizes.mixed, ElementsAre(2, 4));
  }
}

TEST(Resolution, sequence_parallelism_that_cannot_work_is_turned_off_with_a_warning) {  // A12
  ResolutionInputs inputs = asking(R"({"pass_config": {"fuse_gemm_comms": true}})");
  for (int32_t tensor_parallel_size : {1, 2}) {
    inputs.tensor_parallel_size = tensor_parallel_size;
    const ResolvedConfig resolved = resolve(inputs);
    EXPECT_EQ(resolved.pass_config.enable_sp, false);
    EXPECT_EQ(resolved.pass_config.fuse_gemm_comms, false);
    EXPECT_EQ(resolved.warnings.size(), 1U);
    EXPECT_EQ(resolved.mode, FULL_AND_PIECEWISE);
  }
}

TEST(Resolution, one_rank_has_no_all_reduce_to_fuse) {
  ResolutionInputs inputs = asking(R"({"pass_config": {"fuse_allreduce_rms": true}})");
  ResolvedConfig resolved = resolve(inputs);
  EXPECT_EQ(resolved.pass_config.fuse_allreduce_rms, false);
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("tensor_parallel_size above 1")));
  inputs.tensor_parallel_size = 2;
  resolved = resolve(inputs);
  EXPECT_EQ(resolved.pass_config.fuse_allreduce_rms, true);
  EXPECT_THAT(resolved.warnings, IsEmpty());
}

TEST(Resolution, custom_op_lists_and_fusions_follow_the_level) {
  // CFG-11
  EXPECT_THROW((void)resolve(asking(R"({"custom_ops": ["-rotary_embedding"],
                                       "pass_config": {"enable_qk_norm_rope_fusion": true}})")),
               InvalidArgument);
  ResolutionInputs inputs = asking(R"({"cudagraph_mode": "NONE",
                                       "pass_config": {"enable_qk_norm_rope_fusion": true}})");
  ResolvedConfig resolved = resolve(inputs);  // CFG-26
  EXPECT_EQ(resolved.mode, NONE);
  EXPECT_EQ(resolved.compilation_mode, CompilationMode::VLLM_COMPILE);
  EXPECT_EQ(resolved.pass_config.enable_qk_norm_rope_fusion, true);
  EXPECT_THAT(resolved.custom_ops, ElementsAre("+rotary_embedding", "none"));

  resolved = resolve(asking(R"({"pass_config": {"eliminate_noops": false}})"));  // CFG-29
  EXPECT_FALSE(resolved.pass_config.eliminate_noops);
  EXPECT_EQ(resolved.pass_config.fuse_norm_quant, false);  // CFG-30
  inputs = asking(R"({"custom_ops": ["+rms_norm"]})");     // CFG-31
  inputs.optimization_level = OptimizationLevel::O1;
  EXPECT_EQ(resolve(inputs).pass_config.fuse_norm_quant, true);
  inputs.optimization_level = OptimizationLevel::O0;
  EXPECT_EQ(resolve(inputs).pass_config.fuse_norm_quant, false);
  EXPECT_THAT(resolve(asking(R"({"mode": 0})")).custom_ops, ElementsAre("all"));
}

// ---- model kinds, platforms, eager ----

TEST(Resolution, copied_inputs_without_piecewise_graphs_are_told) {
  for (const auto mode : {NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE}) {
    ResolutionInputs inputs = asking(mode);
    inputs.compilation.cudagraph_copy_inputs = true;
    const auto about_copies = HasSubstr("cudagraph_copy_inputs has no effect");
    if (mode == PIECEWISE || mode == FULL_AND_PIECEWISE) {
      EXPECT_THAT(resolve(inputs).warnings, Not(Contains(about_copies))) << to_string(mode);
    } else {
      EXPECT_THAT(resolve(inputs).warnings, Contains(about_copies)) << to_string(mode);
    }
  }
}

TEST(Resolution, eager_means_no_graphs_no_sizes_and_one_warning) {  // A1, A17
  ResolutionInputs inputs = asking(FULL);
  inputs.enforce_eager = true;
  const ResolvedConfig resolved = resolve(inputs);
  EXPECT_EQ(resolved.mode, NONE);
  EXPECT_EQ(resolved.compilation_mode, CompilationMode::NONE);
  EXPECT_THAT(resolved.capture_sizes.mixed, IsEmpty());
  EXPECT_EQ(resolved.num_of_warmups, 0);
  EXPECT_EQ(resolved.warnings.size(), 1U);
  ASSERT_EQ(resolved.reasons.size(), 1U);
  EXPECT_EQ(resolved.reasons[0].rule, "A1");
  EXPECT_EQ(resolved.reasons[0].before, FULL);
}

TEST(Resolution, a_device_without_graphs_gets_none) {  // A13
  ResolutionInputs inputs = asking(FULL_DECODE_ONLY);
  inputs.platform_supports_graphs = false;
  EXPECT_EQ(resolve(inputs).mode, NONE);
  EXPECT_THAT(rules_of(resolve(inputs)), ElementsAre("A13"));
  EXPECT_EQ(resolve(inputs).num_of_warmups, 0);
}

TEST(Resolution, pooling_encoder_decoder_and_kv_connector_rules) {  // A14 - A16
  for (cudagraph::CudagraphMode mode : {FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE}) {
    ResolutionInputs inputs = asking(mode);
    inputs.pooling = true;
    EXPECT_EQ(resolve(inputs).mode, PIECEWISE);
    EXPECT_EQ(resolve(inputs).warnings.size(), 1U);
    inputs = asking(mode);
    inputs.kv_connector_requires_piecewise = true;
    EXPECT_EQ(resolve(inputs).mode, PIECEWISE);
  }
  for (cudagraph::CudagraphMode mode : {PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE}) {
    ResolutionInputs inputs = asking(mode);
    inputs.encoder_decoder = true;
    EXPECT_EQ(resolve(inputs).mode, FULL_DECODE_ONLY);
  }
  ResolutionInputs inputs = asking(NONE);
  inputs.pooling = inputs.encoder_decoder = true;
  EXPECT_EQ(resolve(inputs).mode, NONE);
}

TEST(Resolution, pooling_that_asks_for_full_without_pieces_is_refused) {  // A22
  ResolutionInputs inputs = as_vllm(asking(FULL));
  inputs.pooling = true;
  inputs.compilation.mode = CompilationMode::NONE;
  EXPECT_THROW((void)resolve(inputs), InvalidArgument);
  inputs.breakable = true;
  EXPECT_EQ(resolve(inputs).mode, PIECEWISE);
}

TEST(Resolution, cascade_with_full_only_modes_is_announced_as_eager) {  // A21
  for (cudagraph::CudagraphMode mode : {FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE, PIECEWISE}) {
    ResolutionInputs inputs = asking(mode);
    inputs.cascade_enabled = true;
    const bool full_only = mode == FULL || mode == FULL_DECODE_ONLY;
    EXPECT_EQ(resolve(inputs).warnings.size(), full_only ? 1U : 0U);
    EXPECT_EQ(resolve(inputs).mode, mode);
  }
}

TEST(Resolution, recurrent_state_needs_one_block_per_request) {  // RUN-10, C7
  ResolutionInputs inputs = asking(FULL);
  inputs.num_recurrent_state_blocks = 100;
  try {
    (void)resolve(inputs);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_num_seqs"));
  }
  inputs.max_num_seqs = 100;
  EXPECT_NO_THROW((void)resolve(inputs));
  inputs.max_num_seqs = 256;
  inputs.compilation.cudagraph_mode = PIECEWISE;
  EXPECT_NO_THROW((void)resolve(inputs));
}

// ---- sizes through resolution ----

TEST(Resolution, steps_without_drafts_get_decode_sizes_of_their_own) {
  ResolutionInputs inputs = asking("{}");
  inputs.max_num_seqs = 4;
  EXPECT_TRUE(resolve(inputs).other_decode_widths.empty()) << "there are no drafts";
  inputs.num_speculative_tokens = 3;
  ResolvedConfig resolved = resolve(inputs);
  EXPECT_EQ(resolved.capture_sizes.decode, (std::vector<int32_t>{4, 8, 16}));
  EXPECT_EQ(resolved.other_decode_widths,
            (std::vector<cudagraph::DecodeWidth>{{.query_len = 1, .capture_sizes = {1, 2, 4}}}));
  EXPECT_EQ(dispatcher_options(inputs, resolved).other_decode_widths, resolved.other_decode_widths);
  inputs.num_speculative_tokens = 9;
  resolved = resolve(inputs);
  std::vector<int32_t> widths;
  for (const cudagraph::DecodeWidth& width : resolved.other_decode_widths) {
    widths.push_back(width.query_len);
    EXPECT_EQ(width.capture_sizes.back(), inputs.max_num_seqs * width.query_len);
  }
  EXPECT_EQ(widths, (std::vector<int32_t>{1, 3, 5})) << "0, 2 and 4 drafts";
  inputs.num_speculative_tokens = 3;
  inputs.compilation.cudagraph_mode = cudagraph::CudagraphMode::FULL;
  EXPECT_TRUE(resolve(inputs).other_decode_widths.empty()) << "one routine for all batches";
  inputs.compilation.cudagraph_mode.reset();
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::vllm;
  EXPECT_TRUE(resolve(inputs).other_decode_widths.empty()) << "vLLM has one width";
}

TEST(Resolution, speculative_rounding_applies_to_the_vllm_rule_only) {  // SIZ-26, SIZ-27
  ResolutionInputs inputs = as_vllm(asking(FULL_AND_PIECEWISE));
  inputs.compilation.cudagraph_capture_sizes.emplace();
  for (int32_t n = 1; n <= 16; ++n) inputs.compilation.cudagraph_capture_sizes->push_back(n);
  inputs.num_speculative_tokens = 3;
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
  EXPECT_THAT(resolve(inputs).capture_sizes.mixed, ElementsAre(4, 8, 12, 16));
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::reprise;
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
  EXPECT_EQ(resolve(inputs).capture_sizes.mixed.size(), 16U);
  EXPECT_THAT(resolve(inputs).capture_sizes.decode, ElementsAre(4, 8, 12, 16));
}

TEST(Resolution, a_vllm_mode_that_becomes_none_keeps_its_size_list) {
  ResolutionInputs inputs = as_vllm(asking(R"({"mode": 3, "splitting_ops": []})"));
  inputs.compilation.cudagraph_mode = PIECEWISE;
  ResolvedConfig resolved = resolve(inputs);
  EXPECT_EQ(resolved.mode, NONE);
  EXPECT_FALSE(resolved.capture_sizes.mixed.empty());
  cudagraph::CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
  EXPECT_TRUE(dispatcher.capture_plan().empty());  // the dispatcher looks at the mode
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::reprise;
  EXPECT_TRUE(resolve(inputs).capture_sizes.mixed.empty());
}

TEST(Resolution, compile_sizes_are_expanded_and_checked_against_padding) {  // SIZ-20, SIZ-23
  ResolutionInputs inputs =
      as_vllm(asking(R"({"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 4, 8],
                 "compile_sizes": "cudagraph_capture_sizes"})"));
  EXPECT_THAT(resolve(inputs).compile_sizes, ElementsAre(1, 2, 4, 8));
  inputs.compilation.compile_sizes = CompileSizes{.sizes = {3}};
  cudagraph::CudagraphDispatcher dispatcher;
  EXPECT_THROW(dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolve(inputs))),
               InvalidArgument);
}

TEST(Resolution, warm_ups_default_to_one_and_explicit_values_win) {
  EXPECT_EQ(resolve(asking("{}")).num_of_warmups, 1);
  EXPECT_EQ(resolve(asking(R"({"cudagraph_num_of_warmups": 3})")).num_of_warmups, 3);
}

TEST(Resolution, bad_limits_are_refused_by_name) {
  ResolutionInputs inputs = asking("{}");
  inputs.max_num_seqs = 0;
  EXPECT_THROW((void)resolve(inputs), InvalidArgument);
  inputs = asking("{}");
  inputs.num_speculative_tokens = -1;
  EXPECT_THROW((void)resolve(inputs), InvalidArgument);
  inputs = asking("{}");
  inputs.lora.max_loras = 1 << 30;
  EXPECT_THROW((void)resolve(inputs), InvalidArgument);
}

// ---- speculation whose number of drafts depends on the number of requests ----

/// The decision for n requests with q tokens each.
cudagraph::Decision decide(const ResolutionInputs& inputs, int32_t n, int32_t q) {
  cudagraph::CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolve(inputs)));
  dispatcher.mark_all_captured();
  return dispatcher.dispatch(
      {.num_tokens = n * q, .num_reqs = n, .uniform = true, .query_len = q, .num_logits = n * q});
}

ResolutionInputs as_vllm_v2(ResolutionInputs inputs) {
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::vllm;
  inputs.breakable = false;
  return inputs;
}

ResolutionInputs with_scheduled_drafts(ResolutionInputs inputs, std::vector<int32_t> drafts) {
  inputs.num_speculative_tokens = drafts.back();
  inputs.scheduled_drafts = std::move(drafts);
  return inputs;
}

// vLLM's tests/v1/spec_decode/test_dynamic_sd_cug.py, first case.
TEST(Resolution, every_scheduled_query_length_has_full_graphs) {  // V2D-01
  ResolutionInputs inputs = as_vllm_v2(asking(FULL_AND_PIECEWISE));
  inputs.max_num_seqs = 64;
  std::vector<int32_t> sizes;
  for (int32_t size = 1; size <= 512; ++size) sizes.push_back(size);
  inputs.compilation.cudagraph_capture_sizes = sizes;
  inputs = with_scheduled_drafts(std::move(inputs), {0, 1, 2, 3, 4, 5, 6, 7});
  for (const int32_t n : {1, 3, 17, 64}) {
    for (int32_t q = 1; q <= 8; ++q) {
      const cudagraph::Decision decision = decide(inputs, n, q);
      EXPECT_EQ(decision.mode, cudagraph::CudagraphRuntimeMode::FULL) << n << " x " << q;
      EXPECT_EQ(decision.descriptor.num_tokens, n * q);
      EXPECT_EQ(decision.descriptor.num_reqs, n);
      EXPECT_TRUE(decision.descriptor.uniform);
    }
  }
}

TEST(Resolution, query_lengths_that_no_schedule_has_run_in_pieces) {  // V2D-05
  for (const ResolutionInputs& rule : {as_vllm_v2(asking(FULL_AND_PIECEWISE)), asking("{}")}) {
    const ResolutionInputs inputs = with_scheduled_drafts(rule, {3, 4});
    for (int32_t q = 2; q <= 6; ++q) {
      const bool is_scheduled = q == 4 || q == 5;
      EXPECT_EQ(decide(inputs, 8, q).mode,
                is_scheduled ? cudagraph::CudagraphRuntimeMode::FULL
                             : cudagraph::CudagraphRuntimeMode::PIECEWISE)
          << q;
    }
  }
}

TEST(Resolution, the_first_runner_runs_scheduled_drafts_in_pieces) {  // A10
  ResolutionInputs inputs = as_vllm(asking(FULL_AND_PIECEWISE));
  EXPECT_EQ(resolve(with_scheduled_drafts(inputs, {1, 3})).mode, PIECEWISE);
  EXPECT_THAT(resolve(with_scheduled_drafts(inputs, {1, 3})).warnings,
              ElementsAre(HasSubstr("num_speculative_tokens_per_batch_size")));
  inputs.num_speculative_tokens = 3;
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
}

}  // namespace
}  // namespace reprise::config
