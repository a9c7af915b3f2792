#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/engine_plan.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/runner/model_runner.h"
#include "tests/support/source_dir.h"

// `reprise explain` promises the decisions of a start. These tests start engines with random
// options and compare: the dispatcher must be the same, or the refusal.
namespace reprise {
namespace {

namespace fs = std::filesystem;
using api::EngineArgs;
using PlanOutcome = std::variant<cudagraph::DispatcherOptions, std::string>;

std::vector<fs::path> models() {
  std::vector<fs::path> found = {fs::path(source_dir()) / "models/reprise-tiny"};
  for (const char* folder : {"tests/goldens/architectures", "tests/goldens/encoders"}) {
    const fs::path goldens = fs::path(source_dir()) / folder;
    if (!fs::exists(goldens)) continue;
    for (const auto& entry : fs::directory_iterator(goldens)) {
      if (fs::exists(entry.path() / "model.safetensors")) found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

/// Chooses random options as a user might combine them; most are left at their defaults.
class RandomArguments {
 public:
  explicit RandomArguments(uint32_t seed) : random_(seed) {}

  EngineArgs next(const std::vector<fs::path>& models) {
    EngineArgs args;
    args.model = one_of(models);
    args.tokenizer = fs::path(source_dir()) / "models/reprise-tiny";
    args.disable_compile_cache = true;
    args.num_threads = 1;
    args.max_num_seqs = one_of(std::vector<int32_t>{1, 2, 3, 5, 8});
    args.max_num_batched_tokens = one_of(std::vector<int32_t>{16, 33, 64});
    args.max_model_len = 128;
    args.num_gpu_blocks_override = 65;
    args.compilation_config = compilation_config();
    if (sometimes()) {
      args.optimization_level = one_of(std::vector{config::OptimizationLevel::O0,
                                                   config::OptimizationLevel::O1,
                                                   config::OptimizationLevel::O3});
    }
    if (rarely()) args.enforce_eager = true;
    if (sometimes()) args.attention_backend = a_backend();
    if (rarely()) args.flash_attn_version = 2;
    if (rarely()) {
      args.speculative_config = {{"method", "ngram"}, {"num_speculative_tokens", 3}};
    }
    if (rarely()) args.enable_lora = true;
    if (rarely()) args.specialize_active_lora = true;
    if (rarely()) args.runner = "pooling";
    if (rarely()) args.kv_cache_dtype = one_of(std::vector<std::string>{"fp8", "bfloat16", "int8"});
    if (rarely()) args.dtype = one_of(std::vector<std::string>{"float32", "float16", "float8"});
    if (rarely()) args.async_scheduling = true;
    if (rarely()) args.enable_prefix_caching = true;
    return args;
  }

 private:
  bool sometimes() { return random_() % 3 == 0; }
  bool rarely() { return random_() % 10 == 0; }
  template <typename T>
  const T& one_of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }

  std::string a_backend() {
    const auto backends = attention::attention_backends();
    return std::string(backends[random_() % backends.size()].name);
  }

  Json compilation_config() {
    Json config = Json::object();
    if (random_() % 3 != 0) {
      config["cudagraph_mode"] = one_of(std::vector<std::string>{
          "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "FULL_AND_FULL"});
    }
    if (sometimes()) config["mode"] = static_cast<int>(random_() % 4);
    if (sometimes()) {
      config["capture_size_rule"] =
          one_of(std::vector<std::string>{"vllm", "vllm-v1", "vllm-0.10", "atom", "atom-runner"});
    }
    if (sometimes()) {
      Json sizes = Json::array();
      for (uint32_t size = 1 + random_() % 3; size < 40; size += 1 + random_() % 9) {
        sizes.push_back(size);
      }
      config["cudagraph_capture_sizes"] = sizes;
    }
    if (rarely()) config["splitting_ops"] = Json::array();
    if (rarely()) config["splitting_ops"] = {"unified_attention"};
    if (rarely()) config["compile_sizes"] = {1, 7};
    if (rarely()) config["cudagraph_copy_inputs"] = true;
    if (rarely()) config["pass_config"] = {{"enable_sp", true}};
    if (rarely()) config["pass_config"] = {{"fuse_norm_quant", true}};
    if (rarely()) config["full_cuda_graph"] = true;
    if (rarely()) config["cudagraph_lazy_capture"] = true;
    return config;
  }

  std::mt19937 random_;
};

template <typename Decide>
PlanOutcome outcome_of(const Decide& decide) {
  try {
    return decide();
  } catch (const Error& error) {
    return std::string(error.what());
  }
}

std::string text_of(const PlanOutcome& outcome) {
  if (const auto* error = std::get_if<std::string>(&outcome)) return *error;
  const auto& options = std::get<cudagraph::DispatcherOptions>(outcome);
  return fmt::format("{}, {} mixed sizes, {} decode sizes, piecewise {}",
                     to_string(options.mode),
                     options.mixed_capture_sizes.size(),
                     options.decode_capture_sizes.size(),
                     options.piecewise_available);
}

TEST(EnginePlan, is_what_the_start_decides_for_500_random_commands) {
  const std::vector<fs::path> all = models();
  ASSERT_GT(all.size(), 50U);
  RandomArguments random(20261128);
  int num_started = 0;
  int num_refused = 0;
  for (int i = 0; i < 500; ++i) {
    const EngineArgs args = random.next(all);
    const PlanOutcome planned = outcome_of([&] {
      const api::EnginePlan plan = api::plan_engine(args);
      return config::dispatcher_options(plan.main.inputs, plan.main.resolved);
    });
    const PlanOutcome started =
        outcome_of([&] { return api::load_engine(args)->runner->dispatcher().options(); });
    EXPECT_EQ(planned, started) << i << ": " << args.model << " " << args.compilation_config
                                << " backend " << args.attention_backend << "\n  planned "
                                << text_of(planned) << "\n  started " << text_of(started);
    ++(std::holds_alternative<std::string>(started) ? num_refused : num_started);
  }
  // Some commands are refused, and some are accepted.
  EXPECT_GT(num_started, 200);
  EXPECT_GT(num_refused, 20);
}

// vllm#56626: a mode was overridden without any warning.
TEST(EnginePlan, warns_of_each_given_mode_that_it_does_not_keep) {
  const std::vector<fs::path> all = models();
  RandomArguments random(56626);
  std::map<std::string, int> changes;
  for (int i = 0; i < 1500; ++i) {
    const EngineArgs args = random.next(all);
    const auto given = args.compilation_config.find("cudagraph_mode");
    if (given == args.compilation_config.end()) continue;
    try {
      const api::EnginePlan plan = api::plan_engine(args);
      const std::string resolved(to_string(plan.main.resolved.mode));
      const auto asked = given->get<std::string>();
      if (resolved == asked) continue;
      ++changes[fmt::format("{} to {}", asked, resolved)];
      const bool is_told = std::ranges::any_of(plan.warnings, [&](const std::string& warning) {
        return warning.find(resolved) != std::string::npos ||
               warning.find("cudagraph_mode") != std::string::npos ||
               warning.find("enforce_eager") != std::string::npos;
      });
      EXPECT_TRUE(is_told) << i << ": " << args.compilation_config << " became " << resolved
                           << " with " << plan.warnings.size() << " warnings";
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");  // refused, which is told as well
    }
  }
  // Several kinds of changes were seen.
  EXPECT_GE(changes.size(), 5U) << ::testing::PrintToString(changes);
}

TEST(EnginePlan, has_the_graphs_of_a_draft_model) {
  EngineArgs args;
  args.model = fs::path(source_dir()) / "models/reprise-tiny";
  args.max_num_seqs = 4;
  args.disable_compile_cache = true;
  args.speculative_config = {
      {"method", "draft_model"}, {"model", args.model.string()}, {"num_speculative_tokens", 2}};
  const api::EnginePlan plan = api::plan_engine(args);
  const std::unique_ptr<api::LoadedEngine> engine = api::load_engine(args);
  ASSERT_TRUE(plan.draft);
  EXPECT_EQ(config::dispatcher_options(plan.draft->inputs, plan.draft->resolved),
            engine->draft->runner->dispatcher().options());
  EXPECT_EQ(config::dispatcher_options(plan.main.inputs, plan.main.resolved),
            engine->runner->dispatcher().options());
}

}  // namespace
}  // namespace reprise
