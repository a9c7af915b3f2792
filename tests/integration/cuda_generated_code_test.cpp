#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/integration/cuda_engine_machine.h"
#include "tests/integration/step_outcome.h"

// Engines on CUDA whose row groups NVRTC generates: their results, their cache entries, and their
// fallback without generated code.
namespace reprise {
namespace {

namespace fs = std::filesystem;
using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::CudaEngineMachine;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::Mix;
using testing::Outcome;
using testing::run;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

TinyEngineOptions small(CudaEngineMachine& machine) {
  return machine.options({.mode = CudagraphMode::FULL,
                          .level = CompilationMode::VLLM_COMPILE,
                          .max_num_tokens = 16,
                          .max_num_reqs = 2});
}

/// The eager results of an engine for one batch with so many tokens that norms are not part of
/// matrix products.
Outcome compute(TinyEngine& engine, Mix mix = Mix::mixed) {
  const TestBatch batch(mix, mix == Mix::uniform_decode ? 2 : 11, 2, 9);
  engine.randomize_kv(5);
  const std::vector<std::byte> kv = engine.save_kv();
  const cudagraph::Decision eager{.descriptor = {.num_tokens = batch.facts().num_tokens}};
  return run(engine, batch, eager, CudagraphRuntimeMode::NONE, kv);
}

bool runs_generated_code(TinyEngine& engine) {
  return engine.execution().executor().num_launches(OpCode::row_group) > 0;
}

/// The results without generated code.
Outcome expected(CudaEngineMachine& machine) {
  TinyEngineOptions options = small(machine);
  options.generator.reset();
  TinyEngine engine(options);
  Outcome outcome = compute(engine);
  EXPECT_FALSE(runs_generated_code(engine));
  return outcome;
}

TEST(CudaGeneratedCode, has_the_bits_of_the_ops_one_by_one) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CudaEngineMachine machine;
    TinyEngineOptions options = small(machine);
    options.dtype = dtype;
    TinyEngine generated(options);
    options.generator.reset();
    TinyEngine one_by_one(options);
    EXPECT_GT(generated.compilation().counter.num_generated_kernels, 0U);
    EXPECT_EQ(generated.compilation().backend, "nvrtc");
    for (const Mix mix : {Mix::prefill, Mix::uniform_decode, Mix::mixed, Mix::chunked}) {
      expect_same_bits(compute(one_by_one, mix), compute(generated, mix), to_string(mix));
    }
    EXPECT_TRUE(runs_generated_code(generated));
    EXPECT_FALSE(runs_generated_code(one_by_one));
  }
}

/// Uses the fake driver and a folder for the cache.
class CudaCodeOverFake : public ::testing::Test {
 protected:
  CudaCodeOverFake() {
    std::string name = (fs::temp_directory_path() / "reprise-cuda-cache-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~CudaCodeOverFake() override { fs::remove_all(root_); }
  void SetUp() override {
    if (machine_.is_real()) GTEST_SKIP() << "only fakes count and fail on demand";
    want_ = expected(machine_);
  }
  void TearDown() override {
    if (machine_.is_real()) return;
    EXPECT_EQ(machine_.fake().driver().misuses(), std::vector<std::string>{});
    EXPECT_EQ(machine_.fake_nvrtc().num_programs(), 0U);
  }

  TinyEngineOptions options() {
    TinyEngineOptions options = small(machine_);
    options.warnings = &warnings_;
    return options;
  }
  TinyEngineOptions cached() {
    TinyEngineOptions with_cache = options();
    with_cache.compile_cache = root_ / "cache";
    return with_cache;
  }
  void expect_start_without_code(const TinyEngineOptions& options, const std::string& why) {
    TinyEngine engine(options);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(why)));
    EXPECT_EQ(engine.compilation().backend, "eager");
    EXPECT_EQ(engine.compilation().counter.num_generated_kernels, 0U);
    expect_same_bits(want_, compute(engine), why);
    EXPECT_FALSE(runs_generated_code(engine));
  }
  /// The only file of the entry that is a cubin.
  fs::path cached_cubin() const {
    for (const auto& entry : fs::recursive_directory_iterator(root_ / "cache")) {
      if (entry.is_regular_file() && read(entry.path()).starts_with("\177ELF")) return entry.path();
    }
    ADD_FAILURE() << "no cubin in the cache";
    return {};
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  CudaEngineMachine machine_;
  fs::path root_;
  std::vector<std::string> warnings_;
  Outcome want_;
};

TEST_F(CudaCodeOverFake, warm_loads_cubins_and_does_not_open_nvrtc) {
  {
    TinyEngine cold(cached());
    EXPECT_EQ(cold.compilation().cache_saved, "saved");
    EXPECT_LE(machine_.fake_nvrtc().num_compilations(), 2U)
        << "one for all groups of a range of sizes";
  }
  EXPECT_EQ(machine_.fake_nvrtc().num_opened(), 1U);
  TinyEngine warm(cached());
  EXPECT_EQ(machine_.fake_nvrtc().num_opened(), 1U);
  EXPECT_EQ(warm.compilation().cache_outcome, "hit");
  EXPECT_EQ(warm.compilation().counter.num_backend_compilations, 0U);
  expect_same_bits(want_, compute(warm), "warm");
  EXPECT_TRUE(runs_generated_code(warm));
  EXPECT_THAT(warnings_, ElementsAre());
}

TEST_F(CudaCodeOverFake, is_kept_for_its_architecture_and_version_only) {
  {
    TinyEngine cold(cached());
  }
  const uint64_t compilations = machine_.fake_nvrtc().num_compilations();
  TinyEngineOptions other = cached();
  other.generator = compile::cuda_code_generator(
      "sm_75", *machine_.code_target().loader, [this] { return machine_.fake_nvrtc().open(); });
  TinyEngine engine(other);
  EXPECT_EQ(engine.compilation().cache_saved, "saved") << "beside the other one";
  EXPECT_EQ(machine_.fake_nvrtc().num_compilations(), 2 * compilations);
}

TEST_F(CudaCodeOverFake, heals_when_the_cubin_in_the_cache_is_damaged) {
  {
    TinyEngine cold(cached());
  }
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    const fs::path path = cached_cubin();
    std::string bytes = read(path);
    if (i % 2 == 0) {
      bytes.resize(bytes.size() * static_cast<size_t>(i) / 12);
    } else {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    std::ofstream(path, std::ios::binary) << bytes;
    TinyEngine healed(cached());
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("compiling again")));
    EXPECT_EQ(healed.compilation().cache_saved, "saved");
    expect_same_bits(want_, compute(healed), fmt::format("damage {}", i));
    EXPECT_TRUE(runs_generated_code(healed));
    TinyEngine warm(cached());
    EXPECT_EQ(warm.compilation().cache_outcome, "hit");
  }
}

TEST_F(CudaCodeOverFake, is_done_without_where_there_is_no_nvrtc_or_another_one) {
  TinyEngineOptions without = cached();
  const auto open_as = [&](compile::LoadedNvrtc nvrtc) {
    without.generator = compile::cuda_code_generator(machine_.code_target().architecture,
                                                     *machine_.code_target().loader,
                                                     [nvrtc] { return nvrtc; });
  };
  open_as({.api = {}, .reason = "libnvrtc.so.13: no such file"});
  expect_start_without_code(without, "no such file");
  compile::LoadedNvrtc older = machine_.fake_nvrtc().open();
  older.api.version = [](int* major, int* minor) {
    *major = 11;
    *minor = 8;
    return 0;
  };
  open_as(older);
  expect_start_without_code(without, "nvrtc 11.8");
  // Neither of the two results was saved under the key of the complete one.
  TinyEngine whole(cached());
  EXPECT_EQ(whole.compilation().cache_outcome.find("hit"), std::string::npos);
  EXPECT_GT(whole.compilation().counter.num_generated_kernels, 0U);
}

TEST_F(CudaCodeOverFake, is_done_without_when_any_call_of_nvrtc_fails) {
  uint64_t k = 1;
  for (;; ++k) {
    machine_.fake_nvrtc().fail_call(k);
    TinyEngine engine(options());
    if (!machine_.fake_nvrtc().has_failed()) break;
    expect_same_bits(want_, compute(engine), fmt::format("call {} of NVRTC", k));
    // A failure to unload the code has no consequence.
    const bool has_code = engine.compilation().counter.num_generated_kernels > 0;
    EXPECT_EQ(warnings_.size(), has_code ? 0U : 1U);
    EXPECT_EQ(runs_generated_code(engine), has_code);
    EXPECT_EQ(engine.compilation().backend, has_code ? "nvrtc" : "eager");
    EXPECT_EQ(machine_.fake_nvrtc().num_programs(), 0U) << "call " << k;
  }
  EXPECT_GT(k, 5U);
}

/// Makes call number k of the loader fail, if there are that many calls.
class FailingLoader final : public device::CodeLoader {
 public:
  FailingLoader(CudaEngineMachine& machine, uint64_t k, CUresult error)
      : machine_(machine), k_(k), error_(error) {}

  [[nodiscard]] std::unique_ptr<device::LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const override {
    machine_.fake().driver().fail_call(k_, error_);
    auto code = machine_.code_target().loader->load(object, functions);
    machine_.fake().driver().fail_call(0);
    has_loaded = true;
    return code;
  }

  mutable bool has_loaded = false;

 private:
  CudaEngineMachine& machine_;
  uint64_t k_;
  CUresult error_;
};

TEST_F(CudaCodeOverFake, is_done_without_when_any_call_of_loading_it_fails) {
  const size_t modules = machine_.fake().driver().resources().modules;
  uint64_t k = 1;
  for (;; ++k) {
    const FailingLoader loader(machine_, k, CUDA_ERROR_OUT_OF_MEMORY);
    TinyEngineOptions failing = options();
    failing.generator->loader = &loader;
    TinyEngine engine(failing);
    machine_.fake().driver().fail_call(0);
    if (loader.has_loaded) break;
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
    EXPECT_EQ(machine_.fake().driver().resources().modules, modules) << "call " << k;
    EXPECT_EQ(engine.compilation().backend, "eager");
    expect_same_bits(want_, compute(engine), fmt::format("call {} of loading", k));
  }
  EXPECT_GT(k, 2U);
}

TEST_F(CudaCodeOverFake, is_no_reason_to_go_on_with_a_lost_device) {
  const FailingLoader loader(machine_, 2, CUDA_ERROR_ILLEGAL_ADDRESS);
  TinyEngineOptions failing = options();
  failing.generator->loader = &loader;
  EXPECT_THROW(TinyEngine{failing}, device::DeviceError);
  machine_.fake().driver().fail_call(0);
}

TEST_F(CudaCodeOverFake, is_loaded_once_before_captures_and_unloaded_after_their_graphs) {
  const size_t modules = machine_.fake().driver().resources().modules;
  {
    TinyEngine engine(options());
    const size_t loaded = machine_.fake().driver().resources().modules;
    EXPECT_GT(loaded, modules);
    const cudagraph::CaptureReport report = engine.runner().capture({});
    EXPECT_GT(report.num_captured(), 0U);
    EXPECT_EQ(machine_.fake().driver().resources().modules, loaded);
  }
  EXPECT_EQ(machine_.fake().driver().resources().modules, modules);
}

}  // namespace
}  // namespace reprise
