#include "reprise/config/compilation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/config/compilation_overrides.h"
#include "reprise/config/custom_ops.h"
#include "reprise/config/extension_names.h"
#include "reprise/config/splitting_ops.h"

// Rows of group CFG that another test covers, or that do not apply here:
//   CFG-01, -02, -04, -06, -11, -26 .. -31   resolution_test
//   CFG-18            asserts of a compiler this engine does not use
//   CFG-22, -23       no Proton profiler here
//   CFG-32            no IR priorities here
//   CFG-34 .. -40     architectures are not special here: breakable capture is always available

namespace reprise::config {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CompilationConfig read(std::string_view text) { return parse_compilation_config(text).config; }

std::string refusal(std::string_view text) {
  try {
    (void)parse_compilation_config(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CompilationConfig, reads_the_documented_forms) {
  EXPECT_EQ(read(R"({"cudagraph_mode": "FULL_AND_PIECEWISE"})").cudagraph_mode,
            cudagraph::CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_EQ(read(R"({"cudagraph_mode": "full"})").cudagraph_mode, cudagraph::CudagraphMode::FULL);
  EXPECT_EQ(read(R"({"cudagraph_mode": 1})").cudagraph_mode, cudagraph::CudagraphMode::PIECEWISE);
  EXPECT_EQ(read("3").mode, CompilationMode::VLLM_COMPILE);
  EXPECT_EQ(read("{}"), CompilationConfig{});
  const CompilationConfig config = read(
      R"({"mode": 3, "cudagraph_capture_sizes": [1, 2, 4, 8], "backend": "eager"})");  // SIZ-28
  EXPECT_EQ(config.mode, CompilationMode::VLLM_COMPILE);
  EXPECT_THAT(*config.cudagraph_capture_sizes, ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(config.backend, "eager");
}

TEST(CompilationConfig, accepts_both_vocabularies_of_the_compile_level) {
  const std::vector<std::pair<std::string, CompilationMode>> names = {
      {"NONE", CompilationMode::NONE},
      {"NO_COMPILATION", CompilationMode::NONE},
      {"STOCK_TORCH_COMPILE", CompilationMode::STOCK_TORCH_COMPILE},
      {"dynamo_as_is", CompilationMode::STOCK_TORCH_COMPILE},
      {"DYNAMO_TRACE_ONCE", CompilationMode::DYNAMO_TRACE_ONCE},
      {"DYNAMO_ONCE", CompilationMode::DYNAMO_TRACE_ONCE},
      {"VLLM_COMPILE", CompilationMode::VLLM_COMPILE},
      {"PIECEWISE", CompilationMode::VLLM_COMPILE},
      {"2", CompilationMode::DYNAMO_TRACE_ONCE}};
  for (const auto& [name, mode] : names) EXPECT_EQ(parse_compilation_mode(name), mode) << name;
  EXPECT_THROW((void)parse_compilation_mode("4"), InvalidArgument);
  EXPECT_THROW((void)parse_compilation_mode("PIECE"), InvalidArgument);
  EXPECT_EQ(to_string(CompilationMode::VLLM_COMPILE), "VLLM_COMPILE");
}

TEST(CompilationConfig, dotted_assignments_fold_into_one_object) {
  Json document;
  for (int level = 0; level <= 3; ++level) {  // SIZ-29 .. SIZ-31
    assign_compilation_field(document, "mode=" + std::to_string(level));
    EXPECT_EQ(static_cast<int>(*parse_compilation_config(document).config.mode), level);
  }
  assign_compilation_field(document, "cudagraph_mode=FULL");
  assign_compilation_field(document, "cudagraph-capture-sizes=[4,2]");
  assign_compilation_field(document, "pass_config.enable_sp=true");
  assign_compilation_field(document, "custom_ops+=+rms_norm,-silu_and_mul");
  assign_compilation_field(document, "custom_ops+=[\"none\"]");
  assign_compilation_field(document, "backend=eager");
  const CompilationConfig config = parse_compilation_config(document).config;
  EXPECT_EQ(config.cudagraph_mode, cudagraph::CudagraphMode::FULL);
  EXPECT_THAT(*config.cudagraph_capture_sizes, ElementsAre(4, 2));
  EXPECT_EQ(config.pass_config.enable_sp, true);
  EXPECT_THAT(config.custom_ops, ElementsAre("+rms_norm", "-silu_and_mul", "none"));
  EXPECT_EQ(config.backend, "eager");

  for (std::string_view bad :
       {"cudagraph_mode", "=FULL", "pass_config..x=1", "mode.x=1", "mode+=1"}) {
    EXPECT_THROW(assign_compilation_field(document, bad), InvalidArgument) << bad;
  }
}

TEST(CompilationConfig, merging_keeps_members_that_are_not_overridden) {
  Json document = Json::parse(R"({"mode": 3, "pass_config": {"enable_sp": true}})");
  merge_compilation_json(document,
                         Json::parse(R"({"mode": 0, "pass_config": {"fuse_act_quant": false}})"));
  EXPECT_EQ(
      document,
      Json::parse(R"({"mode": 0, "pass_config": {"enable_sp": true, "fuse_act_quant": false}})"));
}

TEST(CompilationConfig, unknown_names_are_refused_with_the_nearest_one) {
  EXPECT_THAT(refusal(R"({"cudagraph_mod": "FULL"})"), HasSubstr("'cudagraph_mode'"));
  EXPECT_THAT(refusal(R"({"cudagraph_mode": "PIECEWIS"})"), HasSubstr("'PIECEWISE'"));
  EXPECT_THAT(refusal(R"({"pass_config": {"enable_spp": true}})"),
              AllOf(HasSubstr("pass_config"), HasSubstr("'enable_sp'")));
  EXPECT_THAT(refusal(R"({"dynamic_shapes_config": {"type": "baked"}})"), HasSubstr("'backed'"));
  EXPECT_THAT(refusal(R"({"enforce_eager": true})"), HasSubstr("--enforce-eager"));
  EXPECT_THAT(refusal(R"({"cudagraph_mode": 4})"), HasSubstr("0 to 2"));
  EXPECT_THAT(refusal("9"), HasSubstr("0 to 3"));
}

TEST(CompilationConfig, a_wrong_type_names_what_was_expected_and_what_came) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"cudagraph_mode": true})", "boolean"},
      {R"({"cudagraph_capture_sizes": "1,2"})", "a list"},
      {R"({"cudagraph_capture_sizes": [1, "2"]})", "cudagraph_capture_sizes[1]"},
      {R"({"cudagraph_capture_sizes": [1.5]})", "an integer"},
      {R"({"max_cudagraph_capture_size": 99999999999})", "32 bits"},
      {R"({"max_cudagraph_capture_size": -1})", "0 to"},
      {R"({"cudagraph_capture_sizes": [0]})", "1 to"},
      {R"({"cudagraph_copy_inputs": 1})", "true or false"},
      {R"({"splitting_ops": "x"})", "a list"},
      {R"({"pass_config": []})", "an object"},
      {R"({"compile_sizes": ["all"]})", "cudagraph_capture_sizes"},
      {R"({"cache_dir": 3})", "text"},
      {R"({"compile_cache_save_format": "zip"})", "unpacked"},
      {R"({"mode": 3, "backend": "inducto"})", "'inductor'"},
      {R"({"backend": "tvm"})", "backend"},
      {R"({"mode": 1, "backend": "aot_eager"})", "aot_eager"},
      {R"({"level": "x"})", "unknown value"},
      {R"("FULL")", "an object"},
      {R"({"mode": 3, "mode": 2})", "mode"},
  };
  for (const auto& [text, expected] : rows) EXPECT_THAT(refusal(text), HasSubstr(expected)) << text;
}

struct LegacyRow {
  std::string text;
  std::optional<cudagraph::CudagraphMode> mode;
  std::string warning;
};

TEST(CompilationConfig, legacy_flags_map_to_the_mode_with_a_warning_that_shows_it) {
  const std::vector<LegacyRow> rows = {
      {R"({"use_cudagraph": false})",
       cudagraph::CudagraphMode::NONE,
       R"("cudagraph_mode": "NONE")"},
      {R"({"use_cudagraph": true, "full_cuda_graph": false})",
       cudagraph::CudagraphMode::PIECEWISE,
       R"("cudagraph_mode": "PIECEWISE")"},
      {R"({"use_cudagraph": true})", cudagraph::CudagraphMode::PIECEWISE, "PIECEWISE"},
      {R"({"full_cuda_graph": true})",
       cudagraph::CudagraphMode::FULL,
       R"("cudagraph_mode": "FULL")"},
      {R"({"full_cuda_graph": true, "separate_attention_routine": true})",
       cudagraph::CudagraphMode::FULL_AND_FULL,
       R"(full_cuda_graph=true with separate_attention_routine=true is an old spelling: write )"
       R"("cudagraph_mode": "FULL_AND_FULL")"},
      {R"({"full_cuda_graph": true, "separate_attention_routine": false})",
       cudagraph::CudagraphMode::FULL,
       R"("cudagraph_mode": "FULL")"},
      {R"({"separate_attention_routine": true})", std::nullopt, "no effect"},
      {R"({"use_cudagraph": true, "cudagraph_mode": "FULL"})",
       cudagraph::CudagraphMode::FULL,
       "no effect"},
      {R"({"level": 3, "cudagraph_mode": "FULL"})",
       cudagraph::CudagraphMode::FULL,
       R"("mode": "VLLM_COMPILE")"},
  };
  for (const LegacyRow& row : rows) {
    const ParsedCompilationConfig parsed = parse_compilation_config(row.text);
    EXPECT_EQ(parsed.config.cudagraph_mode, row.mode) << row.text;
    ASSERT_EQ(parsed.warnings.size(), 1U) << row.text;
    EXPECT_THAT(parsed.warnings[0], HasSubstr(row.warning)) << row.text;
  }
  EXPECT_EQ(read(R"({"level": "PIECEWISE"})").mode, CompilationMode::VLLM_COMPILE);
  EXPECT_EQ(read(R"({"level": 2, "mode": "DYNAMO_ONCE"})").mode,
            CompilationMode::DYNAMO_TRACE_ONCE);
}

TEST(CompilationConfig, contradictions_name_both_sides) {
  const std::vector<std::vector<std::string>> rows = {
      {R"({"full_cuda_graph": true, "cudagraph_mode": "PIECEWISE"})",
       "full_cuda_graph",
       "cudagraph_mode"},
      {R"({"use_cudagraph": false, "cudagraph_mode": "FULL"})", "use_cudagraph", "cudagraph_mode"},
      {R"({"use_cudagraph": false, "full_cuda_graph": true})", "use_cudagraph", "full_cuda_graph"},
      {R"({"use_cudagraph": true, "cudagraph_mode": "NONE"})", "use_cudagraph", "cudagraph_mode"},
      {R"({"level": 0, "mode": 3})", "level=NONE", "mode=VLLM_COMPILE"},
      {R"({"custom_ops": ["all", "none"]})", "all", "none"},  // CFG-09
      {R"({"custom_ops": ["none", "+rms_norm", "-rms_norm"]})",
       "+rms_norm",
       "-rms_norm"},  // CFG-10
  };
  for (const auto& row : rows) {
    EXPECT_THAT(refusal(row[0]), AllOf(HasSubstr(row[1]), HasSubstr(row[2]))) << row[0];
  }
}

TEST(CustomOps, valid_lists_are_accepted_and_bad_syntax_is_not) {  // CFG-07
  for (std::string_view text : {R"({"custom_ops": ["+quant_fp8", "-silu_and_mul"]})",
                                R"({"custom_ops": ["none", "+rms_norm"]})",
                                R"({"custom_ops": ["+rms_norm", "+rms_norm"]})"}) {
    EXPECT_EQ(refusal(text), "accepted");
  }
  for (std::string_view text :
       {R"({"custom_ops": ["rms_norm"]})", R"({"custom_ops": ["+"]})", R"({"custom_ops": [""]})"}) {
    EXPECT_THAT(refusal(text), HasSubstr("custom_ops"));
  }
}

TEST(SplittingOps, match_with_and_without_overload) {
  struct Row {
    std::string op;
    std::string entry;
    bool expected;
  };
  for (const Row& row :
       std::vector<Row>{{"aten.add.default", "aten::add", true},                        // CFG-12
                        {"aten.add.default", "aten::add.default", true},                // CFG-13
                        {"aten.add.default", "aten::add.Tensor", false},                // CFG-14
                        {"silly::attention", "silly::attention", true},                 // CFG-15
                        {"silly.attention.default", "silly::attention", true},          // CFG-16
                        {"silly.attention.default", "silly::attention.default", true},  // CFG-16
                        {"silly::attention", "silly::attention.default", true},
                        {"aten.addmm.default", "aten::add", false}}) {
    const std::vector<std::string> list = {row.entry};
    EXPECT_EQ(is_splitting_op(row.op, list), row.expected) << row.op << " " << row.entry;
  }
  std::vector<std::string> all(attention_ops().begin(), attention_ops().end());
  EXPECT_TRUE(contains_attention(all));
  all.pop_back();
  // Attention is outside of pieces only if all attention ops are listed.
  EXPECT_FALSE(contains_attention(all));
  EXPECT_FALSE(contains_attention({}));
}

TEST(CompilationConfig, older_names_of_passes_set_todays_switches) {
  const ParsedCompilationConfig parsed = parse_compilation_config(
      R"({"pass_config": {"enable_fusion": false, "enable_attn_fusion": true, "enable_noop": false,
                          "enable_sequence_parallelism": true, "enable_async_tp": false,
                          "enable_fi_allreduce_fusion": false}})");
  const PassConfig& passes = parsed.config.pass_config;
  EXPECT_EQ(passes.fuse_norm_quant, false);
  EXPECT_EQ(passes.fuse_act_quant, false);
  EXPECT_EQ(passes.fuse_attn_quant, true);
  EXPECT_FALSE(passes.eliminate_noops);
  EXPECT_EQ(passes.enable_sp, true);
  EXPECT_EQ(passes.fuse_gemm_comms, false);
  EXPECT_EQ(passes.fuse_allreduce_rms, false);
  EXPECT_THAT(parsed.warnings,
              Contains(HasSubstr("enable_fusion is an old spelling: write \"fuse_norm_quant\": "
                                 "false, \"fuse_act_quant\": false")));
  EXPECT_THROW((void)parse_compilation_config(
                   R"({"pass_config": {"enable_noop": true, "eliminate_noops": false}})"),
               InvalidArgument);
  EXPECT_THROW((void)parse_compilation_config(R"({"pass_config": {"enable_fusion": 3}})"),
               InvalidArgument);
}

TEST(CompilationConfig, cudagraph_separate_routine_is_separate_attention_routine) {
  for (const char* name : {"cudagraph_separate_routine", "separate_attention_routine"}) {
    const Json document = {{"full_cuda_graph", true}, {name, true}};
    EXPECT_EQ(parse_compilation_config(document).config.cudagraph_mode,
              cudagraph::CudagraphMode::FULL_AND_FULL);
  }
  EXPECT_THROW((void)parse_compilation_config(Json{{"cudagraph_separate_routine", true},
                                                   {"separate_attention_routine", false}}),
               InvalidArgument);
}

TEST(CompilationConfig, fields_without_effect_are_accepted_and_said) {
  const ParsedCompilationConfig parsed =
      parse_compilation_config(R"({"inductor_compile_config": {"max_autotune": true, "a": 1}})");
  ASSERT_EQ(parsed.warnings.size(), 1U);
  EXPECT_THAT(parsed.warnings[0], HasSubstr("inductor_compile_config.a "));
  EXPECT_THAT(parse_compilation_config(R"({"cudagraph_mode": "FULL"})").warnings, IsEmpty());
}

TEST(CompilationConfig, max_autotune_asks_for_choices_by_measurement) {
  for (const auto& [text, wanted] : {std::pair{R"({})", false},
                                     {R"({"max_autotune": true})", true},
                                     {R"({"max_autotune": false})", false},
                                     {R"({"max_autotune_gemm": true})", true},
                                     {R"({"coordinate_descent_tuning": true})", false}}) {
    const std::string config = std::string(R"({"inductor_compile_config": )") + text + "}";
    EXPECT_EQ(read(config).wants_autotuning(), wanted) << text;
  }
  EXPECT_THAT(refusal(R"({"inductor_compile_config": {"max_autotune": 1}})"),
              HasSubstr("inductor_compile_config.max_autotune: expected true or false, got 1"));
}

TEST(CompilationConfig, each_field_without_a_reader_is_named_in_one_warning) {
  for (const auto& [text, field] : {
           std::pair{R"({"compile_mm_encoder": true})", "compile_mm_encoder"},
           {R"({"cudagraph_mm_encoder": true})", "cudagraph_mm_encoder"},
           {R"({"encoder_cudagraph_token_budgets": [1]})", "encoder_cudagraph_token_budgets"},
           {R"({"encoder_cudagraph_max_vision_items_per_batch": 1})", "max_vision_items_per_batch"},
           {R"({"encoder_cudagraph_max_frames_per_batch": 1})", "max_frames_per_batch"},
           {R"({"ir_enable_torch_wrap": true})", "ir_enable_torch_wrap"},
           {R"({"fast_moe_cold_start": true})", "fast_moe_cold_start"},
           {R"({"dynamic_shapes_config": {"type": "unbacked"}})", "dynamic_shapes_config"},
           {R"({"dynamic_shapes_config": {"evaluate_guards": true}})", "dynamic_shapes_config"},
           {R"({"compile_cache_save_format": "unpacked"})", "compile_cache_save_format"},
           {R"({"pass_config": {"rope_kvcache_fusion_max_token_num": 8}})",
            "rope_kvcache_fusion_max_token_num"},
           {R"({"pass_config": {"fi_allreduce_fusion_max_size_mb": 0.5}})",
            "fi_allreduce_fusion_max_size_mb"},
           {R"({"pass_config": {"fuse_act_padding": true}})", "fuse_act_padding"},
           {R"({"pass_config": {"fuse_mla_dual_rms_norm": true}})", "fuse_mla_dual_rms_norm"},
           {R"({"pass_config": {"fuse_rope_kvcache_cat_mla": true}})", "fuse_rope_kvcache_cat_mla"},
           {R"({"pass_config": {"sp_min_token_num": 8}})", "sp_min_token_num"},
           {R"({"pass_config": {"fuse_attn_quant": true}})", "fuse_attn_quant"},
       }) {
    const std::vector<std::string> warnings = parse_compilation_config(text).warnings;
    ASSERT_EQ(warnings.size(), 1U) << text;
    EXPECT_THAT(warnings[0], HasSubstr(field)) << text;
  }
}

TEST(CompilationConfig, prints_and_reads_back_unchanged) {
  for (std::string_view text :
       {"{}",
        R"({"mode": 3, "cudagraph_mode": "FULL_DECODE_ONLY", "capture_size_rule": "vllm-v1",
            "cudagraph_capture_sizes": [8, 1], "max_cudagraph_capture_size": 8,
            "cuda_graph_sizes": [512], "splitting_ops": [], "compile_sizes":
            [3, "cudagraph_capture_sizes"], "compile_ranges_endpoints": [16],
            "custom_ops": ["none", "+rms_norm"], "pass_config": {"enable_sp": true,
            "sp_min_token_num": 512, "fi_allreduce_fusion_max_size_mb": 0.5},
            "dynamic_shapes_config": {"type": "unbacked"}, "inductor_compile_config": {"a": [1]},
            "cache_dir": "x", "use_inductor": false, "use_inductor_graph_partition": true})"}) {
    const CompilationConfig config = read(text);
    const Json printed = to_json(config);
    EXPECT_EQ(parse_compilation_config(printed).config, config) << printed.dump(2);
    EXPECT_EQ(to_json(parse_compilation_config(printed.dump()).config), printed);
  }
  EXPECT_EQ(read(R"({"compile_sizes": "cudagraph_capture_sizes"})").compile_sizes,
            (CompileSizes{.sizes = {}, .include_capture_sizes = true}));
}

TEST(OptimizationLevel, reads_all_spellings) {
  for (std::string_view text : {"2", "O2", "-O2", "o2"}) {
    EXPECT_EQ(parse_optimization_level(text), OptimizationLevel::O2);
  }
  for (std::string_view text : {"", "4", "O", "-O22", "fast"}) {
    EXPECT_THROW((void)parse_optimization_level(text), InvalidArgument);
  }
}

// ---- passes and compilers of the user ----

constexpr const char* kTwoPasses = R"({"inductor_passes": {
  "pre_grad_custom_pass": "clip", "post_grad_custom_post_pass": ["count", "clip"]}})";

TEST(ExtensionNames, inductor_passes_name_passes_that_are_registered) {
  const ExtensionNames names{.passes = {"clip", "count"}, .compilers = {}};
  const auto config = parse_compilation_config(parse_json(kTwoPasses, "test"), names).config;
  using List = std::vector<std::string>;
  EXPECT_EQ(user_passes(config.inductor_passes, kBeforeSplit), List{"clip"});
  EXPECT_EQ(user_passes(config.inductor_passes, kBeforePasses), List{});
  EXPECT_EQ(user_passes(config.inductor_passes, kAfterPasses), (List{"count", "clip"}));
}

TEST(ExtensionNames, an_unknown_pass_is_an_error_that_lists_those_that_exist) {
  const ExtensionNames names{.passes = {"clip", "count"}, .compilers = {}};
  for (const auto& [text, part] : {
           std::pair{R"({"post_grad_custom_post_pass": "clp"})", "did you mean 'clip'"},
           {R"({"post_grad_custom_post_pass": ["clip", "fold"]})", "there are clip, count"},
           {R"({"post_grad_custom_post_pass": 1})", "expected the name of a pass"},
           {R"({"post_grad_custom_pass": "clip"})", "pre_grad_custom_pass (before the program"},
       }) {
    try {
      (void)parse_compilation_config(Json{{"inductor_passes", parse_json(text, "test")}}, names);
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)parse_compilation_config(parse_json(kTwoPasses, "test")), InvalidArgument);
}

TEST(ExtensionNames, backend_may_be_a_compiler_that_is_registered) {
  const ExtensionNames names{.passes = {}, .compilers = {"mine"}};
  const Json document{{"backend", "mine"}};
  EXPECT_EQ(parse_compilation_config(document, names).config.backend, "mine");
  EXPECT_THROW((void)parse_compilation_config(document), InvalidArgument);
  EXPECT_THROW((void)parse_compilation_config(Json{{"backend", "mnie"}}, names), InvalidArgument);
}

}  // namespace
}  // namespace reprise::config
