#include "reprise/config/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::config {
namespace {

using testing::HasSubstr;

ResolutionInputs inputs_with(cudagraph::AttentionCGSupport support,
                             std::string_view config = "{}") {
  ResolutionInputs inputs;
  inputs.compilation = parse_compilation_config(std::string(config)).config;
  inputs.attention = {{"test_attention", support}};
  inputs.max_num_seqs = 100;
  return inputs;
}

TEST(BatchSpec, reads_every_form) {
  const auto facts = [](std::string_view spec) { return parse_batch_spec(spec, 4, 8); };
  cudagraph::BatchFacts batch = facts("decode:3");
  EXPECT_EQ(std::pair(batch.num_tokens, batch.num_reqs), std::pair(12, 3));
  EXPECT_TRUE(batch.uniform);
  batch = facts("uniform:3x4");
  EXPECT_EQ(std::pair(batch.num_tokens, batch.num_reqs), std::pair(12, 3));
  EXPECT_TRUE(batch.uniform);
  // All requests have the same number of tokens, but it is not the decode query length.
  EXPECT_FALSE(facts("uniform:4x8").uniform);
  batch = facts("mixed:100");
  EXPECT_EQ(std::pair(batch.num_tokens, batch.num_reqs), std::pair(100, 8));
  EXPECT_FALSE(batch.uniform);
  EXPECT_EQ(facts("mixed:5").num_reqs, 5);
  EXPECT_EQ(facts("mixed:100/3").num_reqs, 3);
  EXPECT_EQ(facts("prefill:4").num_reqs, 1);
  // A chunk of a prompt that happens to be as long as the decode query length.
  EXPECT_FALSE(facts("prefill:4").uniform);
  batch = facts("decode:2+cascade+lora=3");
  EXPECT_TRUE(batch.cascade);
  EXPECT_EQ(batch.num_active_loras, 3);
  EXPECT_TRUE(facts("decode:2+encoder").encoder_outputs);
}

TEST(BatchSpec, anything_else_is_refused_with_the_allowed_forms) {
  for (std::string_view bad : {"",
                               "decode",
                               "decode:",
                               "decode:x",
                               "decode:-1",
                               "decode:3 ",
                               "uniform:3",
                               "uniform:3x",
                               "mixed:3/",
                               "decode:2+",
                               "decode:2+lora",
                               "decode:2+cascadex",
                               "decode:99999999999",
                               "uniform:1048576x1048576"}) {
    EXPECT_THROW((void)parse_batch_spec(bad, 1, 8), InvalidArgument) << bad;
  }
  try {
    (void)parse_batch_spec("prefil:3", 1, 8);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("uniform:RxQ"));
  }
}

TEST(Explain, tells_request_resolution_sizes_and_decisions) {
  const std::vector<std::string> batches = {
      "decode:99", "mixed:33", "mixed:5000", "decode:4+cascade"};
  const Explanation explanation = explain(
      inputs_with(cudagraph::AttentionCGSupport::UNIFORM_BATCH, R"({"cudagraph_mode": "FULL"})"),
      batches);
  const Json json = to_json(explanation);
  EXPECT_EQ(json["requested"], "FULL");
  EXPECT_EQ(json["resolved"], "FULL_AND_PIECEWISE");
  ASSERT_EQ(json["reasons"].size(), 1U);
  EXPECT_EQ(json["reasons"][0]["rule"], "C2");
  EXPECT_EQ(json["warnings"].size(), 1U);
  EXPECT_EQ(json["capture_sizes"]["decode"].back(), 100);
  EXPECT_EQ(json["capture_sizes"]["mixed"].back(), 200);
  ASSERT_EQ(json["decisions"].size(), 4U);
  EXPECT_EQ(json["decisions"][0]["batch"], "decode:99");
  EXPECT_EQ(json["decisions"][0]["mode"], "FULL");
  EXPECT_EQ(json["decisions"][0]["num_tokens"], 100);
  EXPECT_EQ(json["decisions"][0]["num_reqs"], 100);
  EXPECT_EQ(json["decisions"][0]["uniform"], true);
  EXPECT_EQ(json["decisions"][1]["mode"], "PIECEWISE");
  EXPECT_EQ(json["decisions"][1]["num_tokens"], 40);
  EXPECT_TRUE(json["decisions"][1]["num_reqs"].is_null());
  EXPECT_EQ(json["decisions"][2]["mode"], "NONE");
  EXPECT_EQ(json["decisions"][2]["num_tokens"], 5000);
  EXPECT_THAT(json["decisions"][2]["reason"].get<std::string>(), HasSubstr("200"));
  EXPECT_EQ(json["decisions"][3]["mode"], "PIECEWISE");
  EXPECT_EQ(json["decisions"][3]["reason_code"], "piecewise_cascade");
  EXPECT_FALSE(json.contains("error"));

  const std::string text = to_text(explanation);
  for (std::string_view part : {"FULL_AND_PIECEWISE", "C2", "decode:99", "test_attention"}) {
    EXPECT_THAT(text, HasSubstr(std::string(part)));
  }
}

TEST(Explain, an_unset_mode_is_null_and_its_default_has_a_reason) {
  const Json json = to_json(explain(inputs_with(cudagraph::AttentionCGSupport::ALWAYS), {}));
  EXPECT_TRUE(json["requested"].is_null());
  EXPECT_EQ(json["resolved"], "FULL_AND_PIECEWISE");
  EXPECT_EQ(json["reasons"][0]["rule"], "A8");
}

TEST(Explain, tells_who_chose_the_level) {
  const auto level = [](ResolutionInputs inputs) {
    const Json json = to_json(explain(inputs, {}));
    return std::pair(json["level"].get<int>(), json["level_reason"].get<std::string>());
  };
  ResolutionInputs inputs = inputs_with(cudagraph::AttentionCGSupport::ALWAYS);
  EXPECT_EQ(level(inputs), std::pair(3, std::string("not given, -O2 chooses it")));
  inputs.optimization_level = OptimizationLevel::O0;
  EXPECT_EQ(level(inputs), std::pair(0, std::string("not given, -O0 chooses it")));
  inputs.compilation.mode = CompilationMode::DYNAMO_TRACE_ONCE;
  EXPECT_EQ(level(inputs), std::pair(2, std::string("asked for")));
  EXPECT_THAT(to_text(explain(inputs, {})), HasSubstr("level      2 DYNAMO_TRACE_ONCE: asked for"));
  inputs.enforce_eager = true;
  EXPECT_EQ(level(inputs), std::pair(0, std::string("enforce_eager is set")));
}

TEST(Explain, a_refused_configuration_or_batch_becomes_an_error) {
  Json json = to_json(explain(
      inputs_with(cudagraph::AttentionCGSupport::NEVER, R"({"cudagraph_mode": "FULL"})"), {}));
  EXPECT_EQ(json["requested"], "FULL");
  EXPECT_THAT(json["error"].get<std::string>(), HasSubstr("test_attention"));
  EXPECT_FALSE(json.contains("resolved"));

  const std::vector<std::string> batches = {"decode:1", "nonsense"};
  const Explanation explanation =
      explain(inputs_with(cudagraph::AttentionCGSupport::ALWAYS), batches);
  ASSERT_TRUE(explanation.error);
  EXPECT_TRUE(explanation.decisions.empty());
  EXPECT_THAT(to_text(explanation), HasSubstr("nonsense"));
}

TEST(Explain, reports_the_keys_of_each_rule) {
  ResolutionInputs inputs =
      inputs_with(cudagraph::AttentionCGSupport::ALWAYS,
                  R"({"capture_size_rule": "vllm-v1", "cudagraph_mode": "FULL_DECODE_ONLY"})");
  Explanation explanation = explain(inputs, {});
  EXPECT_TRUE(explanation.mixed_sizes.empty());
  // Rule vllm has no size from 97 to 100 requests, so such batches run eagerly.
  EXPECT_EQ(explanation.decode_sizes.back(), 96);
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::atom;
  explanation = explain(inputs, {});
  EXPECT_EQ(explanation.decode_sizes, (std::vector<int32_t>{1, 2, 4, 8, 16, 32, 48, 64, 80, 96}));
}

TEST(Explain, says_that_measured_sizes_are_candidates) {
  const ResolutionInputs inputs =
      inputs_with(cudagraph::AttentionCGSupport::ALWAYS, R"({"capture_size_rule": "measured"})");
  const Explanation explanation = explain(inputs, {});
  ASSERT_EQ(explanation.error, std::nullopt);
  EXPECT_EQ(explanation.decode_sizes.back(), 100);
  EXPECT_EQ(explanation.mixed_sizes.back(), inputs.max_num_batched_tokens);
  EXPECT_THAT(to_text(explanation), HasSubstr("these sizes are candidates"));
  const ResolutionInputs eager =
      inputs_with(cudagraph::AttentionCGSupport::ALWAYS,
                  R"({"capture_size_rule": "measured", "cudagraph_mode": "NONE"})");
  EXPECT_EQ(to_text(explain(eager, {})).find("candidates"), std::string::npos);
}

TEST(Explain, refuses_what_measured_sizes_cannot_be_used_with) {
  const auto error_of = [](std::string_view more, int32_t tensor_parallel_size = 1) {
    ResolutionInputs inputs =
        inputs_with(cudagraph::AttentionCGSupport::ALWAYS,
                    std::string(R"({"capture_size_rule": "measured")") + std::string(more) + "}");
    inputs.tensor_parallel_size = tensor_parallel_size;
    return explain(inputs, {}).error.value_or("");
  };
  EXPECT_EQ(error_of(""), "");
  EXPECT_THAT(error_of("", 2), HasSubstr("several ranks"));
  EXPECT_THAT(error_of(R"(, "cudagraph_lazy_capture": true)"), HasSubstr("cudagraph_lazy_capture"));
  EXPECT_THAT(error_of(R"(, "compile_sizes": [8])"), HasSubstr("compile_sizes"));
  EXPECT_THAT(error_of(R"(, "compile_sizes": ["cudagraph_capture_sizes"])"),
              HasSubstr("compile_sizes"));
}

TEST(Explain, the_text_tells_each_warning_once) {
  ResolutionInputs inputs;
  inputs.attention = {{"X", cudagraph::AttentionCGSupport::UNIFORM_BATCH}};
  inputs.compilation.cudagraph_mode = cudagraph::CudagraphMode::FULL;
  Explanation explanation = explain(inputs, {});
  ASSERT_TRUE(explanation.resolved.has_value());
  ASSERT_FALSE(explanation.resolved->warnings.empty());
  explanation.resolved->warnings.push_back("an old spelling");
  const std::string text = to_text(explanation);
  EXPECT_THAT(text, HasSubstr("warning: an old spelling"));
  const std::string& downgrade = explanation.resolved->warnings.front();
  const size_t first = text.find(downgrade);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find(downgrade, first + 1), std::string::npos);
}

}  // namespace
}  // namespace reprise::config
