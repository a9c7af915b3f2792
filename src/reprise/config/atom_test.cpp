#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/config/atom_decision_tree.h"
#include "reprise/config/resolution.h"
#include "reprise/config/splitting_ops.h"

// The common configurations of ATOM's compilation guide, section 8, and its decision tree.
namespace reprise::config {
namespace {

using enum cudagraph::CudagraphMode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ResolvedConfig as_atom(std::string_view compilation_config, bool enforce_eager = false) {
  ResolutionInputs inputs;
  inputs.compilation = parse_compilation_config(Json::parse(compilation_config)).config;
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::atom;
  inputs.attention = {{"backend", cudagraph::AttentionCGSupport::ALWAYS}};
  inputs.enforce_eager = enforce_eager;
  inputs.max_num_seqs = 512;
  return resolve(inputs);
}

TEST(Atom, level_3_is_piecewise_and_splits_at_atoms_two_ops) {
  const ResolvedConfig resolved = as_atom(R"({"level": 3})");
  EXPECT_EQ(resolved.mode, PIECEWISE);
  EXPECT_THAT(resolved.splitting_ops,
              ElementsAre("aiter.unified_attention_with_output", "aiter.mla_attention"));
  EXPECT_EQ(resolved.capture_sizes.mixed.size(), 36U);  // 1 2 4 8, then 16 32 ... 512
  EXPECT_EQ(resolved.capture_sizes.mixed[4], 16);
  EXPECT_EQ(resolved.capture_sizes.max_mixed(), 512);
  EXPECT_TRUE(resolved.piecewise_available);
  // Both use ATOM's names: for the level, and for the key of the sizes.
  const ResolvedConfig named = as_atom(R"({"level": "PIECEWISE", "cuda_graph_sizes": [64]})");
  EXPECT_EQ(named.mode, PIECEWISE);
  EXPECT_EQ(named.capture_sizes.max_mixed(), 64);
}

TEST(Atom, a_list_of_sizes_is_captured_as_it_stands) {
  const ResolvedConfig resolved =
      as_atom(R"({"level": 3, "cudagraph_capture_sizes": [1, 2, 4, 8]})");
  EXPECT_EQ(resolved.mode, PIECEWISE);
  EXPECT_THAT(resolved.capture_sizes.mixed, ElementsAre(1, 2, 4, 8));
}

TEST(Atom, enforce_eager_and_levels_below_3_have_no_graphs) {
  EXPECT_EQ(as_atom("{}", true).mode, NONE);
  for (const char* level : {R"({"level": 0})", R"({"level": 1})", R"({"level": "DYNAMO_ONCE"})"})
    EXPECT_EQ(as_atom(level).mode, NONE) << level;
}

TEST(Atom, a_mode_that_is_given_stays) {
  EXPECT_EQ(as_atom(R"({"level": 3, "cudagraph_mode": "FULL_AND_PIECEWISE"})").mode,
            FULL_AND_PIECEWISE);
  EXPECT_EQ(as_atom(R"({"level": 3, "cudagraph_mode": "FULL"})").mode, FULL);
}

ResolutionInputs as_atoms_runner(std::string_view compilation_config) {
  ResolutionInputs inputs;
  inputs.compilation = parse_compilation_config(Json::parse(compilation_config)).config;
  inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::atom_runner;
  inputs.attention = {{"backend", cudagraph::AttentionCGSupport::ALWAYS}};
  inputs.max_num_seqs = 512;
  inputs.max_num_batched_tokens = 16384;
  return inputs;
}

/// run_model() in ATOM's compilation guide: the key (graph_bs, max_q_len) of a batch, or nothing
/// for an eager run. `graph_bs`: the captured batch sizes, ascending.
std::optional<std::pair<int32_t, int32_t>> run_model(bool is_prefill,
                                                     int32_t bs,
                                                     int32_t max_q_len,
                                                     const std::vector<int32_t>& graph_bs) {
  if (is_prefill || bs > graph_bs.back()) return std::nullopt;
  return std::pair(*std::ranges::lower_bound(graph_bs, bs), max_q_len);
}

TEST(AtomRunner, dispatches_every_batch_as_run_model_does) {
  std::vector<int32_t> graph_bs = {1, 2, 4, 8};
  for (int32_t bs = 16; bs <= 512; bs += 16) graph_bs.push_back(bs);
  for (const int32_t q : {1, 2, 4}) {
    ResolutionInputs inputs = as_atoms_runner("{}");
    inputs.num_speculative_tokens = q - 1;  // mtp_k
    const ResolvedConfig resolved = resolve(inputs);
    EXPECT_EQ(resolved.mode, FULL_DECODE_ONLY);
    ASSERT_EQ(resolved.reasons.front().rule, "T2");
    cudagraph::CudagraphDispatcher dispatcher;
    dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
    dispatcher.mark_all_captured();
    for (const bool is_prefill : {false, true}) {
      for (int32_t bs = 1; bs <= 520; ++bs) {
        const cudagraph::Decision decision = dispatcher.dispatch(
            {.num_tokens = bs * q, .num_reqs = bs, .uniform = !is_prefill, .query_len = q});
        const auto key = run_model(is_prefill, bs, q, graph_bs);
        ASSERT_EQ(
            decision.mode,
            key ? cudagraph::CudagraphRuntimeMode::FULL : cudagraph::CudagraphRuntimeMode::NONE)
            << bs << " x " << q;
        if (!key) continue;
        ASSERT_EQ(
            decision.descriptor,
            (cudagraph::BatchDescriptor{
                .num_tokens = key->first * key->second, .num_reqs = key->first, .uniform = true}))
            << bs << " x " << q;
      }
    }
  }
}

TEST(AtomRunner, has_no_graphs_below_level_3_and_keeps_a_mode_that_is_given) {
  for (const char* level : {R"({"level": 0})", R"({"level": 1})", R"({"level": "DYNAMO_ONCE"})"}) {
    EXPECT_EQ(resolve(as_atoms_runner(level)).mode, NONE) << level;
  }
  ResolutionInputs eager = as_atoms_runner("{}");
  eager.enforce_eager = true;
  EXPECT_EQ(resolve(eager).mode, NONE);
  for (const auto mode : {PIECEWISE, FULL, FULL_AND_PIECEWISE}) {
    ResolutionInputs given = as_atoms_runner("{}");
    given.compilation.cudagraph_mode = mode;
    EXPECT_EQ(resolve(given).mode, mode);
  }
}

TEST(Atom, a_debug_dump_is_one_key_beside_the_level) {
  const auto parsed = parse_compilation_config(
      Json::parse(R"({"level": 3, "debug_dump_path": "/tmp/atom_debug"})"));
  EXPECT_EQ(parsed.config.debug_dump_path, "/tmp/atom_debug");
  EXPECT_EQ(parsed.config.mode, CompilationMode::VLLM_COMPILE);
}

TEST(Atom, the_other_rules_keep_their_default) {
  ResolutionInputs inputs;
  inputs.compilation = parse_compilation_config(Json::parse(R"({"level": 3})")).config;
  inputs.attention = {{"backend", cudagraph::AttentionCGSupport::ALWAYS}};
  EXPECT_EQ(resolve(inputs).mode, FULL_AND_PIECEWISE);
  EXPECT_TRUE(contains_attention(resolve(inputs).splitting_ops));
}

TEST(AtomDecisionTree, marks_the_leaf_of_a_configuration) {
  const std::string piecewise = atom_decision_tree(as_atom(R"({"level": 3})"));
  EXPECT_THAT(piecewise, HasSubstr("ordinary serving: PIECEWISE (default)   <== here\n"));
  EXPECT_THAT(piecewise, Not(HasSubstr("no leaf")));
  const std::string eager = atom_decision_tree(as_atom("{}", true));
  EXPECT_THAT(eager, HasSubstr("debugging or profiling: level 0   <== here"));
  const std::string odd =
      atom_decision_tree(as_atom(R"({"level": 0, "cudagraph_mode": "FULL_DECODE_ONLY"})"));
  EXPECT_THAT(odd, HasSubstr("no leaf: level 0 with FULL_DECODE_ONLY"));
  const std::string runner = atom_decision_tree(resolve(as_atoms_runner("{}")));
  EXPECT_THAT(runner, HasSubstr("ordinary serving: PIECEWISE (default)   <== here\n"));
  EXPECT_THAT(runner, HasSubstr("which is FULL_DECODE_ONLY here\n"));
  EXPECT_THAT(piecewise, Not(HasSubstr("runner")));
}

}  // namespace
}  // namespace reprise::config
