// Checks the rules of dispatch in all eleven million states of small configurations: all
// combinations of modes, capture size rules, attention support, speculation, LoRA, cascade, allowed
// modes, requests and tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/config/resolution.h"

// Counts the allocations of this program, to check that dispatch() has none.
namespace {
thread_local int64_t num_allocations = 0;
}  // namespace

// This operator must not be inlined: GCC 12 would see malloc in only one of the two operators and
// report a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace reprise::config {
namespace {

using Runtime = cudagraph::CudagraphRuntimeMode;
using Support = cudagraph::AttentionCGSupport;
using Sets = cudagraph::FullGraphSets;

constexpr int32_t kMaxNumSeqs = 5;
constexpr int32_t kTokenBudget = 24;
constexpr int32_t kMaxLoras = 2;

struct World {
  ResolutionInputs inputs;
  ResolvedConfig resolved;
  cudagraph::CudagraphDispatcher dispatcher;
  cudagraph::CudagraphDispatcher other_rank;
};

bool build(World& world) {
  try {
    world.resolved = resolve(world.inputs);
    const cudagraph::DispatcherOptions options = dispatcher_options(world.inputs, world.resolved);
    world.dispatcher.initialize_cudagraph_keys(options);
    world.other_rank.initialize_cudagraph_keys(
        dispatcher_options(world.inputs, resolve(world.inputs)));
  } catch (const InvalidArgument&) {
    return false;  // the configuration is refused, so there is nothing to dispatch
  }
  world.dispatcher.mark_all_captured();
  world.other_rank.mark_all_captured();
  return true;
}

// Whether the weakest attention backend allows a FULL graph for this key.
bool support_allows(const World& world, const cudagraph::BatchDescriptor& key) {
  const Support support = world.resolved.weakest_attention.support;
  if (!key.uniform) {
    return world.resolved.mode == cudagraph::CudagraphMode::FULL_AND_FULL
               ? world.resolved.weakest_attention.holds_mixed_batches_beside_decode()
               : support == Support::ALWAYS;
  }
  return key.num_tokens == *key.num_reqs ? support >= Support::UNIFORM_SINGLE_TOKEN_DECODE
                                         : support >= Support::UNIFORM_BATCH;
}

// A key for uniform batches serves batches of its own query length.
bool is_of_query_len(const cudagraph::BatchDescriptor& key, const cudagraph::BatchFacts& batch) {
  return !key.uniform || key.num_tokens == *key.num_reqs * batch.query_len;
}

// Whether a smaller key of the same class and LoRA case would hold the batch too.
bool tighter_key_exists(const World& world,
                        const cudagraph::BatchFacts& batch,
                        const cudagraph::Decision& decision) {
  for (const cudagraph::BatchDescriptor& key : world.dispatcher.keys(decision.mode)) {
    if (key.num_active_loras == decision.descriptor.num_active_loras &&
        key.uniform == decision.descriptor.uniform && is_of_query_len(key, batch) &&
        key.num_tokens < decision.descriptor.num_tokens && key.num_tokens >= batch.num_tokens &&
        key.num_reqs.value_or(batch.num_reqs) >= batch.num_reqs) {
      return true;
    }
  }
  return false;
}

void check(const World& world, const cudagraph::BatchFacts& batch) {
  const int64_t before = num_allocations;
  const cudagraph::Decision decision = world.dispatcher.dispatch(batch);
  ASSERT_EQ(num_allocations, before) << "dispatch allocated";
  ASSERT_EQ(decision, world.dispatcher.dispatch(batch));
  ASSERT_EQ(decision, world.other_rank.dispatch(batch));
  ASSERT_EQ(is_graph_hit(decision.reason), decision.mode != Runtime::NONE);
  const cudagraph::BatchDescriptor& key = decision.descriptor;
  if (decision.mode == Runtime::NONE) {
    ASSERT_EQ(key, cudagraph::BatchDescriptor{.num_tokens = batch.num_tokens});
    return;
  }
  const int32_t q = world.resolved.uniform_decode_query_len;
  ASSERT_TRUE(world.dispatcher.is_captured(decision.mode, key));
  ASSERT_TRUE(has_mode(world.resolved.mode, decision.mode));
  ASSERT_TRUE(batch.allowed.contains(decision.mode));
  ASSERT_GE(key.num_tokens, batch.num_tokens);
  ASSERT_EQ(key.has_lora, key.num_active_loras > 0);
  ASSERT_TRUE(batch.uniform || !key.uniform) << "a mixed batch in a decode graph";
  if (world.inputs.compilation.capture_size_rule != cudagraph::CaptureSizeRule::vllm_v1) {
    // Rule vllm uses the largest case for numbers above max_loras + 1. No engine has such numbers.
    ASSERT_GE(key.num_active_loras, std::min(batch.num_active_loras, kMaxLoras + 1));
    ASSERT_FALSE(tighter_key_exists(world, batch, decision));
  }
  if (decision.mode == Runtime::FULL) {
    ASSERT_FALSE(batch.cascade || batch.encoder_outputs);
    ASSERT_LE(batch.num_logits, batch.num_reqs * q)
        << "a row of logits that the graph does not compute";
    ASSERT_TRUE(support_allows(world, key));
    ASSERT_GE(key.num_reqs.value_or(-1), std::min(batch.num_reqs, kMaxNumSeqs));
    ASSERT_LE(*key.num_reqs, kMaxNumSeqs);
    if (key.uniform) {
      ASSERT_TRUE(batch.query_len == q || batch.query_len == 1);
      ASSERT_TRUE(is_of_query_len(key, batch));
    }
  } else {
    ASSERT_LE(batch.num_logits, kMaxNumSeqs * q)
        << "a row of logits that the graph does not compute";
    ASSERT_FALSE(key.num_reqs.has_value());
    ASSERT_FALSE(key.uniform);
    // FULL is preferred: a batch may get PIECEWISE only if no permitted FULL graph holds it.
    const bool has_decode_graphs =
        batch.query_len == q ||
        world.inputs.compilation.capture_size_rule == cudagraph::CaptureSizeRule::reprise;
    const bool full_possible = batch.uniform && has_decode_graphs &&
                               separate_routine(world.resolved.mode) && !batch.cascade &&
                               !batch.encoder_outputs && batch.num_logits <= batch.num_reqs * q &&
                               batch.allowed.contains(Runtime::FULL);
    ASSERT_TRUE(!full_possible ||
                decision.reason == cudagraph::DispatchReason::piecewise_no_decode_size);
  }
}

int64_t check_all_batches(const World& world) {
  int64_t states = 0;
  const int32_t q = world.resolved.uniform_decode_query_len;
  const cudagraph::RuntimeModeSet all = cudagraph::RuntimeModeSet::all();
  for (int32_t tokens = 0; tokens <= kTokenBudget + 2; ++tokens) {
    for (int32_t reqs = 1; reqs <= std::min(tokens, kMaxNumSeqs); ++reqs) {
      for (bool uniform : {false, true}) {
        const int32_t query_len = tokens == reqs ? 1 : q;
        if (uniform && tokens != reqs * query_len) continue;  // not a uniform decode batch
        for (int32_t loras = 0; loras <= kMaxLoras + 2; ++loras) {
          for (bool cascade : {false, true}) {
            for (cudagraph::RuntimeModeSet allowed :
                 {all,
                  all.without(Runtime::FULL),
                  all.without(Runtime::PIECEWISE),
                  cudagraph::RuntimeModeSet::only(Runtime::NONE)}) {
              for (int32_t logits : {reqs, reqs * q, reqs * q + 1, kMaxNumSeqs * q + 1}) {
                if (logits > tokens && logits != reqs) continue;
                check(world,
                      {.num_tokens = tokens,
                       .num_reqs = reqs,
                       .uniform = uniform,
                       .query_len = query_len,
                       .num_active_loras = loras,
                       .cascade = cascade,
                       .num_logits = logits,
                       .allowed = allowed});
                ++states;
                if (testing::Test::HasFatalFailure()) return states;
              }
            }
          }
        }
      }
    }
  }
  return states;
}

// Checks that every possible uniform decode batch has a FULL graph, and that a larger batch never
// gets a smaller padded size.
void check_decode_ladder(const World& world) {
  if (world.inputs.compilation.capture_size_rule != cudagraph::CaptureSizeRule::reprise) return;
  if (!separate_routine(world.resolved.mode)) return;
  const int32_t q = world.resolved.uniform_decode_query_len;
  int32_t previous = 0;
  for (int32_t reqs = 1; reqs <= std::min(kMaxNumSeqs, kTokenBudget / q); ++reqs) {
    const cudagraph::BatchFacts batch{.num_tokens = reqs * q, .num_reqs = reqs, .uniform = true};
    const cudagraph::Decision decision = world.dispatcher.dispatch(batch);
    ASSERT_EQ(decision.mode, Runtime::FULL);
    ASSERT_GE(decision.descriptor.num_tokens, previous);
    previous = decision.descriptor.num_tokens;
    const cudagraph::BatchFacts padded{.num_tokens = *decision.descriptor.num_reqs * q,
                                       .num_reqs = *decision.descriptor.num_reqs,
                                       .uniform = true};
    ASSERT_EQ(world.dispatcher.dispatch(padded).descriptor, decision.descriptor);
  }
}

TEST(DispatchInvariants, hold_in_every_state_of_small_configurations) {
  int64_t states = 0;
  int64_t worlds = 0;
  for (cudagraph::CaptureSizeRule rule : {cudagraph::CaptureSizeRule::reprise,
                                          cudagraph::CaptureSizeRule::vllm,
                                          cudagraph::CaptureSizeRule::vllm_v1,
                                          cudagraph::CaptureSizeRule::atom}) {
    for (int32_t mode = 0; mode < 6; ++mode) {
      for (int32_t support = 0; support < 4; ++support) {
        for (int32_t speculative : {0, 1, 2, 4}) {
          for (int32_t lora = 0; lora < 5; ++lora) {
            for (bool breakable : {true, false}) {
              World world;
              world.inputs.compilation.capture_size_rule = rule;
              world.inputs.compilation.cudagraph_mode = static_cast<cudagraph::CudagraphMode>(mode);
              world.inputs.compilation.cudagraph_specialize_lora = lora != 3;
              world.inputs.lora = {.max_loras = lora == 0 ? 0 : kMaxLoras,
                                   .specialize_active_lora = lora == 2 || lora == 4};
              world.inputs.attention = {
                  {.backend = "test",
                   .support = static_cast<Support>(support),
                   .full_graph_sets = mode == 5 && lora != 1 ? Sets::two_if_asked : Sets::one}};
              world.inputs.num_speculative_tokens = speculative;
              world.inputs.max_num_seqs = kMaxNumSeqs;
              world.inputs.max_num_batched_tokens = kTokenBudget;
              world.inputs.breakable = breakable;
              if (!build(world)) continue;
              ++worlds;
              states += check_all_batches(world);
              if (HasFatalFailure()) return;
              check_decode_ladder(world);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  RecordProperty("states", std::to_string(states));
  EXPECT_GT(worlds, 1000);
  EXPECT_GT(states, 1'000'000);
}

// For every combination of captured and retired keys, dispatch() returns only captured keys.
TEST(DispatchInvariants, hold_for_every_subset_of_captured_and_retired_keys) {
  cudagraph::DispatcherOptions options{.mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                                       .uniform_decode_query_len = 2,
                                       .max_num_seqs = 4,
                                       .mixed_capture_sizes = {1, 4, 8},
                                       .decode_capture_sizes = {2, 4, 8}};
  for (cudagraph::CaptureSizeRule rule :
       {cudagraph::CaptureSizeRule::reprise, cudagraph::CaptureSizeRule::vllm_v1}) {
    options.rule = rule;
    if (rule == cudagraph::CaptureSizeRule::vllm_v1) options.mixed_capture_sizes = {2, 4, 8};
    cudagraph::CudagraphDispatcher planned;
    planned.initialize_cudagraph_keys(options);
    std::vector<std::pair<Runtime, cudagraph::BatchDescriptor>> keys;
    for (const cudagraph::CaptureGroup& group : planned.capture_plan()) {
      for (const cudagraph::BatchDescriptor& key : group.descriptors)
        keys.emplace_back(group.mode, key);
    }
    ASSERT_EQ(keys.size(), 6U);
    for (int32_t states = 0; states < 729; ++states) {  // 3 states for each of 6 keys
      cudagraph::CudagraphDispatcher dispatcher = planned;
      int32_t digits = states;
      for (const auto& [mode, key] : keys) {
        if (digits % 3 == 1) dispatcher.mark_captured(mode, key);
        if (digits % 3 == 2) dispatcher.retire(mode, key, "test");
        digits /= 3;
      }
      for (int32_t tokens = 0; tokens <= 9; ++tokens) {
        for (bool uniform : {false, true}) {
          const cudagraph::BatchFacts batch{
              .num_tokens = tokens, .num_reqs = (tokens + 1) / 2, .uniform = uniform};
          const cudagraph::Decision decision = dispatcher.dispatch(batch);
          ASSERT_FALSE(dispatcher.describe(batch, decision).empty());
          if (decision.mode == Runtime::NONE) continue;
          ASSERT_TRUE(dispatcher.is_captured(decision.mode, decision.descriptor));
          ASSERT_GE(decision.descriptor.num_tokens, tokens);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::config
