#include "reprise/compile/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reprise/program/text.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64] = slice(%x) {dim=1, begin=0, length=64}
  %1: f32[T, 64] = rms_norm(%0, p0) {epsilon=1e-05}
  %2: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %3: f32[T, 64] = add(%1, %1)
  %4: f32[T, 32] = silu_and_mul(%2)
  return %4
}
)";

// All passes that exist for a single CPU without code generation.
PassOptions everything() {
  return {.rope_kvcache_fusion_max_token_num = 0, .fuse_gemm_epilogues = true};
}

std::vector<std::string> names_of(const Pipeline& pipeline) {
  std::vector<std::string> names;
  for (const Pass& pass : pipeline.passes()) names.emplace_back(pass.name);
  return names;
}

size_t does_nothing(Program&) { return 0; }
size_t loses_the_first_op(Program& program) {
  program.nodes.erase(program.nodes.begin());
  return 1;
}

TEST(Pipeline, runs_passes_in_order_and_reports_them) {
  Program program = program::program_of(kText);
  const PipelineReport report = make_pipeline(everything()).run(program);
  EXPECT_EQ(report.num_nodes, 5U);
  EXPECT_EQ(report.num_matches("eliminate_noops"), 1U);
  EXPECT_EQ(report.num_matches("eliminate_common_subexpressions"), 1U);
  EXPECT_EQ(report.num_matches("eliminate_dead_code"), 1U);
  EXPECT_EQ(report.passes.back().num_nodes, 2U);
  EXPECT_EQ(program::print(program), R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 32] = silu_and_mul(%0)
  return %1
}
)");
}

// vLLM's row SPT-20. SPT-21 (slices that end at -1) does not apply, because lengths are never
// negative.
TEST(Pipeline, SPT_20_leaves_one_slice_and_one_reshape_of_a_chain) {
  Program program = program::program_of(R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 48] = slice(%x) {dim=1, begin=16, length=48}
  %1: f32[T, 40] = slice(%0) {dim=1, begin=8, length=40}
  %2: f32[T, 32] = slice(%1) {dim=1, begin=4, length=32}
  %3: f32[T, 2, 16] = unflatten(%2) {heads=2}
  %4: f32[T, 32] = flatten(%3)
  %5: f32[T, 2, 16] = unflatten(%4) {heads=2}
  return %5
})");
  (void)make_pipeline(everything()).run(program);
  EXPECT_EQ(program::print(program), R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 32] = slice(%x) {dim=1, begin=28, length=32}
  %1: f32[T, 2, 16] = unflatten(%0) {heads=2}
  return %1
}
)");
}

TEST(Pipeline, prints_a_table_with_a_line_for_each_pass) {
  Program program = program::program_of(kText);
  const Pipeline pipeline = make_pipeline(everything());
  const std::string table = pipeline.run(program).to_string();
  for (const Pass& pass : pipeline.passes()) {
    EXPECT_THAT(table, HasSubstr(std::string(pass.name)));
  }
  EXPECT_THAT(table, HasSubstr("matches"));
}

TEST(Pipeline, shows_the_text_before_and_after_each_pass) {
  Program program = program::program_of(kText);
  const Pipeline pipeline = make_pipeline(everything());
  std::vector<PassDump> dumps;
  (void)pipeline.run(program, [&](const PassDump& dump) { dumps.push_back(dump); });
  ASSERT_EQ(dumps.size(), pipeline.passes().size());
  EXPECT_EQ(dumps.front().before, kText);
  for (size_t i = 0; i < dumps.size(); ++i) {
    EXPECT_EQ(dumps[i].index, i);
    EXPECT_EQ(dumps[i].pass, pipeline.passes()[i].name);
    if (i > 0) {
      EXPECT_EQ(dumps[i].before, dumps[i - 1].after);
    }
  }
  EXPECT_EQ(dumps.back().after, program::print(program));
}

TEST(Pipeline, names_the_pass_that_breaks_a_program_and_leaves_the_program_alone) {
  Program program = program::program_of(kText);
  const Pipeline pipeline(
      {{"does_nothing", does_nothing}, {"loses_the_first_op", loses_the_first_op}});
  std::string last_dump;
  try {
    (void)pipeline.run(program, [&](const PassDump& dump) { last_dump = dump.after; });
    FAIL() << "accepted";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.pass(), "loses_the_first_op");
    EXPECT_EQ(error.violation(), "op 0 (rms_norm): value 2 is used before it is defined");
    EXPECT_THAT(error.what(), HasSubstr("loses_the_first_op"));
    EXPECT_THAT(error.what(), HasSubstr(error.violation()));
  }
  EXPECT_EQ(program::print(program), kText);
  EXPECT_THAT(last_dump, HasSubstr("rms_norm(?, p0)"));
}

TEST(Pipeline, refuses_a_program_that_was_broken_before) {
  Program program = program::program_of(kText);
  program.nodes.erase(program.nodes.begin());
  EXPECT_THROW((void)Pipeline({Pass{"does_nothing", does_nothing}}).run(program),
               program::ProgramError);
}

TEST(Pipeline, leaves_out_what_is_switched_off) {
  const PassOptions options = {.eliminate_noops = false,
                               .fuse_norm_quant = false,
                               .fuse_act_quant = false,
                               .fuse_attn_quant = false,
                               .fuse_rope_kvcache = false,
                               .fuse_qk_norm_rope_kvcache = false,
                               .fuse_add_rms_norm = false};
  EXPECT_THAT(names_of(make_pipeline(options)),
              ElementsAre("eliminate_common_subexpressions", "eliminate_dead_code"));
}

// vLLM's row SPT-17.
TEST(Pipeline, SPT_17_writes_keys_with_their_rotation_for_up_to_256_tokens) {
  const auto fuses = [](program::TokenRange range, int64_t max) {
    const PassOptions options{.range = range, .rope_kvcache_fusion_max_token_num = max};
    const std::vector<std::string> names = names_of(make_pipeline(options));
    const auto num_fusions = std::count(names.begin(), names.end(), "fuse_rope_kv_write") +
                             std::count(names.begin(), names.end(), "fuse_qk_norm_rope_kv_write");
    return num_fusions == 2;
  };
  EXPECT_TRUE(fuses({1, 256}, 256));
  EXPECT_FALSE(fuses({257, 11'650}, 256));
  EXPECT_FALSE(fuses({11'651, 16'384}, 256));
  EXPECT_FALSE(fuses({1, 257}, 256));
  EXPECT_TRUE(fuses({1, 16'384}, 0)) << "no limit";
}

TEST(Pipeline, gives_sums_to_the_norm_or_to_the_product) {
  const std::string text = R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64, 64]
  parameter p1: f32[64]
  %0: f32[T, 64] = linear(%x, p0)
  %1: f32[T, 64] = add(%x, %0)
  %2: f32[T, 64] = rms_norm(%1, p1) {epsilon=1e-05}
  return %1, %2
})";
  for (bool prefer_linear_add : {false, true}) {
    PassOptions options = everything();
    options.prefer_linear_add = prefer_linear_add;
    Program program = program::program_of(text);
    const PipelineReport report = make_pipeline(options).run(program);
    EXPECT_EQ(report.num_matches("fuse_linear_add"), prefer_linear_add ? 1U : 0U);
    EXPECT_EQ(report.num_matches("fuse_add_rms_norm"), prefer_linear_add ? 0U : 1U);
    EXPECT_EQ(program.nodes.size(), 2U);
  }
}

}  // namespace
}  // namespace reprise::compile
