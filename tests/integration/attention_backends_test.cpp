#include "reprise/attention/attention_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/step_outcome.h"

// Every attention backend in every mode and level: replay equals eager, the mode is the one that
// the backend supports, and the logits equal those of the unified backend. The tests also detect a
// plan that belongs to another batch.
namespace reprise {
namespace {

using attention::AttentionBackend;
using attention::BackendInfo;
using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::kMixes;
using testing::Mix;
using testing::Outcome;
using testing::relative_distance;
using testing::TestBatch;
using testing::TinyEngine;

struct Backend {
  const char* name;
  int version;
};
constexpr std::array kBackends = {Backend{"FLASH_ATTN", 2},
                                  Backend{"TRITON_ATTN", 0},
                                  Backend{"FLASHINFER", 0},
                                  Backend{"FLASHMLA", 0},
                                  Backend{"FLASHINFER_MLA", 0},
                                  Backend{"CUTLASS_MLA", 0},
                                  Backend{"ROCM_AITER_MLA", 0},
                                  Backend{"TRITON_MLA", 0},
                                  Backend{"MAMBA1_ATTN", 0},
                                  Backend{"MAMBA2_ATTN", 0},
                                  Backend{"GDN_ATTN", 0},
                                  Backend{"SHORT_CONV_ATTN", 0},
                                  Backend{"REFERENCE", 0}};

const BackendInfo& info(const Backend& backend) {
  return attention::find_attention_backend(backend.name, backend.version);
}

// A model whose layers are of the kind that the backend serves.
std::string config_for(const Backend& backend) {
  switch (info(backend).kind) {
    case attention::AttentionKind::latent:
      return testing::kTinyDeepseekConfig;
    case attention::AttentionKind::mamba1:
      return testing::kTinyMambaConfig;
    case attention::AttentionKind::mamba2:
      return testing::kTinyMamba2Config;
    case attention::AttentionKind::gated_delta_net:
      return testing::kTinyQwen3NextConfig;
    case attention::AttentionKind::short_conv:
      return testing::kTinyLfm2Config;
    case attention::AttentionKind::key_value:
      break;
  }
  return testing::kTinyQwen3Config;
}

// An engine whose layers of the backend's kind use it; a hybrid's attention stays as "auto".
testing::TinyEngineOptions options_for(const BackendInfo& backend,
                                       const std::string& config,
                                       CudagraphMode mode) {
  const bool is_of_hybrid = backend.kind == attention::AttentionKind::gated_delta_net ||
                            backend.kind == attention::AttentionKind::short_conv;
  return {.mode = mode,
          .attention = is_of_hybrid ? nullptr : &backend,
          .recurrent = is_of_hybrid ? &backend : nullptr,
          .config = config};
}

class AttentionBackends
    : public ::testing::TestWithParam<std::tuple<Backend, CudagraphMode, CompilationMode>> {};

std::string cell_name(const ::testing::TestParamInfo<AttentionBackends::ParamType>& instance) {
  const auto& [backend, mode, level] = instance.param;
  return fmt::format(
      "{}_{}_{}_{}", backend.name, backend.version, to_string(mode), to_string(level));
}

TEST_P(AttentionBackends, replay_what_they_compute_eagerly_and_compute_what_the_unified_one_does) {
  const auto& [backend, mode, level] = GetParam();
  testing::TinyEngineOptions options = options_for(info(backend), config_for(backend), mode);
  options.level = level;
  if (info(backend).support == cudagraph::AttentionCGSupport::NEVER &&
      mode == CudagraphMode::FULL) {
    EXPECT_THROW(TinyEngine{options}, InvalidArgument);
    return;
  }
  TinyEngine engine(options);
  // The unified backend computes any kind of layers.
  TinyEngine unified({.mode = CudagraphMode::NONE,
                      .level = level,
                      .attention = &info({"UNIFIED", 0}),
                      .config = config_for(backend)});
  for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  engine.randomize_kv(11);
  const std::vector<std::byte> kv_before = engine.save_kv();
  uint32_t seed = 100;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : {1, 2, 3, 8, 9, 16, 17, 32, 64}) {
      if (mix == Mix::uniform_decode && num_tokens > 16) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const std::string what = describe(mix, num_tokens, decision);
      const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(eager, replay, what);
      const cudagraph::Decision unpadded{.descriptor = {.num_tokens = num_tokens}};
      const Outcome bare = run(engine, batch, unpadded, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(bare, replay, what + " against the unpadded batch");
      const Outcome want = run(unified, batch, unpadded, CudagraphRuntimeMode::NONE, kv_before);
      if (info(backend).support == cudagraph::AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE &&
          !attention::is_recurrent(info(backend).kind)) {
        // These backends plan their work. Contexts in parts are summed in another order, so single
        // last bits of a bfloat16 may differ.
        EXPECT_LT(relative_distance(replay.logits, want.logits), 1e-2) << what;
      } else {
        expect_same_bits(want, replay, what + " against the unified backend");
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(modes_and_levels,
                         AttentionBackends,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::ValuesIn(testing::kModes),
                                            ::testing::ValuesIn(testing::kLevels)),
                         cell_name);

// Mode FULL_AND_FULL, with backends that have two sets of FULL graphs and with others.
INSTANTIATE_TEST_SUITE_P(two_sets_of_full_graphs,
                         AttentionBackends,
                         ::testing::Combine(::testing::Values(Backend{"FLASH_ATTN", 2},
                                                              Backend{"TRITON_ATTN", 0},
                                                              Backend{"UNIFIED", 0},
                                                              Backend{"FLASHINFER", 0}),
                                            ::testing::Values(CudagraphMode::FULL_AND_FULL),
                                            ::testing::ValuesIn(testing::kLevels)),
                         cell_name);

TEST(AttentionBackends,
     with_two_sets_of_full_graphs_replay_decode_and_mixed_batches_from_their_own) {
  using enum CudagraphRuntimeMode;
  for (const Backend& backend : {Backend{"FLASH_ATTN", 2}, Backend{"TRITON_ATTN", 0}}) {
    TinyEngine engine({.mode = CudagraphMode::FULL_AND_FULL, .attention = &info(backend)});
    ASSERT_EQ(engine.resolved().mode, CudagraphMode::FULL_AND_FULL) << backend.name;
    size_t num_uniform = 0;
    size_t num_mixed = 0;
    for (const auto& record : engine.runner().capture({}).records) {
      EXPECT_EQ(record.failure, "");
      ++(record.descriptor.uniform ? num_uniform : num_mixed);
    }
    EXPECT_EQ(num_uniform, engine.resolved().capture_sizes.decode.size());
    EXPECT_EQ(num_mixed, engine.resolved().capture_sizes.mixed.size());
    const auto decision_of = [&](Mix mix) {
      return engine.runner().dispatcher().dispatch(TestBatch(mix, 8, 16, 1).facts());
    };
    const cudagraph::Decision decode = decision_of(Mix::uniform_decode);
    const cudagraph::Decision mixed = decision_of(Mix::mixed);
    EXPECT_EQ(std::pair(decode.mode, decode.descriptor.uniform), std::pair(FULL, true));
    EXPECT_EQ(std::pair(mixed.mode, mixed.descriptor.uniform), std::pair(FULL, false));
  }
}

TEST(AttentionBackends, get_the_graphs_that_they_support) {
  const auto captured = [](const Backend& backend, CudagraphMode asked) {
    TinyEngine engine(options_for(info(backend), config_for(backend), asked));
    (void)engine.runner().capture({});
    const auto mode_of = [&](Mix mix) {
      return engine.runner().dispatcher().dispatch(TestBatch(mix, 8, 16, 1).facts()).mode;
    };
    return std::tuple{engine.resolved().mode, mode_of(Mix::uniform_decode), mode_of(Mix::mixed)};
  };
  using enum CudagraphRuntimeMode;
  EXPECT_EQ(captured({"FLASH_ATTN", 3}, CudagraphMode::FULL),
            std::tuple(CudagraphMode::FULL, FULL, FULL));
  EXPECT_EQ(captured({"TRITON_ATTN", 0}, CudagraphMode::FULL),
            std::tuple(CudagraphMode::FULL, FULL, FULL));
  for (const Backend& backend : {Backend{"FLASH_ATTN", 2},
                                 Backend{"FLASHINFER", 0},
                                 Backend{"FLASHMLA", 0},
                                 Backend{"TRITON_MLA", 0},
                                 Backend{"MAMBA1_ATTN", 0},
                                 Backend{"MAMBA2_ATTN", 0},
                                 Backend{"GDN_ATTN", 0},
                                 Backend{"SHORT_CONV_ATTN", 0}}) {
    EXPECT_EQ(captured(backend, CudagraphMode::FULL),
              std::tuple(CudagraphMode::FULL_AND_PIECEWISE, FULL, PIECEWISE));
  }
  EXPECT_EQ(captured({"REFERENCE", 0}, CudagraphMode::FULL_AND_PIECEWISE),
            std::tuple(CudagraphMode::PIECEWISE, PIECEWISE, PIECEWISE));
}

// The mode of a hybrid model is that of its weakest layers, which the resolution names.
TEST(AttentionBackends, of_the_weakest_layers_decide_the_mode_of_a_hybrid) {
  TinyEngine hybrid({.mode = CudagraphMode::FULL, .config = testing::kTinyBambaConfig});
  EXPECT_EQ(hybrid.resolved().mode, CudagraphMode::FULL_AND_PIECEWISE);
  EXPECT_EQ(hybrid.resolved().weakest_attention.backend, "MAMBA2_ATTN");
  EXPECT_EQ(hybrid.resolved().weakest_attention.layers, "0, 2");
  ASSERT_EQ(hybrid.resolved().attention.size(), 2U);
  EXPECT_EQ(hybrid.resolved().attention[0].layers, "1");
  TinyEngine reference({.mode = CudagraphMode::FULL_AND_PIECEWISE,
                        .attention = &info({"REFERENCE", 0}),
                        .config = testing::kTinyBambaConfig});
  EXPECT_EQ(reference.resolved().mode, CudagraphMode::PIECEWISE);
  EXPECT_EQ(reference.resolved().weakest_attention.backend, "REFERENCE");
}

// Checks each backend's declared support: its FULL graphs are captured, and with a declaration that
// is one level higher, the backend refuses the additional graphs.
TEST(AttentionBackends, refuse_the_graphs_of_a_declaration_that_is_one_level_too_high) {
  for (const Backend& backend : {Backend{"FLASHMLA", 0}, Backend{"FLASHINFER_MLA", 0}}) {
    BackendInfo raised = info(backend);
    raised.support = cudagraph::AttentionCGSupport::ALWAYS;
    TinyEngine engine({.mode = CudagraphMode::FULL,
                       .attention = &raised,
                       .config = testing::kTinyDeepseekConfig});
    try {
      (void)engine.runner().capture({});
      ADD_FAILURE() << backend.name << " captured graphs of mixed batches";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("UNIFORM_BATCH"));
    }
  }
}

// With declarations one level higher, the backends of recurrent layers would get graphs of mixed
// batches, and the reference backend graphs of single tokens.
TEST(AttentionBackends, of_recurrent_layers_refuse_a_declaration_that_is_one_level_too_high) {
  using enum cudagraph::AttentionCGSupport;
  for (const Backend& backend : {Backend{"MAMBA1_ATTN", 0},
                                 Backend{"MAMBA2_ATTN", 0},
                                 Backend{"GDN_ATTN", 0},
                                 Backend{"SHORT_CONV_ATTN", 0},
                                 Backend{"REFERENCE", 0}}) {
    BackendInfo raised = info(backend);
    const bool is_reference = raised.support == NEVER;
    raised.support = is_reference ? UNIFORM_SINGLE_TOKEN_DECODE : ALWAYS;
    TinyEngine engine(
        options_for(raised,
                    config_for(backend),
                    is_reference ? CudagraphMode::FULL_DECODE_ONLY : CudagraphMode::FULL));
    try {
      (void)engine.runner().capture({});
      ADD_FAILURE() << backend.name << " captured graphs that it cannot hold";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(is_reference ? "NEVER" : "UNIFORM_BATCH"));
    }
  }
}

TEST(AttentionBackends, of_latent_attention_cache_one_row_for_each_position) {
  TinyEngine engine({.mode = CudagraphMode::NONE, .config = testing::kTinyDeepseekConfig});
  const kv_cache::KvCacheLayout& layout = engine.runner().kv_cache().layout();
  constexpr size_t kRow = 32 + 8;  // the latent and the rotated key
  EXPECT_EQ(layout.bytes_per_block(), 2 * size_t{TinyEngine::kBlockSize} * kRow * sizeof(uint16_t));
  EXPECT_EQ(engine.kv_bytes().size(),
            static_cast<size_t>(layout.num_blocks) * layout.bytes_per_block());
  EXPECT_EQ(engine.runner().kv_cache().tensors().size(), 2U);
}

TEST(AttentionBackends, split_contexts_far_from_those_at_capture_in_float32_within_a_bound) {
  TinyEngine planned({.mode = CudagraphMode::FULL_DECODE_ONLY,
                      .dtype = DType::f32,
                      .attention = &info({"FLASHINFER", 0})});
  TinyEngine unified({.mode = CudagraphMode::NONE, .dtype = DType::f32});
  (void)planned.runner().capture({});
  planned.randomize_kv(14);
  const std::vector<std::byte> kv_before = planned.save_kv();
  bool had_other_bits = false;
  for (int32_t context : {0, 1, 31, 32, 33, 100, 254}) {
    const std::vector<int32_t> tokens = {42};
    std::vector<kv_cache::BlockId> blocks;
    for (int32_t b = 0; b * TinyEngine::kBlockSize <= context; ++b)
      blocks.push_back(kv_cache::BlockId{b + 1});
    const scheduler::StepEntry row{
        .token_ids = tokens, .num_computed_tokens = context, .block_ids = blocks, .samples = true};
    const cudagraph::Decision decision =
        planned.runner().dispatcher().dispatch({.num_tokens = 1, .num_reqs = 1, .uniform = true});
    ASSERT_EQ(decision.mode, CudagraphRuntimeMode::FULL);
    const auto logits = [&](TinyEngine& engine, CudagraphRuntimeMode mode) {
      engine.restore_kv(kv_before);
      return engine.logits(engine.runner().run({&row, 1}, decision, mode));
    };
    const std::vector<float> replay = logits(planned, CudagraphRuntimeMode::FULL);
    EXPECT_EQ(replay, logits(planned, CudagraphRuntimeMode::NONE)) << context;
    const std::vector<float> want = logits(unified, CudagraphRuntimeMode::NONE);
    EXPECT_LT(relative_distance(replay, want), 2e-6) << context;
    had_other_bits |= replay != want;
    if (context < 32) {
      EXPECT_EQ(replay, want) << "one part is no parts";
    }
  }
  EXPECT_TRUE(had_other_bits) << "no context was split";
}

/// The planned backend with a mistake that a test can enable.
enum class Mistake : uint8_t { none, another_size, not_written };
Mistake mistake = Mistake::none;

class MistakenBackend final : public AttentionBackend {
 public:
  explicit MistakenBackend(const attention::BackendResources& resources)
      : planned_(attention::create_planned_backend(resources)) {}

  AttentionPath prepare_step(const attention::AttentionMetadata& metadata,
                             const cudagraph::BatchDescriptor& descriptor,
                             device::Stream& stream) override {
    if (mistake == Mistake::not_written && descriptor == last_descriptor_) return last_;
    cudagraph::BatchDescriptor taken_for = descriptor;
    if (mistake == Mistake::another_size && descriptor.num_reqs) {
      taken_for.num_tokens *= 2;
      *taken_for.num_reqs *= 2;
    }
    last_descriptor_ = descriptor;
    return last_ = planned_->prepare_step(metadata, taken_for, stream);
  }

 private:
  std::unique_ptr<AttentionBackend> planned_;
  cudagraph::BatchDescriptor last_descriptor_;
  AttentionPath last_;
};

class WrongPlan : public ::testing::Test {
 protected:
  WrongPlan() {
    (void)engine_.runner().capture({});
    engine_.randomize_kv(3);
  }
  ~WrongPlan() override { mistake = Mistake::none; }

  BackendInfo backend_{
      .name = "FLASHINFER",
      .support = cudagraph::AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE,
      .create =
          [](const attention::BackendResources& resources) -> std::unique_ptr<AttentionBackend> {
        return std::make_unique<MistakenBackend>(resources);
      }};
  TinyEngine engine_{{.mode = CudagraphMode::FULL_DECODE_ONLY, .attention = &backend_}};
};

TEST_F(WrongPlan, for_another_batch_size_is_refused_and_the_step_runs_without_its_graph) {
  const TestBatch batch(Mix::uniform_decode, 4, 16, 7);
  const std::vector<std::byte> kv = engine_.save_kv();
  const auto step = [&] {
    engine_.restore_kv(kv);
    const runner::StepResult& result = engine_.runner().execute(batch.requests(), batch.facts());
    return std::pair{result.decision.mode, engine_.logits(result)};
  };
  const auto [mode, want] = step();
  EXPECT_EQ(mode, CudagraphRuntimeMode::FULL);
  mistake = Mistake::another_size;
  const auto [mode_after, got] = step();
  EXPECT_EQ(mode_after, CudagraphRuntimeMode::NONE);
  EXPECT_EQ(got, want);
  ASSERT_EQ(engine_.runner().retired_graphs().size(), 1U);
  EXPECT_EQ(engine_.runner().retired_graphs()[0].descriptor.num_tokens, 4);
}

TEST_F(WrongPlan, of_the_step_before_gives_no_logits_to_requests_that_took_other_places) {
  // Simulates the batch after a preemption: the same number of requests with other lengths.
  const TestBatch before(Mix::uniform_decode, 4, 16, 7);
  const TestBatch after(Mix::uniform_decode, 4, 16, 8);
  (void)engine_.runner().execute(before.requests(), before.facts());
  mistake = Mistake::not_written;
  const runner::StepResult& stale = engine_.runner().execute(after.requests(), after.facts());
  ASSERT_EQ(stale.decision.mode, CudagraphRuntimeMode::FULL);
  for (int32_t row = 0; row < stale.num_logits; ++row) {
    const auto r = static_cast<size_t>(row);
    const bool is_other =
        before.requests()[r].num_computed_tokens != after.requests()[r].num_computed_tokens;
    EXPECT_EQ(std::isnan(engine_.runner().logits_row(stale, row)[0]), is_other) << row;
  }
  mistake = Mistake::none;
  for (float logit : engine_.logits(engine_.runner().execute(after.requests(), after.facts()))) {
    EXPECT_TRUE(std::isfinite(logit));
  }
}

}  // namespace
}  // namespace reprise
