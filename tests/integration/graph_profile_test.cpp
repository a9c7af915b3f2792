#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/graph_diff.h"
#include "reprise/runner/graph_profiler.h"
#include "tests/integration/hostile_kernels.h"
#include "tests/integration/step_outcome.h"
#include "tests/support/fake_device/fake_device.h"

// A profile lists the nodes that were captured, their bytes follow from the shapes, and a slow
// kernel is slow in the profile.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::BatchDescriptor;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using runner::GraphProfile;
using runner::GraphProfiler;
using runner::NodeMemory;
using runner::ProfiledNode;
using testing::TinyEngine;
using testing::TinyEngineOptions;

// Of kTinyQwen3Config.
constexpr uint64_t kHidden = 64;
constexpr uint64_t kIntermediate = 96;
constexpr uint64_t kHeads = 4;
constexpr uint64_t kKvHeads = 2;
constexpr uint64_t kHeadDim = 16;
constexpr int64_t kPositions = 256;
constexpr uint64_t kBf16 = 2;

const BatchDescriptor kFourDecodes{.num_tokens = 4, .num_reqs = 4, .uniform = true};

TinyEngineOptions options_of(CudagraphMode mode, CompilationMode level = CompilationMode::NONE) {
  TinyEngineOptions options{.mode = mode, .level = level};
  options.compilation.cudagraph_capture_sizes = std::vector<int32_t>{1, 2, 4, 8};
  options.keep_inventory = true;
  return options;
}

GraphProfile profile_of(TinyEngine& engine,
                        CudagraphRuntimeMode mode,
                        const BatchDescriptor& descriptor,
                        int32_t context_len = 32,
                        int32_t num_replays = 5) {
  GraphProfiler profiler(
      engine.runner(),
      {.num_replays = num_replays, .context_len = context_len, .num_positions = kPositions});
  return profiler.profile(mode, descriptor);
}

/// The memory with that name that a node uses; the first one if there are several.
const NodeMemory& memory_of(const ProfiledNode& node, std::string_view name) {
  static const NodeMemory kNone;
  for (const NodeMemory& memory : node.memory) {
    if (memory.name.find(name) != std::string::npos) return memory;
  }
  ADD_FAILURE() << node.kernel << " does not use " << name;
  return kNone;
}

const ProfiledNode& node_with(const GraphProfile& profile, std::string_view memory, bool writes) {
  static const ProfiledNode kNone;
  for (const ProfiledNode& node : profile.nodes) {
    for (const NodeMemory& used : node.memory) {
      if (used.name.find(memory) != std::string::npos && used.writes == writes) return node;
    }
  }
  ADD_FAILURE() << "no node uses " << memory;
  return kNone;
}

TEST(GraphProfile, has_the_bytes_that_follow_from_the_shapes) {
  TinyEngine engine(options_of(CudagraphMode::FULL_AND_PIECEWISE));
  (void)engine.runner().capture({});
  const GraphProfile profile = profile_of(engine, CudagraphRuntimeMode::FULL, kFourDecodes);
  EXPECT_EQ(profile.num_reqs, 4);
  EXPECT_EQ(profile.context_len, 32);
  constexpr uint64_t kStepTokens = 4;
  const uint64_t hidden_rows = kStepTokens * kHidden * kBf16;

  const ProfiledNode& embedding = node_with(profile, "embed_tokens", false);
  EXPECT_EQ(embedding.bytes_read(), hidden_rows + kStepTokens * sizeof(int32_t));
  EXPECT_EQ(embedding.bytes_written(), hidden_rows);
  EXPECT_EQ(embedding.layer, std::nullopt);

  const ProfiledNode& norm = node_with(profile, "layers.1.post_attention_layernorm", false);
  EXPECT_EQ(memory_of(norm, "layernorm").bytes, kHidden * kBf16);
  EXPECT_EQ(norm.layer, 1);

  const ProfiledNode& up = node_with(profile, "layers.0.mlp.gate_proj+up_proj", false);
  EXPECT_EQ(memory_of(up, "gate_proj").bytes, 2 * kIntermediate * kHidden * kBf16);
  EXPECT_EQ(up.bytes_read(), 2 * kIntermediate * kHidden * kBf16 + hidden_rows);
  EXPECT_EQ(up.bytes_written(), kStepTokens * 2 * kIntermediate * kBf16);
  EXPECT_EQ(up.layer, 0);

  // Each token writes one row of keys, and its attention reads its whole context.
  const uint64_t row = kKvHeads * kHeadDim * kBf16;
  const ProfiledNode& written = node_with(profile, "KV cache, keys of layer 1", true);
  EXPECT_EQ(memory_of(written, "KV cache, keys").bytes, kStepTokens * row);
  EXPECT_EQ(memory_of(written, "KV cache, values").bytes, kStepTokens * row);
  const ProfiledNode& attention = node_with(profile, "KV cache, keys of layer 1", false);
  EXPECT_EQ(memory_of(attention, "KV cache, keys").bytes, kStepTokens * (32 + 1) * row);
  EXPECT_EQ(memory_of(attention, "KV cache, values").bytes, kStepTokens * (32 + 1) * row);
  EXPECT_EQ(attention.bytes_written(), kStepTokens * kHeads * kHeadDim * kBf16);
  EXPECT_EQ(attention.layer, 1);

  // A row of the table is as long as a head, in float32.
  const ProfiledNode& rope = node_with(profile, "rope_table", false);
  EXPECT_EQ(memory_of(rope, "rope_table").bytes, kStepTokens * kHeadDim * sizeof(float));

  const ProfiledNode& last = node_with(profile, "lm_head", false);
  EXPECT_EQ(last.layer, std::nullopt);
  EXPECT_EQ(&last, &profile.nodes.back());
}

TEST(GraphProfile, lists_the_captured_nodes_in_every_mode_and_level) {
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    TinyEngineOptions options = options_of(CudagraphMode::FULL_AND_PIECEWISE, level);
    options.shadow = {.rate = 1};  // it notes the launches of captures, too
    TinyEngine engine(options);
    (void)engine.runner().capture({});
    for (const cudagraph::CaptureGroup& group : engine.runner().dispatcher().capture_plan()) {
      for (const BatchDescriptor& descriptor : group.descriptors) {
        SCOPED_TRACE(fmt::format("{} [{}]", to_string(group.mode), to_string(descriptor)));
        const GraphProfile profile = profile_of(engine, group.mode, descriptor, 16, 1);
        const std::span<const runner::StepLaunch> captured =
            engine.runner().shadow()->captured().of(group.mode, descriptor);
        size_t next = 0;
        size_t num_eager = 0;
        for (const ProfiledNode& node : profile.nodes) {
          ASSERT_TRUE(node.in_place && node.alone);
          EXPECT_GT(node.in_place->median, 0);
          if (!node.is_captured) {
            ++num_eager;
            continue;
          }
          ASSERT_LT(next, captured.size());
          EXPECT_EQ(node.kernel, captured[next].kernel->name);
          EXPECT_EQ(node.num_blocks, captured[next].num_blocks);
          EXPECT_EQ(node.memory.size(), captured[next].uses.size());
          for (const NodeMemory& memory : node.memory) EXPECT_NE(memory.name, "") << node.kernel;
          ++next;
        }
        EXPECT_EQ(next, captured.size());
        // Attention runs between the graphs: at least one launch for each of two layers.
        EXPECT_EQ(num_eager >= 2, group.mode == CudagraphRuntimeMode::PIECEWISE);
      }
    }
  }
}

TEST(GraphProfile, an_engine_is_as_right_after_it_as_before) {
  TinyEngine engine(options_of(CudagraphMode::FULL_AND_PIECEWISE));
  (void)engine.runner().capture({});
  engine.randomize_kv(3);
  const std::vector<std::byte> kv = engine.save_kv();
  const testing::TestBatch batch(testing::Mix::uniform_decode, 4, 16, 9);
  const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
  ASSERT_EQ(decision.mode, CudagraphRuntimeMode::FULL);
  const testing::Outcome before = testing::run(engine, batch, decision, decision.mode, kv);
  (void)profile_of(engine, CudagraphRuntimeMode::FULL, kFourDecodes);
  const testing::Outcome after = testing::run(engine, batch, decision, decision.mode, kv);
  testing::expect_same_bits(before, after, "replay after a profile");
}

/// Replaces a kernel by one that first sleeps, in eager launches and in replays.
struct SleepyKernel {
  static constexpr auto kSleep = std::chrono::milliseconds(3);
  static inline device::CpuKernelFunction native = nullptr;

  static void run(const void* args, device::BlockRange blocks) noexcept {
    std::this_thread::sleep_for(kSleep);
    native(args, blocks);
  }
  static void plant(kernels::KernelTable& table) {
    native = table.silu_and_mul.bf16.cpu;
    table.silu_and_mul.bf16.cpu = run;
  }
};

TEST(GraphProfile, a_slow_kernel_stands_out_in_its_place_and_alone) {
  TinyEngineOptions slow = options_of(CudagraphMode::FULL);
  slow.make_executor = testing::hostile_executor(SleepyKernel::plant);
  TinyEngine engine(slow);
  (void)engine.runner().capture({});
  const BatchDescriptor descriptor =
      engine.runner().dispatcher().keys(CudagraphRuntimeMode::FULL).at(0);
  const GraphProfile profile = profile_of(engine, CudagraphRuntimeMode::FULL, descriptor);
  const double least = std::chrono::duration<double, std::micro>(SleepyKernel::kSleep).count();
  size_t num_slow = 0;
  double sum = 0;
  for (const ProfiledNode& node : profile.nodes) {
    const bool is_slow = node.op == "silu_and_mul";
    num_slow += is_slow ? 1 : 0;
    sum += node.in_place->median;
    EXPECT_EQ(node.in_place->median >= least, is_slow) << node.kernel;
    EXPECT_EQ(node.alone->median >= least, is_slow) << node.kernel;
    EXPECT_LT(node.alone->median, 4 * least) << node.kernel;  // of one run, not of all
  }
  EXPECT_EQ(num_slow, 2U);  // one in each layer
  EXPECT_GE(profile.replay.median, 2 * least);
  // The times of nodes in their places are parts of a replay.
  EXPECT_GE(sum, 2 * least);
  EXPECT_LT(sum, 1.5 * profile.replay.high);

  TinyEngine healthy(options_of(CudagraphMode::FULL));
  (void)healthy.runner().capture({});
  const GraphProfile fast = profile_of(healthy, CudagraphRuntimeMode::FULL, descriptor);
  const runner::GraphDiff found = runner::diff(fast, profile);
  EXPECT_TRUE(found.has_same_nodes());
  EXPECT_EQ(found.replay, runner::TimeChange::slower);
  for (const runner::NodePair& pair : found.nodes) {
    if (profile.nodes[*pair.b].op != "silu_and_mul") continue;
    EXPECT_EQ(pair.time, runner::TimeChange::slower);
  }
}

TEST(GraphProfile, a_device_that_runs_graphs_as_a_whole_gives_nodes_without_times) {
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  TinyEngineOptions options = options_of(CudagraphMode::FULL);
  options.device = fake.get();
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  const BatchDescriptor descriptor =
      engine.runner().dispatcher().keys(CudagraphRuntimeMode::FULL).at(0);
  const GraphProfile profile = profile_of(engine, CudagraphRuntimeMode::FULL, descriptor);
  EXPECT_THAT(profile.why_no_node_times, ::testing::HasSubstr("as a whole"));
  EXPECT_GT(profile.nodes.size(), 10U);
  EXPECT_GT(profile.replay.median, 0);
  for (const ProfiledNode& node : profile.nodes) {
    EXPECT_FALSE(node.in_place || node.alone);
    EXPECT_GT(node.bytes_read(), 0U);
  }
}

TEST(GraphProfile, covers_recurrent_layers_and_experts) {
  for (const char* config : {testing::kTinyBambaConfig, testing::kTinyQwen3NextConfig}) {
    TinyEngineOptions options = options_of(CudagraphMode::FULL_AND_PIECEWISE);
    options.config = config;
    TinyEngine engine(options);
    (void)engine.runner().capture({});
    const GraphProfile profile = profile_of(engine, CudagraphRuntimeMode::FULL, kFourDecodes);
    // The states of four requests, of the tensor of one layer.
    const ProfiledNode& convolution = node_with(profile, "recurrent states", true);
    const kv_cache::StateCacheLayout& states = engine.runner().states().layout();
    EXPECT_EQ(memory_of(convolution, "recurrent states").bytes,
              4 * static_cast<uint64_t>(states.conv_inputs * states.conv_size) * sizeof(float));
    const bool has_experts = config == testing::kTinyQwen3NextConfig;
    EXPECT_EQ(std::ranges::any_of(profile.nodes, &ProfiledNode::is_at_most), has_experts);
  }
}

TEST(GraphProfile, a_key_that_leaves_requests_open_has_as_many_as_asked) {
  TinyEngine engine(options_of(CudagraphMode::FULL_AND_PIECEWISE));
  (void)engine.runner().capture({});
  const BatchDescriptor eight{.num_tokens = 8};
  for (const auto& [asked, given] : {std::pair(1, 1), std::pair(3, 3), std::pair(9, 8)}) {
    GraphProfiler profiler(
        engine.runner(),
        {.num_replays = 1, .context_len = 16, .num_reqs = asked, .num_positions = kPositions});
    const GraphProfile profile = profiler.profile(CudagraphRuntimeMode::PIECEWISE, eight);
    EXPECT_EQ(profile.num_reqs, given);
    const ProfiledNode& attention = node_with(profile, "KV cache, keys of layer 0", false);
    EXPECT_EQ(memory_of(attention, "KV cache, keys").bytes,
              (8 + static_cast<uint64_t>(given) * 16) * kKvHeads * kHeadDim * kBf16);
  }
}

TEST(GraphProfile, refuses_a_context_that_does_not_fit_and_shortens_one_that_was_not_asked_for) {
  TinyEngineOptions options = options_of(CudagraphMode::FULL);
  options.num_blocks = 8;
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  const BatchDescriptor four = {.num_tokens = 4, .num_reqs = 4};
  EXPECT_THROW((void)profile_of(engine, CudagraphRuntimeMode::FULL, four, 16), InvalidArgument);
  GraphProfiler profiler(engine.runner(), {.num_replays = 1, .num_positions = kPositions});
  // Four of seven blocks, one for each request.
  EXPECT_EQ(profiler.profile(CudagraphRuntimeMode::FULL, four).context_len, 8);
}

TEST(PaddingWaste, counts_the_batches_that_a_key_serves) {
  TinyEngine engine(options_of(CudagraphMode::FULL_AND_PIECEWISE));
  (void)engine.runner().capture({});
  const cudagraph::CudagraphDispatcher& dispatcher = engine.runner().dispatcher();
  // 5, 6, 7 and 8 tokens: 3, 2, 1 and 0 of 8 rows are padding.
  for (const auto& [mode, descriptor] :
       {std::pair(CudagraphRuntimeMode::FULL,
                  BatchDescriptor{.num_tokens = 8, .num_reqs = 8, .uniform = true}),
        std::pair(CudagraphRuntimeMode::PIECEWISE, BatchDescriptor{.num_tokens = 8})}) {
    EXPECT_EQ(runner::padding_of(dispatcher, mode, descriptor),
              (runner::PaddingWaste{.fewest_tokens = 5,
                                    .most_tokens = 8,
                                    .mean_share = 6.0 / 8 / 4,
                                    .largest_share = 3.0 / 8}));
  }
  EXPECT_EQ(runner::padding_of(dispatcher,
                               CudagraphRuntimeMode::FULL,
                               {.num_tokens = 1, .num_reqs = 1, .uniform = true}),
            (runner::PaddingWaste{.fewest_tokens = 1, .most_tokens = 1}));
  EXPECT_EQ(
      runner::padding_of(dispatcher, CudagraphRuntimeMode::FULL, {.num_tokens = 3, .num_reqs = 3}),
      runner::PaddingWaste{});
}

}  // namespace
}  // namespace reprise
