#include <gtest/gtest.h>

#include <array>

#include "reprise/engine/engine_core.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/row_sampler.h"
#include "reprise/runner/memory_report.h"
#include "tests/integration/cuda_engine_machine.h"
#include "tests/integration/knowing_drafter.h"
#include "tests/integration/step_outcome.h"

// Whole engines on CUDA. The fake driver is some thousand times slower than a GPU, so with it fewer
// cases run.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::CudaEngineMachine;
using testing::describe;
using testing::expect_same_bits;
using testing::kHead64Config;
using testing::kLevels;
using testing::kMixes;
using testing::kModes;
using testing::Mix;
using testing::Outcome;
using testing::relative_distance;
using testing::run;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

// Heads without norms, so that rope and the cache write are part of the matrix product.
constexpr const char* kLlamaConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";

class CudaReplay : public ::testing::TestWithParam<std::tuple<CudagraphMode, CompilationMode>> {};

TEST_P(CudaReplay, equals_eager_bit_for_bit_for_every_mix_and_size) {
  CudaEngineMachine machine;
  const auto [mode, level] = GetParam();
  TinyEngineOptions options = machine.options({.mode = mode, .level = level});
  if (!machine.is_real()) {
    options.max_num_tokens = 16;
    options.max_num_reqs = 4;
  }
  TinyEngine engine(options);
  // Level 1 runs the trace unchanged.
  const bool has_generated =
      level != CompilationMode::NONE && level != CompilationMode::STOCK_TORCH_COMPILE;
  EXPECT_EQ(engine.compilation().counter.num_generated_kernels > 0, has_generated);
  const cudagraph::CaptureReport report = engine.runner().capture({});
  for (const auto& record : report.records) EXPECT_EQ(record.failure, "");
  engine.randomize_kv(11);
  const std::vector<std::byte> kv_before = engine.save_kv();
  const std::vector<int32_t> counts =
      machine.is_real()
          ? std::vector<int32_t>{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64}
          : std::vector<int32_t>{1, 3, 9};
  uint32_t seed = 100;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : counts) {
      if (mix == Mix::uniform_decode && num_tokens > options.max_num_reqs) continue;
      const TestBatch batch(mix, num_tokens, options.max_num_reqs, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(eager, replay, describe(mix, num_tokens, decision));
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(engine.execution().executor().num_launches(OpCode::row_group) > 0, has_generated);
}

INSTANTIATE_TEST_SUITE_P(AllModesAndLevels,
                         CudaReplay,
                         ::testing::Combine(::testing::ValuesIn(kModes),
                                            ::testing::ValuesIn(kLevels)),
                         [](const auto& instance) {
                           return fmt::format("{}_level_{}",
                                              to_string(std::get<0>(instance.param)),
                                              static_cast<int>(std::get<1>(instance.param)));
                         });

TEST(CudaEngine, computes_what_the_cpu_computes) {
  for (const char* config : {testing::kTinyQwen3Config, kHead64Config, kLlamaConfig}) {
    for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        CudaEngineMachine machine;
        const TinyEngineOptions cpu_options{.mode = CudagraphMode::NONE,
                                            .level = level,
                                            .max_num_tokens = 16,
                                            .max_num_reqs = 4,
                                            .dtype = dtype,
                                            .config = config};
        TinyEngine cpu(cpu_options);
        TinyEngine cuda(machine.options(cpu_options));
        cpu.randomize_kv(3);
        const std::vector<std::byte> kv = cpu.save_kv();
        for (Mix mix : kMixes) {
          const TestBatch batch(mix, mix == Mix::uniform_decode ? 4 : 11, 4, 5);
          const cudagraph::Decision eager{.descriptor = {.num_tokens = batch.facts().num_tokens}};
          const Outcome want = run(cpu, batch, eager, CudagraphRuntimeMode::NONE, kv);
          const Outcome got = run(cuda, batch, eager, CudagraphRuntimeMode::NONE, kv);
          ASSERT_EQ(want.logits.size(), got.logits.size());
          // With another order of sums, bf16 rounds at other places.
          EXPECT_LT(relative_distance(got.logits, want.logits), dtype == DType::f32 ? 1e-5 : 2e-2)
              << to_string(mix);
        }
      }
    }
  }
}

TEST(CudaEngine, launches_five_kernels_a_layer_for_few_rows_with_the_bits_of_level_0) {
  constexpr uint64_t kLayers = 3;
  CudaEngineMachine machine;
  // Kernels that start early must not cause an error of the driver either.
  dynamic_cast<device::cuda::CudaDevice&>(machine.device()).set_programmatic_launch(true);
  TinyEngineOptions options =
      machine.options({.mode = CudagraphMode::FULL, .config = kLlamaConfig});
  options.max_num_tokens = 16;
  options.max_num_reqs = 12;
  options.level = CompilationMode::NONE;
  std::vector<Outcome> wanted;
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    options.level = level;
    TinyEngine engine(options);
    engine.randomize_kv(3);
    const std::vector<std::byte> kv = engine.save_kv();
    for (const int32_t requests : {1, 8, 9}) {
      const TestBatch batch(Mix::uniform_decode, requests, 12, 5);
      const cudagraph::Decision eager{.descriptor = {.num_tokens = requests}};
      Outcome outcome = run(engine, batch, eager, CudagraphRuntimeMode::NONE, kv);
      if (level == CompilationMode::NONE) {
        wanted.push_back(std::move(outcome));
        continue;
      }
      expect_same_bits(wanted[requests == 1 ? 0 : (requests == 8 ? 1 : 2)],
                       outcome,
                       fmt::format("{} requests", requests));
      // The 3 launches are embedding, the gather of rows, and the head. For more rows norms are
      // separate launches; generated code joins the first norm with the embedding and the last norm
      // with the gather.
      const uint64_t expected = requests <= 8 ? kLayers * 5 + 3 : kLayers * 7 + 2;
      EXPECT_EQ(engine.runner().last_launches().total(), expected) << requests;
    }
    if (level == CompilationMode::NONE) continue;
    (void)engine.runner().capture({});
    for (const int32_t requests : {1, 6}) {
      const TestBatch batch(Mix::uniform_decode, requests, 12, 9);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      ASSERT_EQ(decision.mode, CudagraphRuntimeMode::FULL);
      expect_same_bits(run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv),
                       run(engine, batch, decision, decision.mode, kv),
                       fmt::format("replay of {} requests", requests));
    }
    if (!machine.is_real()) {
      EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
    }
  }
}

TEST(CudaEngine, products_of_many_rows_are_the_librarys_in_every_mode) {
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    for (const CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::PIECEWISE}) {
      CudaEngineMachine machine;
      if (machine.is_real()) GTEST_SKIP() << "CudaReplay has such sizes where they are quick";
      TinyEngineOptions options = machine.options({.mode = mode, .level = level});
      options.compilation.cudagraph_capture_sizes = {40};
      options.max_num_tokens = 40;
      options.max_num_reqs = 36;
      TinyEngine engine(options);
      const cudagraph::CaptureReport report = engine.runner().capture({});
      ASSERT_EQ(report.num_captured(), 1U);
      engine.randomize_kv(11);
      const std::vector<std::byte> kv = engine.save_kv();
      // A padded batch with few real rows must also give the right tokens.
      for (const int32_t num_tokens : {40, 37, 12}) {
        const TestBatch batch(Mix::mixed, num_tokens, options.max_num_reqs, 3);
        const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
        ASSERT_NE(decision.mode, CudagraphRuntimeMode::NONE);
        const uint64_t before = machine.fake().cublas_lt().num_products();
        const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
        EXPECT_EQ(machine.fake().cublas_lt().num_products() - before, 2 * 4U + 1U)
            << "four products a layer, and the head's";
        expect_same_bits(
            eager, run(engine, batch, decision, decision.mode, kv), std::string(to_string(mode)));
      }
      EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
    }
  }
}

/// Generates tokens for a few requests of all kinds.
struct GenerateOptions {
  kernels::RowSampler* row_sampler = nullptr;
  speculative::Drafter* drafter = nullptr;
  bool async_scheduling = false;
  bool all_on_device = false;  // only requests whose tokens the device can sample
};

struct Generated {
  std::vector<std::vector<int32_t>> tokens;
  engine::EngineCoreCounters counters;
};

/// `all_on_device`: only those whose tokens the device can sample, and more than fit at once.
std::vector<sampling::SamplingParams> requests_of_all_kinds(bool all_on_device) {
  std::vector<sampling::SamplingParams> requests = {
      {.temperature = 0, .max_tokens = 7},
      {.temperature = 0.8F, .top_p = 0.9F, .top_k = 40, .max_tokens = 4},
      {.seed = 3,
       .max_tokens = 4,
       .min_tokens = 2,
       .stop_token_ids = {5},
       .logit_bias = {{7, 3.0F}}},
      {.seed = 4, .repetition_penalty = 1.2F, .max_tokens = 4},
      {.temperature = 0, .max_tokens = 4, .logprobs = 2, .prompt_logprobs = 1},
      // The device would change the logits.
      {.temperature = 0, .max_tokens = 4, .logprobs = 2, .logit_bias = {{7, 3.0F}}},
  };
  if (all_on_device) {
    requests.resize(4);
    requests.push_back({.temperature = 0, .presence_penalty = 2.0F, .max_tokens = 9});
    requests.push_back({.temperature = 0,
                        .repetition_penalty = 1.1F,
                        .frequency_penalty = 1.5F,
                        .max_tokens = 14});
    // More requests than fit at once, with prompts of several chunks and answers of several
    // lengths.
    for (int i = 0; i < 6; ++i) {
      requests.push_back({.temperature = 0.9F,
                          .seed = static_cast<uint64_t>(i) + 1,
                          .max_tokens = 3 + 2 * i,
                          .stop_token_ids = {i, 2 * i + 11}});
    }
  }
  return requests;
}

Generated generate(TinyEngine& engine, const GenerateOptions& options) {
  const bool has_drafts = options.drafter != nullptr;
  engine::EngineCore core(
      engine.runner(),
      {.scheduler = {.max_num_seqs = 4,
                     .max_num_batched_tokens = 16,
                     .max_model_len = 64,
                     .decode_query_len =
                         has_drafts ? engine.resolved().uniform_decode_query_len : 1,
                     .pad_drafts = has_drafts,
                     .async_scheduling = options.async_scheduling,
                     .vocab_size = static_cast<int>(engine.config().vocab_size)},
       .seed = 5,
       .row_sampler = options.row_sampler,
       .drafter = options.drafter});
  const std::vector<sampling::SamplingParams> requests =
      requests_of_all_kinds(options.all_on_device);
  std::vector<std::vector<int32_t>> tokens(requests.size());
  uint64_t first_id = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<int32_t> prompt = {1, 2, static_cast<int32_t>(i) + 3};
    if (i > 5) prompt.resize(23, static_cast<int32_t>(i));
    const auto id = core.add_request(std::move(prompt), requests[i]);
    if (i == 0) first_id = static_cast<uint64_t>(id);
  }
  while (core.has_unfinished_requests()) {
    for (const engine::EngineCore::Update& update : core.step()) {
      EXPECT_EQ(update.request->error(), "");
      if (!update.new_token_id) continue;
      tokens.at(static_cast<uint64_t>(update.request->id()) - first_id)
          .push_back(*update.new_token_id);
    }
  }
  return {.tokens = std::move(tokens), .counters = core.counters()};
}

TEST(CudaEngine, tokens_are_the_same_whether_the_host_or_the_device_samples) {
  CudaEngineMachine machine;
  TinyEngineOptions options =
      machine.options({.mode = CudagraphMode::FULL, .level = CompilationMode::NONE});
  options.max_num_tokens = 16;
  options.max_num_reqs = 4;
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  kernels::cuda::CudaRowSampler sampler(
      engine.execution().stream(), 4, engine.config().vocab_size, 4);
  const Generated host = generate(engine, {});
  EXPECT_EQ(host.counters.tokens_sampled_on_device, 0U);
  const Generated device = generate(engine, {.row_sampler = &sampler});
  EXPECT_EQ(device.tokens, host.tokens);
  EXPECT_GT(device.counters.tokens_sampled_on_device, 18U) << "of all requests but the last one";
  EXPECT_LE(device.counters.tokens_sampled_on_device, 23U);
}

// The host's copy of an unknown token is another token, so equal answers prove that the device
// wrote it.
TEST(CudaEngine, async_scheduling_launches_a_step_before_the_host_knows_its_tokens) {
  for (const CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::NONE}) {
    CudaEngineMachine machine;
    TinyEngineOptions options = machine.options({.mode = mode, .level = CompilationMode::NONE});
    options.max_num_tokens = 16;
    options.max_num_reqs = 4;
    TinyEngine engine(options);
    (void)engine.runner().capture({});
    kernels::cuda::CudaRowSampler sampler(
        engine.execution().stream(), 4, engine.config().vocab_size, 4);
    const Generated plain = generate(engine, {.all_on_device = true});
    const Generated ahead = generate(
        engine, {.row_sampler = &sampler, .async_scheduling = true, .all_on_device = true});
    EXPECT_EQ(ahead.tokens, plain.tokens);
    EXPECT_EQ(ahead.counters.steps_launched_ahead + 1, ahead.counters.num_steps)
        << "only the first step has none ahead";

    // If the host chooses a token, the next step waits for it.
    const Generated mixed = generate(engine, {});
    const Generated mixed_ahead =
        generate(engine, {.row_sampler = &sampler, .async_scheduling = true});
    EXPECT_EQ(mixed_ahead.tokens, mixed.tokens);
    EXPECT_GT(mixed_ahead.counters.steps_launched_ahead, 0U);
    EXPECT_LT(mixed_ahead.counters.steps_launched_ahead, mixed_ahead.counters.num_steps - 1);
    if (!machine.is_real()) {
      EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
    }
  }
}

TEST(CudaEngine, replays_are_compared_with_eager_runs_while_steps_are_launched_ahead) {
  for (const CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::PIECEWISE}) {
    std::vector<std::vector<int32_t>> plain;
    for (const double rate : {0.0, 1.0}) {
      CudaEngineMachine machine;
      TinyEngineOptions options = machine.options({.mode = mode, .level = CompilationMode::NONE});
      options.max_num_tokens = 16;
      options.max_num_reqs = 4;
      options.shadow.rate = rate;
      TinyEngine engine(options);
      (void)engine.runner().capture({});
      kernels::cuda::CudaRowSampler sampler(
          engine.execution().stream(), 4, engine.config().vocab_size, 4);
      const Generated ahead = generate(
          engine, {.row_sampler = &sampler, .async_scheduling = true, .all_on_device = true});
      EXPECT_GT(ahead.counters.steps_launched_ahead, 0U);
      if (rate == 0) {
        plain = ahead.tokens;
        continue;
      }
      EXPECT_EQ(ahead.tokens, plain);
      EXPECT_GT(engine.runner().shadow()->num_checks(), 10U);
      EXPECT_EQ(engine.runner().shadow()->num_differences(), 0U);
      if (!machine.is_real()) {
        EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
      }
    }
  }
}

TEST(CudaEngine, drafts_give_the_tokens_without_drafts_wherever_rows_are_sampled) {
  CudaEngineMachine machine;
  TinyEngineOptions options =
      machine.options({.mode = CudagraphMode::FULL_DECODE_ONLY, .level = CompilationMode::NONE});
  options.max_num_tokens = 16;
  options.max_num_reqs = 4;
  options.num_speculative_tokens = 2;
  TinyEngine engine(options);
  for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  const std::vector<std::vector<int32_t>> plain = generate(engine, {}).tokens;
  std::vector<std::vector<int32_t>> known;
  for (size_t i = 0; i < plain.size(); ++i) {
    known.push_back({1, 2, static_cast<int32_t>(i) + 3});
    known.back().insert(known.back().end(), plain[i].begin(), plain[i].end());
  }
  kernels::cuda::CudaRowSampler sampler(
      engine.execution().stream(), 4 * 3, engine.config().vocab_size, 4);
  for (kernels::RowSampler* row_sampler :
       {static_cast<kernels::RowSampler*>(nullptr), static_cast<kernels::RowSampler*>(&sampler)}) {
    testing::KnowingDrafter drafter(known);
    const Generated got = generate(engine, {.row_sampler = row_sampler, .drafter = &drafter});
    EXPECT_EQ(got.tokens, plain);
    EXPECT_EQ(got.counters.tokens_sampled_on_device > 0, row_sampler != nullptr);
  }
}

TEST(CudaEngine, graphs_that_were_captured_over_few_blocks_replay_when_the_cache_has_grown) {
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    CudaEngineMachine machine;
    TinyEngineOptions options =
        machine.options({.mode = CudagraphMode::FULL_AND_PIECEWISE, .level = level});
    options.max_num_tokens = 24;
    options.max_num_reqs = 8;
    TinyEngine whole(options);
    (void)whole.runner().capture({});
    const Generated expected = generate(whole, {});
    options.num_addressed_blocks = options.num_blocks;
    options.num_blocks = 2;
    TinyEngine engine(options);
    runner::ModelRunner& runner = engine.runner();
    const device::BufferView addresses = runner.kv_cache().memory();
    const size_t first_bytes = runner.kv_cache().bytes();
    const size_t free_before = machine.free_bytes();
    EXPECT_LT(first_bytes, addresses.bytes);
    runner.run_largest_step();
    for (const auto& record : runner.capture({}).records) EXPECT_EQ(record.failure, "");
    const auto captured = runner.full_wrapper().counters();
    const size_t free_after_capture = machine.free_bytes();
    EXPECT_LT(free_after_capture, free_before);
    runner.grow_caches(options.num_addressed_blocks, 0);
    EXPECT_EQ(runner.kv_cache().layout().num_blocks, options.num_addressed_blocks);
    EXPECT_EQ(runner.kv_cache().memory().data, addresses.data);
    if (!machine.is_real()) {
      EXPECT_EQ(free_after_capture - machine.free_bytes(), runner.kv_cache().bytes() - first_bytes);
    }
    EXPECT_EQ(generate(engine, {}).tokens, expected.tokens);
    EXPECT_EQ(runner.full_wrapper().counters().captures, captured.captures);
    EXPECT_GT(runner.full_wrapper().counters().replays, captured.replays);
    EXPECT_TRUE(runner.retired_graphs().empty());
    if (!machine.is_real()) {
      EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
    }
  }
}

TEST(CudaEngine, steps_need_no_memory_that_the_largest_one_did_not_take_and_the_parts_add_up) {
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    CudaEngineMachine machine;
    TinyEngineOptions options =
        machine.options({.mode = CudagraphMode::FULL_AND_PIECEWISE, .level = level});
    options.max_num_tokens = 24;
    options.max_num_reqs = 8;
    TinyEngine engine(options);
    engine.runner().run_largest_step();
    const size_t activations = engine.execution().eager_pool().reserved_bytes();
    EXPECT_GT(activations, 0U);
    const device::MemoryInfo start = machine.device().memory();
    const size_t others = start.total - start.free - start.allocated_here;
    (void)engine.runner().capture({});
    (void)generate(engine, {});
    EXPECT_EQ(engine.execution().eager_pool().reserved_bytes(), activations);
    const std::array<const runner::ModelRunner*, 1> runners = {&engine.runner()};
    const runner::MemoryParts parts =
        runner::measure_memory(engine.execution(), runners, others, engine.weight_bytes());
    EXPECT_GT(parts.graphs, 0U);
    EXPECT_GT(parts.buffers, 0U);
    // A real GPU allocates in steps larger than this engine, and reports other processes' memory.
    if (machine.is_real()) continue;
    EXPECT_NEAR(static_cast<double>(parts.sum()),
                static_cast<double>(parts.reported),
                0.01 * static_cast<double>(parts.reported));
  }
}

void expect_backend_equals_eager_and_cpu(CudaEngineMachine& machine,
                                         const attention::BackendInfo& backend,
                                         CudagraphMode mode) {
  TinyEngineOptions cpu_options{
      .mode = mode, .level = CompilationMode::VLLM_COMPILE, .config = kHead64Config};
  cpu_options.max_num_tokens = machine.is_real() ? 64 : 8;
  cpu_options.max_num_reqs = machine.is_real() ? 16 : 4;
  cpu_options.attention = &backend;
  TinyEngine engine(machine.options(cpu_options));
  TinyEngine cpu(cpu_options);
  for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  engine.randomize_kv(11);
  const std::vector<std::byte> kv = engine.save_kv();
  uint32_t seed = 100;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : {1, 3}) {
      const TestBatch batch(mix, num_tokens, cpu_options.max_num_reqs, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const Outcome replay = run(engine, batch, decision, decision.mode, kv);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
      const std::string what = fmt::format(
          "{} {}: {} of {} tokens", backend.name, backend.version, to_string(mix), num_tokens);
      expect_same_bits(eager, replay, what);
      const Outcome want = run(cpu, batch, decision, CudagraphRuntimeMode::NONE, kv);
      EXPECT_LT(relative_distance(replay.logits, want.logits), 2e-2) << what;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(CudaEngine,
     every_attention_backend_replays_what_it_computes_eagerly_and_what_the_cpu_computes) {
  struct Backend {
    const char* name;
    int version;
  };
  for (const Backend backend :
       {Backend{"FLASH_ATTN", 2}, Backend{"TRITON_ATTN", 0}, Backend{"FLASHINFER", 0}}) {
    for (const CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::FULL_AND_PIECEWISE}) {
      CudaEngineMachine machine;
      expect_backend_equals_eager_and_cpu(
          machine, attention::find_attention_backend(backend.name, backend.version), mode);
    }
  }
}

// One path for every batch, and one for uniform batches.
TEST(CudaEngine, flashinfers_kernels_replay_what_they_compute_eagerly_and_what_the_cpu_computes) {
  for (const int version : {3, 2}) {
    for (const CudagraphMode mode : {CudagraphMode::FULL, CudagraphMode::FULL_AND_PIECEWISE}) {
      CudaEngineMachine machine;
      machine.take_flashinfer();
      expect_backend_equals_eager_and_cpu(
          machine, attention::find_attention_backend("FLASH_ATTN", version), mode);
    }
  }
}

// The limits are those of a real GPU on both machines, so the largest batches have no graph.
TEST(CudaEngine, many_replays_with_changing_lengths_and_tables_equal_eager_and_take_no_memory) {
  CudaEngineMachine machine;
  const int num_sizes =
      machine.is_real() ? 64 : 12;  // the kinds and sizes of batches repeat after this many steps
  const int replays = machine.is_real() ? 1000 : 12;
  TinyEngineOptions options = machine.options({.mode = CudagraphMode::FULL,
                                               .level = CompilationMode::VLLM_COMPILE,
                                               .config = kHead64Config});
  options.max_num_tokens = 64;
  options.max_num_reqs = 16;
  options.num_blocks = 256;
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  const int32_t largest = engine.runner().dispatcher().options().mixed_capture_sizes.back();
  EXPECT_LT(largest, options.max_num_tokens);
  int num_without_graph = 0;
  engine.randomize_kv(5);
  const std::vector<std::byte> kv = engine.save_kv();
  const auto step = [&](int i) {
    const int size = i % num_sizes;
    const Mix mix = kMixes[static_cast<size_t>(size) % kMixes.size()];
    const int32_t most = mix == Mix::uniform_decode ? options.max_num_reqs : options.max_num_tokens;
    const TestBatch batch(mix, 1 + size * 7 % most, options.max_num_reqs, static_cast<uint32_t>(i));
    const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
    const bool fits = batch.facts().num_tokens <= largest;
    num_without_graph += fits ? 0 : 1;
    EXPECT_EQ(decision.mode, fits ? CudagraphRuntimeMode::FULL : CudagraphRuntimeMode::NONE)
        << batch.facts().num_tokens;
    const Outcome replay = run(engine, batch, decision, decision.mode, kv);
    const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
    expect_same_bits(eager, replay, fmt::format("replay {}", i));
  };
  for (int i = 0; i < num_sizes; ++i) step(i);  // fills the pools
  const size_t free_before = machine.free_bytes();
  for (int i = 0; i < replays && !::testing::Test::HasFailure(); ++i) step(num_sizes + i);
  EXPECT_EQ(machine.free_bytes(), free_before);
  EXPECT_GT(num_without_graph, 0);
}

// The logits of a prompt's chunk are not needed, so the host does not wait for it.
TEST(CudaEngine, an_engine_goes_while_a_step_is_in_flight) {
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    CudaEngineMachine machine;
    if (machine.is_real()) GTEST_SKIP() << "only the fake driver tells";
    TinyEngineOptions options =
        machine.options({.mode = CudagraphMode::NONE, .level = level, .config = kHead64Config});
    options.max_num_tokens = 8;
    options.max_num_reqs = 2;
    {
      TinyEngine engine(options);
      const TestBatch batch(Mix::prefill, 8, 2, 5);
      (void)engine.runner().run(
          batch.requests(), {.descriptor = {.num_tokens = 8}}, CudagraphRuntimeMode::NONE);
    }
    EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
  }
}

TEST(CudaEngine, a_failing_driver_costs_graphs_and_not_the_engine) {
  CudaEngineMachine machine;
  if (machine.is_real()) GTEST_SKIP() << "only the fake driver fails on demand";
  TinyEngineOptions options =
      machine.options({.mode = CudagraphMode::FULL, .level = CompilationMode::NONE});
  options.max_num_tokens = 4;
  options.max_num_reqs = 2;
  uint64_t k = 1;
  for (;; k += 13) {
    TinyEngine engine(options);
    machine.fake().driver().fail_call(k);
    bool has_failed = false;
    try {
      const cudagraph::CaptureReport report = engine.runner().capture({});
      for (const auto& record : report.records) has_failed |= !record.failure.empty();
    } catch (const Error&) {
      has_failed = true;
    }
    // the scenario makes fewer than k calls
    if (machine.fake().driver().failed_call().empty()) break;
    EXPECT_TRUE(has_failed) << "call " << k << ", " << machine.fake().driver().failed_call();
    machine.fake().driver().fail_call(0);
    engine.randomize_kv(5);
    const std::vector<std::byte> kv = engine.save_kv();
    const TestBatch batch(Mix::uniform_decode, 2, 2, 9);
    const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
    const Outcome got = run(engine, batch, decision, decision.mode, kv);
    const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
    expect_same_bits(eager, got, fmt::format("after call {} failed", k));
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(k, 100U);
  EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
}

}  // namespace
}  // namespace reprise
