// Runs all passes on random programs. The result must be well formed and compute the same, and a
// second run must change nothing.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "reprise/compile/pipeline.h"
#include "reprise/compile/scale_tokens.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"
#include "tests/support/compile/decompose_fixture.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

constexpr program::SymbolValues kValues{5, 2, 3};

// Programs with odd seeds are decomposed first (fused ops become single ops), so that the passes
// have more to fuse; their number of rows is a multiple of the number of ranks.
Program random_program(uint32_t seed, const PassOptions& options) {
  Program program = program::random_program(seed / 2);
  if (seed % 2 == 1) program = decomposed(program);
  scale_tokens(program, options.tensor_parallel_size);
  return program;
}

std::vector<PassOptions> all_options() {
  PassOptions cpu{.rope_kvcache_fusion_max_token_num = 0, .fuse_gemm_epilogues = true};
  PassOptions generating = cpu;
  generating.group_rows = true;
  PassOptions alone = generating;
  alone.prefer_linear_add = true;
  alone.fuse_add_rms_norm = false;
  alone.fuse_qk_norm_rope_kvcache = false;
  alone.fuse_norm_quant = false;
  alone.group_single_ops = true;
  PassOptions groups{.group_rows = true};
  PassOptions reducing{.fuse_allreduce_rms = true, .tensor_parallel_size = 2};
  reducing.allreduce_fusion_max_token_num = program::TokenRange{}.end;
  PassOptions scattering{.enable_sp = true, .fuse_gemm_comms = true, .tensor_parallel_size = 2};
  scattering.sp_min_token_num = 1;
  PassOptions few_rows = cpu;
  few_rows.range = {1, 8};
  few_rows.prefer_linear_add = true;
  few_rows.norm_prologue_max_token_num = 8;
  return {cpu, generating, alone, groups, reducing, scattering, few_rows};
}

void check_programs(uint32_t begin, uint32_t end) {
  const std::vector<PassOptions> options = all_options();
  std::vector<Pipeline> pipelines;
  for (const PassOptions& each : options) pipelines.push_back(make_pipeline(each));
  std::map<std::string, size_t> num_matches;
  for (uint32_t seed = begin; seed < end; ++seed) {
    const size_t choice = seed / 2 % pipelines.size();
    const Program before = random_program(seed, options[choice]);
    Program after = before;
    // Like Pipeline::run(), but verifies only once, to save time. Other tests find faults of single
    // passes.
    const Pipeline& pipeline = pipelines[choice];
    for (const Pass& pass : pipeline.passes()) {
      num_matches[std::string(pass.name)] += pass.apply(after);
    }
    ASSERT_EQ(program::verify(after).value_or(""), "") << "seed " << seed << program::print(before);
    ASSERT_EQ(meaning_of(after, kValues), meaning_of(before, kValues))
        << "seed " << seed << "\n"
        << program::print(before) << program::print(after);
  }
  // Random shapes are too small for the rows of whole blocks that packed weights need.
  num_matches.erase("fuse_block_linear");
  num_matches.erase("fuse_quantize_linear");
  for (const auto& [pass, matches] : num_matches) {
    EXPECT_GT(matches, (end - begin) / 1500) << pass << " is hardly tested";
  }
}

TEST(RandomPrograms, mean_the_same_after_all_passes) { check_programs(0, 15'000); }

// Runs only with --gtest_also_run_disabled_tests.
TEST(RandomPrograms, DISABLED_mean_the_same_after_all_passes_100000_times) {
  check_programs(10'000, 110'000);
}

TEST(RandomPrograms, are_done_after_one_run) {
  for (const PassOptions& options : all_options()) {
    const Pipeline pipeline = make_pipeline(options);
    for (uint32_t seed = 0; seed < 600; ++seed) {
      Program program = random_program(seed, options);
      (void)pipeline.run(program);
      const std::string once = program::print(program);
      for (const PassRun& run : pipeline.run(program).passes) {
        ASSERT_EQ(run.num_matches, 0U) << run.pass << ", seed " << seed << "\n" << once;
      }
      ASSERT_EQ(program::print(program), once) << "seed " << seed;
    }
  }
}

TEST(RandomPrograms, are_done_after_one_run_of_each_pass_alone) {
  for (const PassOptions& options : all_options()) {
    const Pipeline pipeline = make_pipeline(options);
    for (const Pass& pass : pipeline.passes()) {
      const Pipeline alone(std::vector<Pass>{pass});
      for (uint32_t seed = 0; seed < 300; ++seed) {
        Program program = random_program(seed, options);
        (void)alone.run(program);
        const std::string once = program::print(program);
        ASSERT_EQ(pass.apply(program), 0U) << pass.name << ", seed " << seed << "\n" << once;
        ASSERT_EQ(program::print(program), once) << pass.name << ", seed " << seed;
      }
    }
  }
}

TEST(RandomPrograms, mean_something_else_where_they_differ) {
  std::set<std::vector<uint64_t>> seen;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    seen.insert(meaning_of(program::random_program(seed), kValues));
  }
  EXPECT_GT(seen.size(), 450U);
}

}  // namespace
}  // namespace reprise::compile
