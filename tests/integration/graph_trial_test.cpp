#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/tiny_engine.h"

// What --verify-graphs=strict finds by replaying captured keys over made-up requests.
namespace reprise {
namespace {

using cudagraph::CaptureReport;
using cudagraph::CaptureVerdict;
using cudagraph::CudagraphMode;
using testing::TinyEngine;
using testing::TinyEngineOptions;

constexpr std::array kConfigs = {testing::kTinyQwen3Config,
                                 testing::kTinyDeepseekConfig,
                                 testing::kTinyMambaConfig,
                                 testing::kTinyMamba2Config,
                                 testing::kTinyBambaConfig,
                                 testing::kTinyFalconH1Config,
                                 testing::kTinyQwen3NextConfig,
                                 testing::kTinyLfm2Config};

TinyEngineOptions strict(const char* config) {
  return {.num_warmups = 1, .verify_graphs = cudagraph::VerifyGraphs::strict, .config = config};
}

TEST(GraphTrial, every_kind_of_layer_keeps_every_rule_after_a_warm_up) {
  for (const char* config : kConfigs) {
    for (const int32_t num_drafts : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << config << " with " << num_drafts << " drafts");
      TinyEngineOptions options = strict(config);
      options.num_speculative_tokens = num_drafts;
      TinyEngine engine(options);
      const CaptureReport report = engine.runner().capture({});
      EXPECT_FALSE(report.records.empty());
      for (const auto& record : report.records) {
        EXPECT_EQ(record.failure, "");
        EXPECT_EQ(record.verdict, CaptureVerdict::proved);
      }
      EXPECT_EQ(report.violation, "");
    }
  }
}

TEST(GraphTrial, the_caches_hold_zeros_again) {
  for (const char* config : {testing::kTinyQwen3Config, testing::kTinyBambaConfig}) {
    TinyEngine engine(strict(config));
    (void)engine.runner().capture({});
    const std::vector<std::byte> bytes = engine.save_kv();
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(GraphTrial, what_a_warm_up_left_in_the_null_block_is_told_and_undone) {
  TinyEngine engine(strict(testing::kTinyQwen3Config));
  engine.kv_bytes()[0] = std::byte{1};
  const CaptureReport report = engine.runner().capture({});
  EXPECT_NE(report.violation.find("rule leaves_no_trace: warm-up or a capture has written the null "
                                  "block"),
            std::string::npos)
      << report.violation;
  EXPECT_EQ(engine.kv_bytes()[0], std::byte{0});
}

// Mode, and draft tokens of a request.
using TrialCase = std::pair<CudagraphMode, int32_t>;

TEST(GraphTrial, every_attention_backend_keeps_the_rules_with_and_without_drafts) {
  for (const attention::BackendInfo& backend : attention::attention_backends()) {
    if (backend.kind != attention::AttentionKind::key_value) continue;
    for (const auto& [mode, num_drafts] : {TrialCase{CudagraphMode::FULL_AND_PIECEWISE, 0},
                                           TrialCase{CudagraphMode::FULL_AND_PIECEWISE, 2},
                                           TrialCase{CudagraphMode::FULL, 0}}) {
      if (mode == CudagraphMode::FULL && backend.support == cudagraph::AttentionCGSupport::NEVER) {
        continue;  // the resolution refuses it
      }
      SCOPED_TRACE(::testing::Message() << backend.name << ", " << cudagraph::to_string(mode)
                                        << " with " << num_drafts << " drafts");
      TinyEngineOptions options = strict(testing::kTinyQwen3Config);
      options.mode = mode;
      options.attention = &backend;
      options.num_speculative_tokens = num_drafts;
      TinyEngine engine(options);
      for (const auto& record : engine.runner().capture({}).records) {
        EXPECT_EQ(record.failure, "");
        EXPECT_EQ(record.verdict, CaptureVerdict::proved);
      }
    }
  }
}

TEST(GraphTrial, adapters_and_copied_inputs_keep_the_rules) {
  TinyEngineOptions options = strict(testing::kTinyQwen3Config);
  options.lora = {.max_loras = 2};
  {
    TinyEngine engine(options);
    for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  }
  options.lora = {};
  options.copy_inputs = true;
  options.mode = CudagraphMode::PIECEWISE;
  for (const auto level : {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
    options.level = level;
    TinyEngine engine(options);
    for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  }
}

TEST(GraphTrial, off_checks_nothing) {
  TinyEngine engine({.verify_graphs = cudagraph::VerifyGraphs::off});
  for (const auto& record : engine.runner().capture({}).records) {
    EXPECT_EQ(record.verdict, CaptureVerdict::unchecked);
    EXPECT_EQ(record.verify_seconds, 0);
  }
}

}  // namespace
}  // namespace reprise
