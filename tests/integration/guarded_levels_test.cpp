#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/runner/guarded_forward.h"
#include "reprise/tensor/ops.h"
#include "tests/integration/step_outcome.h"

// Models of users at the levels: the declarations in CompileSupport, and level 1 of models whose
// ops depend on the number of tokens. The expected results are those of level 0, which runs the
// model's own code.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Mix;
using ::testing::Not;
using testing::Outcome;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

enum class Branches : uint8_t { no, by_tokens, by_requests };

/// Qwen3 with a declaration that each test sets, and with an optional branch on a size of the
/// batch.
class OwnModel final : public models::CausalLM {
 public:
  OwnModel(std::unique_ptr<CausalLM> inner, CompileSupport support, Branches branches)
      : inner_(std::move(inner)), support_(std::move(support)), branches_(branches) {}

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) override {
    Tensor hidden = inner_->forward(context, input_ids, positions);
    const int64_t size = branches_ == Branches::by_requests ? context.attention->seq_lens.size(0)
                                                            : input_ids.size(0);
    const bool is_even = branches_ != Branches::no && size % 2 == 0;
    return is_even ? ops::add(hidden, hidden) : hidden;
  }
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) override {
    return inner_->compute_logits(hidden, logits_indices, num_logits);
  }
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() override {
    return inner_->attention_layers();
  }
  [[nodiscard]] CompileSupport compile_support() const override { return support_; }

 private:
  std::unique_ptr<CausalLM> inner_;
  CompileSupport support_;
  Branches branches_;
};

struct OwnModelOptions {
  CompilationMode level = CompilationMode::NONE;
  CompileSupport support = {};
  Branches branches = Branches::no;
  CudagraphMode mode = CudagraphMode::NONE;
  std::vector<std::string>* warnings = nullptr;
};

std::unique_ptr<TinyEngine> engine_with(const OwnModelOptions& options) {
  TinyEngineOptions engine{.mode = options.mode, .level = options.level};
  engine.warnings = options.warnings;
  engine.make_model = [&options](models::Parameters& parameters) {
    const weights::ModelConfig config =
        weights::parse_model_config(testing::kTinyQwen3Config, "config.json").config;
    return std::make_unique<OwnModel>(
        models::create_model(config, config.max_position_embeddings, parameters),
        options.support,
        options.branches);
  };
  auto made = std::make_unique<TinyEngine>(engine);
  made->randomize_kv(31);
  return made;
}

const runner::GuardedForward* guards_of(TinyEngine& engine) {
  return dynamic_cast<const runner::GuardedForward*>(&engine.runner().forward());
}

Outcome eager_step(TinyEngine& engine, const TestBatch& batch, std::span<const std::byte> kv) {
  const cudagraph::Decision decision{.descriptor = {.num_tokens = batch.facts().num_tokens}};
  return run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv);
}

TEST(Guards, trace_each_number_of_tokens_once_and_compute_the_bits_of_level_0) {
  const auto engine =
      engine_with({.level = CompilationMode::STOCK_TORCH_COMPILE, .branches = Branches::by_tokens});
  const auto level_0 = engine_with({.branches = Branches::by_tokens});
  const std::vector<std::byte> kv = engine->save_kv();
  EXPECT_THAT(engine->compilation().guarded, HasSubstr("the function decides by a size"));
  EXPECT_THAT(engine->compilation().refused, IsEmpty());
  const runner::GuardedForward* guards = guards_of(*engine);
  ASSERT_NE(guards, nullptr);
  EXPECT_EQ(guards->num_programs(), 0U);
  // The number of tokens of each step, and the number of programs after it.
  const std::vector<std::pair<int32_t, size_t>> steps = {
      {3, 1}, {4, 2}, {9, 3}, {3, 3}, {4, 3}, {16, 4}, {1, 5}, {2, 6}};
  for (const auto& [num_tokens, expected] : steps) {
    for (const Mix mix : {Mix::mixed, Mix::prefill}) {  // other numbers of requests
      const TestBatch batch(mix, num_tokens, 16, static_cast<uint32_t>(num_tokens));
      expect_same_bits(eager_step(*level_0, batch, kv),
                       eager_step(*engine, batch, kv),
                       std::to_string(num_tokens));
    }
    EXPECT_EQ(guards->num_programs(), expected) << num_tokens;
  }
  EXPECT_EQ(guards->num_own_code_runs(), 0U);
}

TEST(Guards, run_the_models_own_code_after_eight_programs) {
  const auto engine =
      engine_with({.level = CompilationMode::STOCK_TORCH_COMPILE, .branches = Branches::by_tokens});
  const auto level_0 = engine_with({.branches = Branches::by_tokens});
  const std::vector<std::byte> kv = engine->save_kv();
  for (int32_t num_tokens = 1; num_tokens <= 12; ++num_tokens) {
    const TestBatch batch(Mix::mixed, num_tokens, 16, static_cast<uint32_t>(num_tokens));
    expect_same_bits(eager_step(*level_0, batch, kv),
                     eager_step(*engine, batch, kv),
                     std::to_string(num_tokens));
  }
  EXPECT_EQ(guards_of(*engine)->num_programs(), runner::GuardedForward::kMaxPrograms);
  EXPECT_EQ(guards_of(*engine)->num_own_code_runs(), 4U);
}

TEST(Guards, on_tokens_do_not_help_a_model_that_decides_by_requests) {
  const auto engine = engine_with(
      {.level = CompilationMode::STOCK_TORCH_COMPILE, .branches = Branches::by_requests});
  const auto level_0 = engine_with({.branches = Branches::by_requests});
  const std::vector<std::byte> kv = engine->save_kv();
  for (const int32_t num_tokens : {6, 7, 6}) {
    const TestBatch batch(Mix::mixed, num_tokens, 16, 5);
    expect_same_bits(eager_step(*level_0, batch, kv),
                     eager_step(*engine, batch, kv),
                     std::to_string(num_tokens));
  }
  EXPECT_EQ(guards_of(*engine)->num_programs(), 0U);
  EXPECT_EQ(guards_of(*engine)->num_own_code_runs(), 3U);
}

class GuardedModes : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(GuardedModes, replay_the_bits_of_level_0) {
  const OwnModelOptions guarded{.level = CompilationMode::STOCK_TORCH_COMPILE,
                                .branches = Branches::by_tokens,
                                .mode = GetParam()};
  const OwnModelOptions eager{.branches = Branches::by_tokens, .mode = GetParam()};
  const auto engine = engine_with(guarded);
  const auto level_0 = engine_with(eager);
  for (const auto& record : engine->runner().capture({}).records) EXPECT_EQ(record.failure, "");
  const std::vector<std::byte> kv = engine->save_kv();
  uint32_t seed = 1;
  for (const Mix mix : testing::kMixes) {
    for (const int32_t num_tokens : {1, 2, 3, 8, 9, 16, 33, 64}) {
      if (mix == Mix::uniform_decode && num_tokens > 16) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine->runner().dispatcher().dispatch(batch.facts());
      expect_same_bits(run(*level_0, batch, decision, CudagraphRuntimeMode::NONE, kv),
                       run(*engine, batch, decision, decision.mode, kv),
                       describe(mix, num_tokens, decision));
    }
  }
  EXPECT_LE(guards_of(*engine)->num_programs(), runner::GuardedForward::kMaxPrograms);
}

INSTANTIATE_TEST_SUITE_P(modes, GuardedModes, ::testing::ValuesIn(testing::kModes));

TEST(Levels, two_and_three_have_no_guards_and_run_the_models_own_code_instead) {
  for (const CompilationMode level :
       {CompilationMode::DYNAMO_TRACE_ONCE, CompilationMode::VLLM_COMPILE}) {
    std::vector<std::string> warnings;
    const auto engine =
        engine_with({.level = level, .branches = Branches::by_tokens, .warnings = &warnings});
    EXPECT_EQ(guards_of(*engine), nullptr);
    EXPECT_THAT(engine->compilation().refused, HasSubstr("the function decides by a size"));
    EXPECT_THAT(warnings, ::testing::ElementsAre(HasSubstr("level 0")));
    const auto level_0 = engine_with({.branches = Branches::by_tokens});
    const TestBatch batch(Mix::mixed, 6, 16, 3);
    const std::vector<std::byte> kv = level_0->save_kv();
    expect_same_bits(eager_step(*level_0, batch, kv), eager_step(*engine, batch, kv), "6 tokens");
  }
}

TEST(Levels, one_runs_the_trace_without_passes_and_without_generated_code) {
  const auto one = engine_with({.level = CompilationMode::STOCK_TORCH_COMPILE});
  EXPECT_EQ(one->compilation().backend, "eager");
  EXPECT_EQ(one->compilation().compiled_launches, one->compilation().traced_launches);
  EXPECT_THAT(one->compilation().pass_reports.front().passes, IsEmpty());
  EXPECT_EQ(guards_of(*one), nullptr)
      << "one program serves all sizes, so nothing is left to guard";
}

TEST(Levels, two_compiles_the_whole_forward_once) {
  const auto two = engine_with({.level = CompilationMode::DYNAMO_TRACE_ONCE});
  EXPECT_THAT(two->compilation().pass_reports.front().passes, Not(IsEmpty()));
  EXPECT_EQ(two->compilation().counter.num_backend_compilations, 1U);
  EXPECT_EQ(guards_of(*two), nullptr);
}

// ---- CompileSupport ----

TEST(CompileSupport, open_dimensions_are_those_that_the_engine_opens) {
  for (const CompilationMode level :
       {CompilationMode::STOCK_TORCH_COMPILE, CompilationMode::VLLM_COMPILE}) {
    for (const int positions_dim : {0, -1}) {
      const auto engine = engine_with(
          {.level = level,
           .support = {.dynamic_arg_dims = {{"input_ids", 0}, {"positions", positions_dim}}}});
      EXPECT_GT(engine->compilation().compiled_launches, 0U);
      EXPECT_THAT(engine->compilation().guarded, IsEmpty());
    }
  }
}

TEST(CompileSupport, a_dimension_that_is_left_out_is_fixed_so_level_1_guards_it) {
  const reprise::CompileSupport only_ids{.dynamic_arg_dims = {{"input_ids", 0}}};
  const auto engine =
      engine_with({.level = CompilationMode::STOCK_TORCH_COMPILE, .support = only_ids});
  EXPECT_THAT(engine->compilation().guarded, HasSubstr("dimension 0 of 'positions'"));
  const auto level_0 = engine_with({});
  const std::vector<std::byte> kv = engine->save_kv();
  for (const int32_t num_tokens : {5, 6, 5}) {
    const TestBatch batch(Mix::mixed, num_tokens, 16, 9);
    expect_same_bits(eager_step(*level_0, batch, kv),
                     eager_step(*engine, batch, kv),
                     std::to_string(num_tokens));
  }
  EXPECT_EQ(guards_of(*engine)->num_programs(), 2U);

  std::vector<std::string> warnings;
  const auto compiled = engine_with(
      {.level = CompilationMode::VLLM_COMPILE, .support = only_ids, .warnings = &warnings});
  EXPECT_THAT(compiled->compilation().refused,
              AllOf(HasSubstr("dimension 0 of 'positions'"), HasSubstr("level 1")));
}

TEST(CompileSupport, a_declaration_of_what_is_not_there_is_refused_at_every_level) {
  struct Row {
    reprise::CompileSupport::DynamicDim declared;
    std::string words;
  };
  const std::vector<Row> rows = {
      {{"tokens", 0},
       "no argument of the model is called 'tokens'; there are input_ids, positions"},
      {{"block_table", 0}, "no argument of the model is called 'block_table'"},
      {{"positions", 1}, "'positions' has 1 dimensions, and no dimension 1"}};
  for (const CompilationMode level :
       {CompilationMode::STOCK_TORCH_COMPILE, CompilationMode::VLLM_COMPILE}) {
    for (const Row& row : rows) {
      std::vector<std::string> warnings;
      const auto engine = engine_with(
          {.level = level,
           .support = {.dynamic_arg_dims = {{"input_ids", 0}, {"positions", 0}, row.declared}},
           .warnings = &warnings});
      EXPECT_THAT(engine->compilation().refused, HasSubstr(row.words));
      EXPECT_EQ(guards_of(*engine), nullptr);
    }
  }
}

TEST(CompileSupport, a_model_may_stay_out_of_compilation) {
  const std::vector<reprise::CompileSupport> supports = {{.do_not_compile = true},
                                                         {.enable_if = [] { return false; }}};
  for (const reprise::CompileSupport& support : supports) {
    const auto engine = engine_with({.level = CompilationMode::VLLM_COMPILE, .support = support});
    EXPECT_EQ(engine->compilation().refused, compile::kOptedOut);
    EXPECT_EQ(engine->compilation().counter.num_graphs_seen, 0U);
  }
}

}  // namespace
}  // namespace reprise
