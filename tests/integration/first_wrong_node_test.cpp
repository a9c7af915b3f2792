#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "reprise/runner/quarantine_report.h"
#include "tests/integration/hostile_kernels.h"
#include "tests/integration/step_outcome.h"
#include "tests/support/fake_device/fake_device.h"
#include "tests/support/weights/weights_fixture.h"

// A kernel that is wrong only in replays must be named as the first wrong node: in the run that
// found it, and from its report in another engine.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

struct PlantedKernel {
  const char* name;
  void (*plant)(kernels::KernelTable&);
  std::string kernel;  // a part of its name
  std::string config = testing::kTinyQwen3Config;
};

std::vector<PlantedKernel> planted_kernels() {
  return {
      {"stale_address", testing::plant_stale_address, "rms_norm"},
      {"missing_node", testing::plant_missing_node, "silu_and_mul"},
      {"baked_tokens", testing::plant_baked_tokens, "gather_rows"},
      {"stale_positions", testing::plant_stale_positions, "rope"},
      {"aliased_state", testing::plant_aliased_state, "causal_conv1d", testing::kTinyBambaConfig}};
}

class FirstWrongNode : public ::testing::TestWithParam<std::tuple<size_t, CudagraphMode>> {
 protected:
  static PlantedKernel planted() { return planted_kernels()[std::get<0>(GetParam())]; }
  TinyEngineOptions options(bool is_hostile) {
    TinyEngineOptions options{.mode = std::get<1>(GetParam()),
                              .num_threads = 1,
                              .config = planted().config,
                              .shadow = {.rate = 1, .report_folder = folder_.path()}};
    if (is_hostile) options.make_executor = testing::hostile_executor(planted().plant);
    return options;
  }

  weights::TempDirectory folder_;
};

TEST_P(FirstWrongNode, is_named_in_the_logarithm_of_replays_and_again_from_the_report) {
  if (planted().kernel == "causal_conv1d" && std::get<1>(GetParam()) == CudagraphMode::PIECEWISE) {
    GTEST_SKIP() << "states are in no PIECEWISE graph";
  }
  TinyEngine engine(options(true));
  (void)engine.runner().capture({});
  engine.randomize_kv(5);
  const TestBatch batch(Mix::uniform_decode, 5, 16, 40);
  (void)engine.runner().execute(batch.requests(), batch.facts());
  const std::vector<runner::QuarantinedKey> keys = engine.runner().shadow()->keys();
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_THAT(keys[0].wrong_node, ::testing::HasSubstr(planted().kernel));
  ASSERT_TRUE(std::filesystem::exists(keys[0].report));

  runner::SavedStep saved(keys[0].report);
  EXPECT_EQ(saved.decision().mode, keys[0].mode);
  EXPECT_EQ(saved.decision().descriptor, keys[0].descriptor);
  const Json& node = saved.report().at("first_wrong_node");
  const auto num_nodes = node.at("num_nodes").get<uint64_t>();
  EXPECT_GT(num_nodes, 10U);
  EXPECT_LE(node.at("num_prefix_replays").get<int>(), std::bit_width(num_nodes - 1));
  EXPECT_THAT(node.at("kernel").get<std::string>(), ::testing::HasSubstr(planted().kernel));
  EXPECT_FALSE(node.at("outputs").empty());
  if (keys[0].mode == CudagraphRuntimeMode::FULL) {
    // The first launch of this kernel, but no later one.
    const auto launches = engine.runner().shadow()->captured().of(keys[0].mode, keys[0].descriptor);
    const auto first = std::ranges::find_if(launches, [&](const runner::StepLaunch& launch) {
      return std::string_view(launch.kernel->name).find(planted().kernel) != std::string::npos;
    });
    EXPECT_EQ(node.at("node").get<int64_t>(), first - launches.begin());
  }

  TinyEngine other(options(true));
  (void)other.runner().capture({});
  saved.load_into(other.runner().shadow()->memory(), other.execution().stream());
  const runner::WrongNode again =
      other.runner().find_wrong_node(saved.requests(), saved.decision());
  EXPECT_EQ(again.problem, "");
  EXPECT_EQ(again.node, node.at("node").get<uint64_t>());
  EXPECT_EQ(again.kernel, node.at("kernel").get<std::string>());

  runner::SavedStep once_more(keys[0].report);
  TinyEngine healthy(options(false));
  (void)healthy.runner().capture({});
  once_more.load_into(healthy.runner().shadow()->memory(), healthy.execution().stream());
  EXPECT_THAT(healthy.runner().find_wrong_node(once_more.requests(), once_more.decision()).problem,
              ::testing::HasSubstr("did not come again"));
}

INSTANTIATE_TEST_SUITE_P(kernels_and_modes,
                         FirstWrongNode,
                         ::testing::Combine(::testing::Range(size_t{0}, planted_kernels().size()),
                                            ::testing::Values(CudagraphMode::PIECEWISE,
                                                              CudagraphMode::FULL)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              planted_kernels()[std::get<0>(param_info.param)].name,
                                              to_string(std::get<1>(param_info.param)));
                         });

// A search in a correct graph finds nothing: every prefix is right, in all modes and at levels with
// programs, in which graphs and eager runs share memory.
TEST(FirstWrongNodeOfAHealthyGraph, is_none) {
  for (const CudagraphMode mode : {CudagraphMode::PIECEWISE, CudagraphMode::FULL}) {
    for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
      for (const char* config : {testing::kTinyQwen3Config, testing::kTinyQwen3NextConfig}) {
        TinyEngine engine({.mode = mode, .level = level, .config = config, .shadow = {.rate = 1}});
        (void)engine.runner().capture({});
        engine.randomize_kv(6);
        for (const Mix mix : {Mix::uniform_decode, Mix::mixed}) {
          const TestBatch batch(mix, 7, 16, 3);
          const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
          if (decision.mode == CudagraphRuntimeMode::NONE) continue;
          const runner::WrongNode node =
              engine.runner().find_wrong_node(batch.requests(), decision);
          EXPECT_THAT(node.problem, ::testing::HasSubstr("did not come again"))
              << to_string(mode) << ' ' << to_string(level) << ": " << to_string(node);
        }
      }
    }
  }
}

TEST(FirstWrongNodeOfAHealthyGraph, is_not_looked_for_on_a_device_without_probes) {
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  TinyEngine engine({.mode = CudagraphMode::FULL, .device = fake.get(), .shadow = {.rate = 1}});
  (void)engine.runner().capture({});
  const TestBatch batch(Mix::uniform_decode, 3, 16, 3);
  const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
  EXPECT_THAT(engine.runner().find_wrong_node(batch.requests(), decision).problem,
              ::testing::HasSubstr("cannot replay the first nodes"));
}

TEST(SavedStep, refuses_a_report_that_is_damaged_or_of_another_model) {
  weights::TempDirectory folder;
  const std::filesystem::path path = folder.path() / "report.json";
  EXPECT_THROW(runner::SavedStep{path}, FileError);
  std::ofstream(path) << "{}";
  EXPECT_THROW(runner::SavedStep{path}, FileError);
  TinyEngine engine({.mode = CudagraphMode::FULL,
                     .num_threads = 1,
                     .make_executor = testing::hostile_executor(testing::plant_missing_node),
                     .shadow = {.rate = 1, .report_folder = folder.path()}});
  (void)engine.runner().capture({});
  const TestBatch batch(Mix::uniform_decode, 3, 16, 3);
  (void)engine.runner().execute(batch.requests(), batch.facts());
  const std::filesystem::path report = engine.runner().shadow()->keys().at(0).report;
  TinyEngine other({.dtype = DType::f32, .shadow = {.rate = 1}});
  runner::SavedStep saved(report);
  EXPECT_THROW(saved.load_into(other.runner().shadow()->memory(), other.execution().stream()),
               InvalidArgument);
  std::filesystem::path state = report;
  std::filesystem::resize_file(state.replace_extension(".state"), 10);
  runner::SavedStep cut(report);
  EXPECT_THROW(cut.load_into(engine.runner().shadow()->memory(), engine.execution().stream()),
               FileError);
}

}  // namespace
}  // namespace reprise
