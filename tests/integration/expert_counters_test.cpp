#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "tests/support/source_dir.h"

// The tokens of experts: counted on the device by the steps themselves, in graphs and outside.
namespace reprise {
namespace {

using Tokens = std::vector<int32_t>;

constexpr size_t kExperts = 6;
constexpr uint64_t kTopK = 2;

// Layer 1 has no experts.
constexpr const char* kConfig = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 16,
  "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
  "mlp_only_layers": [1], "decoder_sparse_step": 1, "norm_topk_prob": true})";

api::EngineArgs arguments(const std::string& mode, int level, bool is_async) {
  api::EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.load_format = api::LoadFormat::dummy;
  args.hf_overrides = Json::parse(kConfig);
  args.expert_counters = true;
  args.enable_prefix_caching = false;
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 32;
  args.max_model_len = 128;
  args.num_threads = 2;
  args.async_scheduling = is_async;
  args.disable_compile_cache = true;
  args.compilation_config = {{"cudagraph_mode", mode}, {"level", level}};
  return args;
}

/// Three requests at once. Computed are 57 prompt tokens, and 5 of each request's 6 answer tokens.
api::EngineStats run(api::AsyncEngine& engine) {
  std::vector<std::promise<void>> ends(3);
  for (size_t i = 0; i < ends.size(); ++i) {
    Tokens prompt(10 + 9 * i);
    for (size_t k = 0; k < prompt.size(); ++k) {
      prompt[k] = static_cast<int32_t>(100 + 37 * i + 11 * k);
    }
    (void)engine.submit(prompt,
                        {.temperature = 0, .max_tokens = 6, .ignore_eos = true},
                        [&end = ends[i]](const engine::OutputDelta& output) {
                          if (output.finished) end.set_value();
                        });
  }
  for (std::promise<void>& end : ends) end.get_future().wait();
  // The engine's thread answers this call between two steps, after it has published the last step's
  // counts.
  (void)engine.reset_prefix_cache();
  return engine.stats();
}
constexpr uint64_t kTokens = 10 + 19 + 28 + 3 * 5;

TEST(ExpertCounters, are_the_same_in_every_mode_and_count_no_padding) {
  std::vector<uint64_t> expected;
  for (const auto& [mode, level, is_async] : {std::tuple{"NONE", 0, false},
                                              std::tuple{"FULL_AND_PIECEWISE", 0, false},
                                              std::tuple{"PIECEWISE", 3, false},
                                              std::tuple{"FULL_AND_PIECEWISE", 3, false}}) {
    SCOPED_TRACE(std::string(mode) + std::to_string(level));
    api::AsyncEngine engine(arguments(mode, level, is_async));
    EXPECT_EQ(engine.startup_report().compilation.refused, "");
    const api::EngineStats stats = run(engine);
    EXPECT_EQ(stats.expert_layers, (std::vector<int32_t>{0, 2}));
    ASSERT_EQ(stats.expert_tokens.size(), 2 * kExperts);
    for (size_t layer = 0; layer < 2; ++layer) {
      const auto begin =
          stats.expert_tokens.begin() + static_cast<std::ptrdiff_t>(layer * kExperts);
      EXPECT_EQ(std::accumulate(begin, begin + kExperts, uint64_t{0}), kTokens * kTopK);
    }
    if (expected.empty()) expected = stats.expert_tokens;
    EXPECT_EQ(stats.expert_tokens, expected);
    EXPECT_GT(*std::ranges::max_element(expected), *std::ranges::min_element(expected));
    // The same requests again: each expert gets as many tokens once more.
    const api::EngineStats twice = run(engine);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(twice.expert_tokens[i], 2 * expected[i]);
    }
  }
}

TEST(ExpertCounters, count_what_async_scheduling_computes_ahead_too) {
  api::AsyncEngine engine(arguments("FULL_AND_PIECEWISE", 3, true));
  const api::EngineStats stats = run(engine);
  const uint64_t total =
      std::accumulate(stats.expert_tokens.begin(), stats.expert_tokens.end(), uint64_t{0});
  EXPECT_GE(total, 2 * kTokens * kTopK);
}

TEST(ExpertCounters, are_off_unless_asked_for_and_warn_without_experts) {
  api::EngineArgs off = arguments("NONE", 0, false);
  off.expert_counters = false;
  api::AsyncEngine engine(off);
  EXPECT_TRUE(engine.stats().expert_layers.empty());
  api::EngineArgs dense = arguments("NONE", 0, false);
  dense.hf_overrides = Json::object();
  api::AsyncEngine without(dense);
  EXPECT_TRUE(without.stats().expert_tokens.empty());
  bool has_warning = false;
  for (const std::string& warning : without.startup_report().warnings) {
    has_warning = has_warning || warning.find("--expert-counters has no effect") == 0;
  }
  EXPECT_TRUE(has_warning);
}

}  // namespace
}  // namespace reprise
