#include "reprise/cli/compilation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

api::StartupReport report_at(config::CompilationMode level) {
  api::StartupReport report;
  report.resolved.compilation_mode = level;
  report.compilation.backend = "llvm";
  report.compilation.compiled_launches = 44;
  report.compilation.traced_launches = 76;
  report.compilation.cache_outcome = "no entry";
  return report;
}

TEST(CompilationText, launches_are_compared_only_with_what_is_known) {
  const auto text = [](size_t compiled, size_t traced) {
    compile::CompilationReport report;
    report.compiled_launches = compiled;
    report.traced_launches = traced;
    return launches_text(report);
  };
  EXPECT_EQ(text(44, 76), "44 launches per decode step instead of 76 (-42 %)");
  EXPECT_EQ(text(76, 76), "76 launches per decode step instead of 76 (+0 %)");
  EXPECT_EQ(text(44, 0), "44 launches per decode step");
}

TEST(CompilationText, tells_why_a_level_does_not_run) {
  api::StartupReport report = report_at(config::CompilationMode::VLLM_COMPILE);
  report.compilation.refused = "op 3: a branch on the number of tokens";
  report.compilation.compiled_launches = 0;
  EXPECT_EQ(
      compilation_line(report),
      "level 3 VLLM_COMPILE was asked for, level 0 runs: op 3: a branch on the number of tokens");
  EXPECT_EQ(compilation_details(report.compilation), "");
  const Json json = compilation_to_json(report);
  EXPECT_EQ(json["level"], 0);
  EXPECT_EQ(json["requested_level"], 3);
  EXPECT_EQ(json["refused"], "op 3: a branch on the number of tokens");
}

TEST(CompilationText, tells_why_level_1_traces_each_number_of_tokens) {
  api::StartupReport report = report_at(config::CompilationMode::STOCK_TORCH_COMPILE);
  report.compilation.backend = "eager";
  report.compilation.guarded = "op 3: a branch on the number of tokens";
  report.compilation.compiled_launches = 0;
  EXPECT_EQ(compilation_line(report),
            "level 1 STOCK_TORCH_COMPILE, backend eager; each number of tokens is traced when it "
            "first comes: op 3: a branch on the number of tokens");
  const Json json = compilation_to_json(report);
  EXPECT_EQ(json["level"], 1);
  EXPECT_EQ(json["guarded"], "op 3: a branch on the number of tokens");
  EXPECT_EQ(json["refused"], Json());
}

TEST(CompilationText, level_0_says_that_nothing_is_compiled) {
  EXPECT_THAT(compilation_line(report_at(config::CompilationMode::NONE)),
              HasSubstr("nothing is compiled"));
}

TEST(CompilationText, tells_what_became_of_the_cache) {
  api::StartupReport report = report_at(config::CompilationMode::VLLM_COMPILE);
  EXPECT_THAT(compilation_line(report), HasSubstr("compile cache unused: no entry"));
  report.compilation.cache_saved = "saved";
  EXPECT_THAT(compilation_line(report), HasSubstr("compile cache miss (no entry), saved"));
  report.compilation.cache_outcome = "hit";
  report.compilation.cache_directory = "/c/rank_0";
  EXPECT_THAT(compilation_line(report), HasSubstr("compile cache hit: /c/rank_0"));
  report.compilation.cache_outcome.clear();
  EXPECT_THAT(compilation_line(report), Not(HasSubstr("cache")));
  report.compilation.cache_outcome = "disabled";
  report.resolved.compilation_mode = config::CompilationMode::DYNAMO_TRACE_ONCE;
  EXPECT_THAT(compilation_line(report), HasSubstr("only level 3 is"));
}

TEST(CompilationText, json_has_counters_and_seconds_by_name) {
  api::StartupReport report = report_at(config::CompilationMode::VLLM_COMPILE);
  report.compilation.counter.num_unique_pieces = 3;
  report.compilation.seconds.trace = 0.5;
  const Json json = compilation_to_json(report);
  EXPECT_EQ(json["counters"]["num_unique_pieces"], 3);
  EXPECT_EQ(json["seconds"]["trace"], 0.5);
  EXPECT_TRUE(json["refused"].is_null());
  EXPECT_EQ(json["launches_per_step_traced"], 76);
  EXPECT_TRUE(json["planned_bytes_per_token"].is_null()) << "nothing was compiled";
}

}  // namespace
}  // namespace reprise::cli
