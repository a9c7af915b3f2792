#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/engine_runner.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/json.h"
#include "reprise/engine/engine_core.h"
#include "reprise/models/draft_head.h"
#include "reprise/runner/head_drafter.h"
#include "reprise/weights/files/checkpoint.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/sources/draft_head_tensors.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "tests/integration/random_load.h"

// A head drafts from hidden states of the main model. The expected answers are those of the same
// load without drafts. The expected drafts are PyTorch's, and those of the same head in an engine
// whose cache had another history.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::DispatchReason;
using runner::HeadDrafter;
using speculative::DraftRequest;
using testing::Answer;
using testing::Load;
using testing::Machine;
using testing::Spec;
using testing::TinyEngine;
using testing::Tokens;

/// The kinds of heads. In those that repeat, the layer adds nothing: their hidden states are the
/// target's.
enum class Head {
  trained,
  eagle3,
  eagle,
  mtp,
  qwen_mtp,  // of a model with recurrent layers
  repeating_eagle,
  repeating_mtp,
  repeating_qwen_mtp
};

bool is_qwen_mtp(Head head) { return head == Head::qwen_mtp || head == Head::repeating_qwen_mtp; }
bool is_mtp(Head head) {
  return head == Head::mtp || head == Head::repeating_mtp || is_qwen_mtp(head);
}
bool is_eagle(Head head) { return head == Head::eagle || head == Head::repeating_eagle; }

constexpr int32_t kNumHeadDrafts = 4;

std::string name_of(Head head) {
  constexpr std::array kNames = {"trained",
                                 "eagle3",
                                 "eagle",
                                 "mtp",
                                 "qwen_mtp",
                                 "repeating_eagle",
                                 "repeating_mtp",
                                 "repeating_qwen_mtp"};
  return kNames.at(static_cast<size_t>(head));
}

std::filesystem::path trained_head() {
  return std::filesystem::path(source_dir()) / "models/reprise-tiny-eagle3";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json llama_config_of(Json head) {
  head["architectures"] = {"LlamaForCausalLM"};
  return head;
}

/// A model with an MTP layer, and the vocabulary of the bundled model.
std::string mtp_target(Head head) {
  Json config =
      Json::parse(is_qwen_mtp(head) ? testing::kTinyQwen3NextConfig : testing::kTinyDeepseekConfig);
  config["vocab_size"] = 1024;
  config["max_position_embeddings"] = 1024;
  config["num_nextn_predict_layers"] = 1;
  return config.dump();
}

weights::ModelConfig target_config(Head head) {
  const std::string text =
      is_mtp(head) ? mtp_target(head) : read_file(testing::bundled_model() / "config.json");
  return weights::parse_model_config(text, "config.json").config;
}

weights::DraftHeadConfig head_config(Head head) {
  const weights::ModelConfig target = target_config(head);
  if (is_mtp(head)) return weights::mtp_config(mtp_target(head), "config.json", target);
  Json config = Json::parse(read_file(trained_head() / "config.json"));
  // Random heads have other layers and another vocabulary.
  if (head != Head::trained) {
    config.erase("eagle_config");
    config.erase("draft_vocab_size");
    config["norm_before_residual"] = true;
    config["norm_output"] = true;
  }
  const std::string text = config.dump();
  return weights::parse_eagle_config(
      is_eagle(head) ? weights::DraftHeadKind::eagle : weights::DraftHeadKind::eagle3,
      text,
      "config.json",
      weights::parse_model_config(llama_config_of(config).dump(), "config.json").config,
      target);
}

testing::MachineOptions machine_options(Head head, testing::MachineOptions options = {}) {
  if (is_mtp(head)) options.config = mtp_target(head);
  if (is_qwen_mtp(head)) options.num_state_snapshots = 8;
  options.num_speculative_tokens = kNumHeadDrafts;
  options.auxiliary = models::auxiliary_states(head_config(head));
  return options;
}

/// Weights with which a head's hidden states are those of its target: the projection of its inputs
/// takes only the second half, and attention and MLP add zeros.
class RepeatingWeights final : public weights::WeightSource {
 public:
  explicit RepeatingWeights(const weights::DraftHeadConfig& config)
      : dummy_(weights::expected_tensors(config), DType::f32, /*seed=*/3) {}

  [[nodiscard]] const weights::TensorSpec* find(std::string_view name) const override {
    return dummy_.find(name);
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return dummy_.names(); }
  [[nodiscard]] std::string description() const override { return "repeating weights"; }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override {
    dummy_.read(name, dtype, dst);
    const auto ends_in = [&](std::string_view module) {
      return name.ends_with(std::string(module) + ".weight");
    };
    const bool is_fc = ends_in("fc");
    if (is_fc || ends_in("o_proj") || ends_in("down_proj")) std::ranges::fill(dst, std::byte{0});
    if (!is_fc) return;
    ASSERT_EQ(dtype, DType::f32);
    const auto size = static_cast<size_t>(find(name)->shape[0]);
    const float one = 1;
    for (size_t row = 0; row < size; ++row) {
      std::memcpy(&dst[(row * 2 * size + size + row) * sizeof one], &one, sizeof one);
    }
  }

 private:
  weights::DummyWeights dummy_;
};

/// A head for a Machine.
class HeadEngine {
 public:
  HeadEngine(Head head, Machine& machine, const testing::MachineOptions& options)
      : config_(head_config(head)),
        source_(open(head, config_)),
        tiny_(tiny_options(head, machine, options)),
        drafter_((tiny_.runner().capture({}), tiny_.runner()),
                 dynamic_cast<models::DraftHead&>(tiny_.model()),
                 {.max_num_reqs = Machine::kMaxNumReqs,
                  .max_num_tokens = Machine::kMaxNumTokens,
                  .max_model_len = 160,
                  .num_speculative_tokens = kNumHeadDrafts,
                  .num_main_blocks = options.num_blocks}) {}

  [[nodiscard]] HeadDrafter& drafter() noexcept { return drafter_; }

  /// The options of an engine that uses the head. `drafter`: takes the head's place.
  [[nodiscard]] engine::EngineCoreOptions core_options(const Machine& machine,
                                                       speculative::Drafter* drafter = nullptr) {
    engine::EngineCoreOptions options =
        machine.core_options(drafter == nullptr ? drafter_ : *drafter);
    options.scheduler.recomputes_last_cached_block = true;
    return options;
  }

 private:
  static std::unique_ptr<weights::WeightSource> open(Head head,
                                                     const weights::DraftHeadConfig& config) {
    if (head >= Head::repeating_eagle) {
      return std::make_unique<RepeatingWeights>(config);
    }
    if (head != Head::trained) {
      return std::make_unique<weights::DummyWeights>(
          weights::expected_tensors(config), DType::bf16, /*seed=*/3);
    }
    auto checkpoint = std::make_unique<weights::Checkpoint>(
        weights::Checkpoint::open(weights::ModelDirectory(trained_head())));
    auto source = weights::with_head_names(std::move(checkpoint), config);
    EXPECT_TRUE(weights::verify_weights(config, *source).empty());
    return source;
  }

  testing::TinyEngineOptions tiny_options(Head head,
                                          Machine& machine,
                                          const testing::MachineOptions& options) {
    testing::TinyEngineOptions tiny{
        .mode = options.mode,
        .level = options.level,
        .max_num_tokens = Machine::kMaxNumTokens,
        .max_num_reqs = Machine::kMaxNumReqs,
        .num_blocks = HeadDrafter::num_blocks(
            options.num_blocks, Machine::kMaxNumReqs, kNumHeadDrafts, TinyEngine::kBlockSize),
        .num_speculative_tokens = kNumHeadDrafts,
        .dtype = options.dtype,
        .attention = options.attention,
        .make_model =
            [this, &machine](models::Parameters& parameters) {
              return models::create_draft_head(config_,
                                               config_.model.max_position_embeddings,
                                               parameters,
                                               machine.engine().model().shared_tensors(),
                                               read_ids());
            },
        .weights = source_.get()};
    if (is_mtp(head)) {
      Json layer = Json::parse(mtp_target(head));
      layer["num_hidden_layers"] = 1;
      layer["first_k_dense_replace"] = 0;
      if (is_qwen_mtp(head)) layer["layer_types"] = {"full_attention"};
      tiny.config = layer.dump();
    } else {
      tiny.config = llama_config_of(Json::parse(read_file(trained_head() / "config.json"))).dump();
    }
    return tiny;
  }
  std::vector<int32_t> read_ids() { return weights::read_target_ids(config_, *source_); }

  weights::DraftHeadConfig config_;
  std::unique_ptr<weights::WeightSource> source_;
  TinyEngine tiny_;
  HeadDrafter drafter_;
};

std::vector<Spec> make_head_specs(uint32_t seed, int count) {
  Load load(seed, 1024);
  std::vector<Spec> specs;
  for (int i = 0; i < count; ++i) {
    specs.push_back(load.next(i));
    specs.back().abort_after = 0;
  }
  return specs;
}

/// Answers a load with and without the head.
void expect_no_change(Head head, const testing::MachineOptions& asked, int count) {
  const testing::MachineOptions options = machine_options(head, asked);
  Machine machine(options);
  const std::vector<Spec> specs = make_head_specs(/*seed=*/5, count);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  HeadEngine engine(head, machine, options);
  const auto core = machine.make_core(engine.core_options(machine));
  expect_equal(machine.answer(*core, specs), expected);
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  EXPECT_GT(stats.num_draft_tokens, 30U);
  EXPECT_GT(core->scheduler().num_preemptions(), 0);
  EXPECT_GT(core->scheduler().prefix_cache_stats().hits, 0U);
  EXPECT_EQ(engine.drafter().num_failed_calls(), 0U);
  EXPECT_EQ(core->counters().num_failed_steps, 0U);
  fmt::print("{}: {} tokens in {} steps; {} of {} draft tokens accepted\n",
             name_of(head),
             core->counters().generation_tokens,
             core->counters().num_steps,
             stats.num_accepted_tokens,
             stats.num_draft_tokens);
}

class DraftHeadModes : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(DraftHeadModes, change_nothing_that_any_request_is_told) {
  for (const Head head : {Head::trained, Head::eagle3, Head::eagle, Head::mtp, Head::qwen_mtp}) {
    SCOPED_TRACE(name_of(head));
    expect_no_change(head, {.mode = GetParam()}, head == Head::trained ? 100 : 40);
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         DraftHeadModes,
                         ::testing::Values(CudagraphMode::NONE,
                                           CudagraphMode::PIECEWISE,
                                           CudagraphMode::FULL,
                                           CudagraphMode::FULL_DECODE_ONLY,
                                           CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

class DraftHeadLevels : public ::testing::TestWithParam<config::CompilationMode> {};

TEST_P(DraftHeadLevels, change_nothing_that_any_request_is_told) {
  for (const Head head : {Head::trained, Head::mtp, Head::qwen_mtp}) {
    SCOPED_TRACE(name_of(head));
    expect_no_change(head, {.level = GetParam()}, 40);
  }
}

INSTANTIATE_TEST_SUITE_P(levels,
                         DraftHeadLevels,
                         ::testing::Values(config::CompilationMode::STOCK_TORCH_COMPILE,
                                           config::CompilationMode::DYNAMO_TRACE_ONCE,
                                           config::CompilationMode::VLLM_COMPILE),
                         [](const auto& param_info) {
                           return fmt::format("level{}", static_cast<int>(param_info.param));
                         });

/// A drafter that follows steps with a head; tests look at the head's proposals.
class HeadWatch : public speculative::Drafter {
 public:
  explicit HeadWatch(Drafter& head) : head_(&head) {}

  bool follows_steps() const noexcept override { return true; }
  void follow(const speculative::FollowedStep& step) noexcept override { head_->follow(step); }
  void propose_all(std::span<DraftRequest> requests) noexcept override {
    head_->propose_all(requests);
    look_at(requests);
  }

 private:
  virtual void look_at(std::span<const DraftRequest> requests) noexcept = 0;

  Drafter* head_;
};

/// Remembers the drafts after each prefix.
class RecordingDrafter final : public HeadWatch {
 public:
  using HeadWatch::HeadWatch;

  /// Compares later drafts with the drafts of another engine.
  void start_with(const RecordingDrafter& other) {
    drafts_ = other.drafts_;
    num_compared_ = 0;
  }
  [[nodiscard]] int num_compared() const { return num_compared_; }
  [[nodiscard]] int num_without_drafts() const { return num_without_drafts_; }

 private:
  void look_at(std::span<const DraftRequest> requests) noexcept override {
    for (const DraftRequest& request : requests) {
      if (request.num_drafts == 0) {
        ++num_without_drafts_;
        continue;
      }
      const Tokens tokens(request.token_ids.begin(), request.token_ids.end());
      const Tokens drafts(request.drafts.begin(), request.drafts.begin() + request.num_drafts);
      const auto [known, is_new] = drafts_.emplace(tokens, drafts);
      if (is_new) continue;
      // If another request had the same tokens, the shorter run must be the beginning of the longer
      // one.
      const size_t count = std::min(drafts.size(), known->second.size());
      EXPECT_TRUE(std::equal(drafts.begin(),
                             drafts.begin() + static_cast<std::ptrdiff_t>(count),
                             known->second.begin()))
          << "after " << tokens.size() << " tokens";
      ++num_compared_;
    }
  }

  std::map<Tokens, Tokens> drafts_;
  int num_compared_ = 0;
  int num_without_drafts_ = 0;
};

// Shared prefixes, chunks, preemption and rejected drafts must leave no trace in the head's cache.
TEST(DraftHead, gives_the_same_drafts_whatever_its_cache_went_through) {
  const std::vector<Spec> specs = make_head_specs(/*seed=*/12, 80);
  for (const Head head : {Head::trained, Head::eagle, Head::mtp}) {
    SCOPED_TRACE(name_of(head));
    std::unique_ptr<RecordingDrafter> expected;
    struct Case {
      int64_t num_blocks;
      int max_num_batched_tokens;
      bool enable_prefix_caching;
      CudagraphMode mode;
    };
    for (const Case& variant : {Case{120, 48, false, CudagraphMode::NONE},
                                Case{24, 48, true, CudagraphMode::FULL_AND_PIECEWISE},
                                Case{14, 12, true, CudagraphMode::FULL_DECODE_ONLY},
                                Case{120, 30, true, CudagraphMode::FULL},
                                Case{24, 48, false, CudagraphMode::PIECEWISE}}) {
      const testing::MachineOptions options =
          machine_options(head, {.mode = variant.mode, .num_blocks = variant.num_blocks});
      Machine machine(options);
      HeadEngine engine(head, machine, options);
      auto recorder = std::make_unique<RecordingDrafter>(engine.drafter());
      if (expected != nullptr) recorder->start_with(*expected);
      engine::EngineCoreOptions core_options = engine.core_options(machine, recorder.get());
      core_options.enable_prefix_caching = variant.enable_prefix_caching;
      core_options.scheduler.max_num_batched_tokens = variant.max_num_batched_tokens;
      const auto core = machine.make_core(core_options);
      (void)machine.answer(*core, specs);
      EXPECT_EQ(engine.drafter().num_failed_calls(), 0U);
      if (expected != nullptr) {
        // Requests whose drafts fail get few.
        EXPECT_GT(recorder->num_compared(), head == Head::trained ? 60 : 40) << variant.num_blocks;
      }
      if (variant.num_blocks < 30 && head == Head::trained) {
        EXPECT_GT(core->scheduler().num_preemptions(), 0);
      }
      if (variant.enable_prefix_caching) {
        EXPECT_GT(core->scheduler().prefix_cache_stats().hits, 0U);
      }
      fmt::print("{}: {} runs of drafts compared\n", name_of(head), recorder->num_compared());
      if (expected == nullptr) expected = std::move(recorder);
    }
  }
}

// The entry at the end of a shared prefix depends on the next token.
TEST(DraftHead, drafts_do_not_depend_on_who_computed_the_prefix) {
  const testing::MachineOptions options =
      machine_options(Head::trained, {.mode = CudagraphMode::NONE, .num_blocks = 120});
  Machine machine(options);
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(testing::bundled_model());
  const Tokens story = tokenizer.encode(
      "Once upon a time, there was a little fox named Lily. She lived in a small house near the "
      "river. One day, she saw a red ball in the garden and wanted to play with it.");
  constexpr size_t kPrefix = 2 * TinyEngine::kBlockSize;
  ASSERT_GT(story.size(), kPrefix);
  std::vector<Spec> specs;
  for (int32_t next = 0; next < 60; ++next) {
    Spec spec{.prompt = Tokens(story.begin(), story.begin() + kPrefix)};
    spec.prompt.push_back(230 + 7 * next);
    spec.params = {.temperature = 0, .max_tokens = 4, .ignore_eos = true};
    specs.push_back(spec);
  }
  std::unique_ptr<RecordingDrafter> expected;
  for (const bool is_caching : {false, true}) {
    HeadEngine engine(Head::trained, machine, options);
    auto recorder = std::make_unique<RecordingDrafter>(engine.drafter());
    if (expected != nullptr) recorder->start_with(*expected);
    engine::EngineCoreOptions core_options = engine.core_options(machine, recorder.get());
    core_options.enable_prefix_caching = is_caching;
    const auto core = machine.make_core(core_options);
    (void)machine.answer(*core, specs);
    if (is_caching) {
      EXPECT_GT(recorder->num_compared(), 20);
      EXPECT_GT(core->scheduler().prefix_cache_stats().hits, 0U);
    }
    if (expected == nullptr) expected = std::move(recorder);
  }
}

TEST(DraftHead, proposes_what_the_same_head_proposes_in_pytorch) {
  const Json goldens = Json::parse(
      read_file(std::filesystem::path(source_dir()) / "tests/goldens/draft_head/drafts.json"));
  const testing::MachineOptions options =
      machine_options(Head::trained, {.num_blocks = 120, .dtype = DType::f32});
  Machine machine(options);
  HeadEngine engine(Head::trained, machine, options);
  int num_compared = 0;
  for (const Json& golden : goldens) {
    // The last token is given, so the answer's first token must be the golden's last.
    struct Watch final : HeadWatch {
      using HeadWatch::HeadWatch;
      Tokens tokens, drafts;
      void look_at(std::span<const DraftRequest> requests) noexcept override {
        for (const DraftRequest& request : requests) {
          if (!tokens.empty()) continue;
          tokens.assign(request.token_ids.begin(), request.token_ids.end());
          drafts.assign(request.drafts.begin(), request.drafts.begin() + request.num_drafts);
        }
      }
    } watch(engine.drafter());
    const auto core = machine.make_core(engine.core_options(machine, &watch));
    const auto tokens = golden["tokens"].get<Tokens>();
    Spec spec{.prompt = Tokens(tokens.begin(), tokens.end() - 1)};
    spec.params = {.temperature = 0, .max_tokens = 12, .ignore_eos = true};
    // Only this token is allowed first.
    spec.params.allowed_token_ids = {tokens.back()};
    (void)machine.answer(*core, {spec});
    ASSERT_EQ(watch.tokens, tokens);
    if (golden["margin"].get<double>() < 1e-3) continue;
    const auto expected = golden["drafts"].get<Tokens>();
    EXPECT_EQ(watch.drafts, Tokens(expected.begin(), expected.begin() + kNumHeadDrafts));
    ++num_compared;
  }
  EXPECT_GT(num_compared, 15);
}

const std::filesystem::path& mtp_goldens() {
  static const std::filesystem::path kFolder =
      std::filesystem::path(source_dir()) / "tests/goldens/draft_head";
  return kFolder;
}

api::EngineArgs mtp_args(const std::string& name) {
  api::EngineArgs args;
  args.model = mtp_goldens() / name;
  args.tokenizer = testing::bundled_model();
  args.dtype = "float32";
  args.max_num_seqs = 3;
  args.num_threads = 1;
  args.speculative_config = {{"method", "mtp"}, {"num_speculative_tokens", kNumHeadDrafts}};
  return args;
}

class QwenMtp : public ::testing::TestWithParam<const char*> {};

TEST_P(QwenMtp, proposes_what_the_same_head_proposes_in_pytorch) {
  const Json goldens = Json::parse(read_file(mtp_goldens() / GetParam() / "drafts.json"));
  api::LLM llm(mtp_args(GetParam()));
  api::LoadedEngine& loaded = llm.loaded();
  int num_compared = 0;
  for (const Json& golden : goldens["cases"]) {
    struct Watch final : HeadWatch {
      using HeadWatch::HeadWatch;
      Tokens tokens, drafts;
      void look_at(std::span<const DraftRequest> requests) noexcept override {
        if (!tokens.empty()) return;
        tokens.assign(requests[0].token_ids.begin(), requests[0].token_ids.end());
        drafts.assign(requests[0].drafts.begin(), requests[0].drafts.begin() + kNumHeadDrafts);
      }
    } watch(*loaded.drafter);
    engine::EngineCoreOptions options = api::core_options(loaded, /*caches_prefixes=*/false);
    options.drafter = &watch;
    engine::EngineCore core(*loaded.runner, options);
    const auto tokens = golden["tokens"].get<Tokens>();
    sampling::SamplingParams params{.temperature = 0, .max_tokens = 12, .ignore_eos = true};
    params.allowed_token_ids = {tokens.back()};
    (void)core.add_request(Tokens(tokens.begin(), tokens.end() - 1), params);
    while (core.has_unfinished_requests()) (void)core.step();
    ASSERT_EQ(watch.tokens, tokens);
    if (golden["margin"].get<double>() < 1e-3) continue;
    EXPECT_EQ(watch.drafts, golden["drafts"].get<Tokens>()) << tokens.size() << " tokens";
    ++num_compared;
  }
  EXPECT_GT(num_compared, 20);
}

/// Prompts that end just before the last token of a golden text, if the token after that is the
/// first draft.
std::vector<Tokens> prompts_before_right_drafts(const std::string& name) {
  const Json goldens = Json::parse(read_file(mtp_goldens() / name / "drafts.json"));
  std::vector<Tokens> prompts;
  for (const Json& golden : goldens["cases"]) {
    auto text = golden["tokens"].get<Tokens>();
    text.push_back(golden["drafts"][0].get<int32_t>());
    const bool goes_on = std::ranges::any_of(goldens["cases"], [&](const Json& other) {
      const auto longer = other["tokens"].get<Tokens>();
      return longer.size() >= text.size() && std::equal(text.begin(), text.end(), longer.begin());
    });
    if (goes_on) prompts.emplace_back(text.begin(), text.end() - 2);
  }
  return prompts;
}

TEST_P(QwenMtp, changes_no_token_and_uses_all_of_the_checkpoint) {
  // Requests with random prompts, and requests whose first drafts are right.
  std::vector<Tokens> prompts = prompts_before_right_drafts(GetParam());
  ASSERT_FALSE(prompts.empty());
  for (const Spec& spec : make_head_specs(/*seed=*/4, 12)) {
    prompts.push_back(spec.prompt);
    for (int32_t& token : prompts.back()) token %= 96;
  }
  const sampling::SamplingParams params{.temperature = 0, .max_tokens = 60, .ignore_eos = true};
  const auto answers_of = [&](api::LLM& llm) {
    std::vector<Tokens> answers;
    for (const auto& result : llm.generate_token_ids(prompts, params)) {
      answers.push_back(result.output.token_ids);
    }
    return answers;
  };
  api::EngineArgs plain_args = mtp_args(GetParam());
  plain_args.speculative_config = Json::object();
  api::LLM plain(plain_args);
  const std::vector<Tokens> expected = answers_of(plain);
  const auto slots_of_requests = [](const api::StartupReport& report) {
    return report.num_state_slots - 1 - report.num_state_snapshots;
  };
  EXPECT_EQ(slots_of_requests(plain.loaded().report), 3);
  for (const char* mode : {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
    for (const int level : {0, 3}) {
      SCOPED_TRACE(fmt::format("{}, level {}", mode, level));
      api::EngineArgs args = mtp_args(GetParam());
      args.compilation_config = {{"cudagraph_mode", mode}, {"mode", level}};
      api::LLM llm(args);
      for (const std::string& warning : llm.loaded().report.warnings) {
        EXPECT_EQ(warning.find("not used"), std::string::npos) << warning;
        EXPECT_EQ(warning.find("mtp ("), std::string::npos) << warning;
      }
      EXPECT_EQ(answers_of(llm), expected);
      EXPECT_EQ(answers_of(llm), expected) << "prefixes are found";
      llm.sleep();
      llm.wake_up();
      EXPECT_EQ(answers_of(llm), expected) << "after a sleep";
      EXPECT_EQ(slots_of_requests(llm.loaded().report), 3 * (1 + kNumHeadDrafts));
      const auto& stats = llm.loaded().core->scheduler().speculation_stats();
      EXPECT_GT(stats.num_accepted_tokens, 0U);
      EXPECT_GT(stats.num_draft_tokens, stats.num_accepted_tokens);
      fmt::print("{} of {} drafts accepted\n", stats.num_accepted_tokens, stats.num_draft_tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(families,
                         QwenMtp,
                         ::testing::Values("qwen3-next", "qwen3_5", "qwen3_5-moe"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Such a head gives the same logits as those from which the last token was sampled: it repeats a
// greedy answer's last token.
TEST(DraftHead, reads_the_hidden_state_of_the_token_before_the_last) {
  std::vector<Spec> specs = make_head_specs(/*seed=*/21, 30);
  for (Spec& spec : specs) {
    spec.constraint_length = 0;
    spec.params = {.temperature = 0, .max_tokens = 30, .ignore_eos = true};
  }
  for (const Head head : {Head::repeating_eagle, Head::repeating_mtp, Head::repeating_qwen_mtp}) {
    SCOPED_TRACE(name_of(head));
    const testing::MachineOptions options = machine_options(head, {.dtype = DType::f32});
    Machine machine(options);
    HeadEngine engine(head, machine, options);
    struct Watch final : HeadWatch {
      using HeadWatch::HeadWatch;
      int num_drafts = 0;
      void look_at(std::span<const DraftRequest> requests) noexcept override {
        for (const DraftRequest& request : requests) {
          for (int i = 0; i < request.num_drafts; ++i) {
            EXPECT_EQ(request.drafts[static_cast<size_t>(i)], request.token_ids.back()) << i;
          }
          num_drafts += request.num_drafts;
        }
      }
    } watch(engine.drafter());
    const auto core = machine.make_core(engine.core_options(machine, &watch));
    (void)machine.answer(*core, specs);
    EXPECT_GT(watch.num_drafts, 200);
    EXPECT_EQ(engine.drafter().num_failed_calls(), 0U);
  }
}

TEST(DraftHead, replays_full_graphs_in_all_its_uniform_steps) {
  std::vector<Spec> specs = make_head_specs(/*seed=*/9, 30);
  for (Spec& spec : specs) {
    spec.constraint_length = 0;
    spec.params = {.temperature = 0, .max_tokens = 40, .ignore_eos = true};
  }
  for (const CudagraphMode mode :
       {CudagraphMode::FULL_AND_PIECEWISE, CudagraphMode::FULL_DECODE_ONLY}) {
    const testing::MachineOptions options =
        machine_options(Head::trained, {.mode = mode, .num_blocks = 80});
    Machine machine(options);
    const std::vector<Answer> expected = plain_answers(machine, specs);
    HeadEngine engine(Head::trained, machine, options);
    const auto core = machine.make_core(engine.core_options(machine));
    expect_equal(machine.answer(*core, specs), expected);
    const uint64_t num_main = core->ledger().steps(DispatchReason::full_uniform);
    const uint64_t num_full = engine.drafter().ledger()->steps(DispatchReason::full_uniform);
    uint64_t num_steps = 0;
    for (const auto& decision : engine.drafter().ledger()->decisions()) num_steps += decision.count;
    // Each uniform step of the main model causes one step of the head, and further drafts cause
    // more steps.
    EXPECT_GT(num_full, num_main);
    EXPECT_EQ(num_steps - num_full, core->counters().num_steps - num_main)
        << "a uniform step without its FULL graph";
  }
}

TEST(DraftHead, trained_for_the_bundled_model_is_often_right) {
  const testing::MachineOptions options = machine_options(Head::trained, {.num_blocks = 80});
  Machine machine(options);
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(testing::bundled_model());
  std::vector<Spec> specs;
  for (const char* name : {"Lily", "Tom", "Ben", "Mia"}) {
    Spec spec{.prompt = tokenizer.encode(fmt::format("Once upon a time, {}", name))};
    spec.params = {.temperature = 0, .max_tokens = 80};
    specs.push_back(spec);
  }
  const std::vector<Answer> expected = plain_answers(machine, specs);
  HeadEngine engine(Head::trained, machine, options);
  RecordingDrafter recorder(engine.drafter());
  const auto core = machine.make_core(engine.core_options(machine, &recorder));
  expect_equal(machine.answer(*core, specs), expected);
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  fmt::print(
      "mean acceptance length {:.2f}\n",
      1 + static_cast<double>(stats.num_accepted_tokens) / static_cast<double>(stats.num_drafts));
  EXPECT_GT(stats.num_accepted_tokens, stats.num_drafts / 2);
  // Every request that asks gets drafts, also after rejected ones.
  EXPECT_EQ(recorder.num_without_drafts(), 0);
}

}  // namespace
}  // namespace reprise
