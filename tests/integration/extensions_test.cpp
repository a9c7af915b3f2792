#include "reprise/compile/model/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/extension/clip_extension.h"
#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/compile/model/extension_plugin.h"
#include "reprise/kernels/isa.h"
#include "tests/support/source_dir.h"

// Ops, passes and compilers of users in an engine, taken from the example.
namespace reprise {
namespace {

namespace fs = std::filesystem;
using api::EngineArgs;
using api::LLM;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kPrompts = {"Once upon a time", "The little fox", "7"};

class ExtensionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("reprise_extensions_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    extensions_ = std::make_shared<compile::Extensions>();
    example::add_clip_extension(*extensions_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] EngineArgs arguments(Json config) const {
    EngineArgs args;
    args.model = fs::path(source_dir()) / "models/reprise-tiny";
    args.device = "cpu";
    args.max_num_seqs = 4;
    args.max_num_batched_tokens = 64;
    args.max_model_len = 128;
    args.num_threads = 2;
    args.compile_cache_root = folder_;
    args.extensions = extensions_;
    args.compilation_config = std::move(config);
    return args;
  }
  struct Result {
    std::vector<std::vector<int32_t>> tokens;
    api::StartupReport report;
  };
  [[nodiscard]] Result run(Json config) const {
    LLM llm(arguments(std::move(config)));
    Result result{.tokens = {}, .report = llm.startup_report()};
    for (const auto& answer :
         llm.generate(kPrompts, {.temperature = 0, .max_tokens = 12, .ignore_eos = true})) {
      result.tokens.push_back(answer.output.token_ids);
    }
    return result;
  }
  void add_pass(std::string name, std::function<size_t(program::Program&)> apply) const {
    extensions_->add_pass({.name = std::move(name), .uuid = "1", .apply = std::move(apply)});
  }

  fs::path folder_;
  std::shared_ptr<compile::Extensions> extensions_;
};

Json split_at_clips(const char* mode) {
  return {{"cudagraph_mode", mode},
          {"inductor_passes", {{"pre_grad_custom_pass", "clip_residuals"}}},
          {"splitting_ops", {"vllm::unified_attention_with_output", "example::clip"}}};
}

TEST_F(ExtensionsTest, an_op_of_the_user_splits_the_model_and_runs_between_graphs) {
  const Result plain = run({{"mode", 0}, {"cudagraph_mode", "NONE"}});
  for (const char* mode : {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
    const Result split = run(split_at_clips(mode));
    EXPECT_EQ(split.tokens, plain.tokens) << mode;
    // Six layers with attention and two sums each: 18 split points.
    EXPECT_EQ(split.report.compilation.counter.num_piecewise_graphs_seen,
              split.report.compilation.cache_outcome == "hit" ? 0U : 37U)
        << mode;
    EXPECT_THAT(split.report.warnings,
                ::testing::Not(::testing::Contains(HasSubstr("splitting_ops"))));
  }
}

TEST_F(ExtensionsTest, an_op_of_the_user_runs_in_graphs_and_in_eager_steps) {
  const Result plain = run({{"cudagraph_mode", "NONE"}});
  Json config = {{"inductor_passes", {{"pre_grad_custom_pass", "clip_residuals_hard"}}}};
  std::vector<std::vector<int32_t>> clipped;
  for (const char* mode : {"NONE", "PIECEWISE", "FULL"}) {
    config["cudagraph_mode"] = mode;
    const Result hard = run(config);
    EXPECT_NE(hard.tokens, plain.tokens) << mode;
    if (clipped.empty()) clipped = hard.tokens;
    EXPECT_EQ(hard.tokens, clipped) << mode;
  }
}

TEST_F(ExtensionsTest, a_split_point_that_no_program_has_is_a_warning) {
  const Result result = run({{"splitting_ops", {"attention", "mine::op", "vllm::mamba_mixer"}}});
  EXPECT_THAT(
      result.report.warnings,
      ::testing::Contains(::testing::AllOf(HasSubstr("'mine::op'"), HasSubstr("attention"))));
  EXPECT_THAT(result.report.warnings, ::testing::Not(::testing::Contains(HasSubstr("mamba"))));
}

TEST_F(ExtensionsTest, passes_run_before_the_split_before_the_passes_and_after_them) {
  std::vector<std::string> order;
  const auto note = [&](std::string name) {
    add_pass(name, [&order, name](program::Program& program) {
      const bool is_whole = program.outputs.size() == 1 && program.inputs.size() > 4 &&
                            program.parameters.size() > 20;
      size_t fused = 0;
      for (const auto& node : program.nodes) fused += node.op == OpCode::fused_add_rms_norm;
      order.push_back(name + (is_whole ? " whole" : " piece") + (fused > 0 ? " fused" : ""));
      return size_t{0};
    });
  };
  note("first");
  note("middle");
  note("last");
  (void)run({{"compile_ranges_endpoints", Json::array()},
             {"inductor_passes",
              {{"pre_grad_custom_pass", "first"},
               {"post_grad_custom_pre_pass", "middle"},
               {"post_grad_custom_post_pass", {"last"}}}}});
  ASSERT_FALSE(order.empty());
  EXPECT_EQ(order.front(), "first whole");
  EXPECT_EQ(std::count(order.begin(), order.end(), "middle piece"),
            std::count_if(
                order.begin(), order.end(), [](const auto& o) { return o.starts_with("last"); }));
  EXPECT_THAT(order, ::testing::Contains("last piece fused"));
  EXPECT_THAT(order, ::testing::Not(::testing::Contains("middle piece fused")));
}

TEST_F(ExtensionsTest, a_pass_that_fails_makes_the_model_run_its_own_code) {
  const Result plain = run({{"cudagraph_mode", "NONE"}});
  add_pass("throws", [](program::Program&) -> size_t { throw std::runtime_error("boom"); });
  add_pass("breaks", [](program::Program& program) {
    program.nodes.erase(program.nodes.begin());
    return size_t{1};
  });
  add_pass("changes_results", [](program::Program& program) {
    program.outputs.push_back(program.outputs.front());
    return size_t{1};
  });
  for (const auto& [key, name, part] :
       {std::tuple{"post_grad_custom_post_pass", "throws", "throws"},
        {"post_grad_custom_pre_pass", "breaks", "breaks"},
        {"pre_grad_custom_pass", "throws", "boom"},
        {"pre_grad_custom_pass", "changes_results", "changed"}}) {
    const Result result = run({{"inductor_passes", {{key, name}}}});
    EXPECT_EQ(result.tokens, plain.tokens) << name;
    EXPECT_THAT(result.report.compilation.refused, HasSubstr(part));
    EXPECT_THAT(result.report.compilation.refused, HasSubstr(name));
    EXPECT_THAT(result.report.warnings, ::testing::Contains(HasSubstr("level 0")));
  }
}

TEST_F(ExtensionsTest, the_cache_key_contains_the_passes_and_their_versions) {
  const Json config = {{"inductor_passes", {{"pre_grad_custom_pass", "counted"}}}};
  int calls = 0;
  const auto start = [&](std::string uuid) {
    extensions_ = std::make_shared<compile::Extensions>();
    extensions_->add_pass({.name = "counted", .uuid = std::move(uuid), .apply = [&](auto&) {
                             ++calls;
                             return size_t{0};
                           }});
    return run(config).report.compilation.cache_outcome;
  };
  EXPECT_NE(start("1"), "hit");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(start("1"), "hit");
  EXPECT_EQ(calls, 1);
  EXPECT_NE(start("2"), "hit");
  EXPECT_EQ(calls, 2);
}

// ---- compilers ----

/// LLVM's compiler, which also records the engine's calls.
class WatchedCompiler final : public compile::CompilerInterface {
 public:
  WatchedCompiler(std::unique_ptr<CompilerInterface> inner, std::vector<std::string>& calls)
      : inner_(std::move(inner)), calls_(&calls) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "watched"; }
  void initialize_cache(const fs::path& directory) override {
    calls_->push_back("initialize_cache " + directory.filename().string());
  }
  [[nodiscard]] std::string compute_hash() const override { return "watched 1"; }
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override {
    return inner_->why_not(body);
  }
  [[nodiscard]] std::vector<std::byte> compile(
      std::span<const compile::RowGroupSource> sources) override {
    calls_->emplace_back("compile");
    return inner_->compile(sources);
  }
  [[nodiscard]] std::unique_ptr<device::LoadedCode> load(
      std::span<const std::byte> object,
      std::span<const std::string> functions,
      const device::CodeLoader& loader) override {
    calls_->emplace_back("load");
    return is_broken ? nullptr : loader.load(object, functions);
  }
  [[nodiscard]] compile::CodegenListing list(
      std::span<const compile::RowGroupSource> sources) override {
    return inner_->list(sources);
  }
  bool is_broken = false;

 private:
  std::unique_ptr<CompilerInterface> inner_;
  std::vector<std::string>* calls_;
};

class UserCompilerTest : public ExtensionsTest {
 protected:
  void SetUp() override {
    ExtensionsTest::SetUp();
    const auto paths = compile::default_codegen_plugin_paths();
    if (compile::load_codegen_plugin(paths, kernels::Isa::scalar).compiler == nullptr) {
      GTEST_SKIP() << "built without LLVM 19";
    }
    extensions_->add_compiler(
        {.name = "watched", .create = [this, paths](std::string_view target) {
           auto inner = compile::load_codegen_plugin(paths, *kernels::parse_isa(target));
           auto compiler = std::make_unique<WatchedCompiler>(std::move(inner.compiler), calls_);
           compiler->is_broken = is_broken_;
           return compiler;
         }});
  }
  // The calls in order, each once. Ranges of batch sizes compile and load several times.
  [[nodiscard]] std::vector<std::string> calls() {
    std::vector<std::string> kinds = std::exchange(calls_, {});
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    return kinds;
  }

  std::vector<std::string> calls_;
  bool is_broken_ = false;
};

TEST_F(UserCompilerTest, compiles_once_and_later_starts_only_load) {
  const Result plain = run(Json::object());
  const Result first = run({{"backend", "watched"}});
  EXPECT_EQ(first.report.compilation.backend, "watched");
  EXPECT_EQ(first.tokens, plain.tokens);
  EXPECT_THAT(calls(), ElementsAre("initialize_cache watched", "compile", "load"));
  const Result second = run({{"backend", "watched"}});
  EXPECT_EQ(second.report.compilation.cache_outcome, "hit");
  EXPECT_EQ(second.tokens, plain.tokens);
  EXPECT_THAT(calls(), ElementsAre("initialize_cache watched", "load"));
}

TEST_F(UserCompilerTest, that_cannot_load_its_code_is_replaced_by_single_ops) {
  is_broken_ = true;
  const Result result = run({{"backend", "watched"}});
  EXPECT_EQ(result.tokens, run({{"backend", "eager"}}).tokens);
  EXPECT_THAT(result.report.warnings,
              ::testing::Contains(HasSubstr("compiler watched: load() gave no code")));
}

TEST_F(UserCompilerTest, whose_own_files_are_lost_compiles_again) {
  const Json config = {{"backend", "kept_files"}};
  const Result first = run(config);
  ASSERT_EQ(run(config).report.compilation.cache_outcome, "hit");
  ASSERT_GT(fs::remove_all(folder_ / "compilers" / "kept_files"), 1U);
  const Result third = run(config);
  EXPECT_EQ(third.tokens, first.tokens);
  EXPECT_THAT(third.report.compilation.cache_outcome, HasSubstr("cannot read"));
  EXPECT_EQ(run(config).report.compilation.cache_outcome, "hit");
}

TEST_F(UserCompilerTest, without_a_cache_gets_no_folder) {
  EngineArgs args = arguments({{"backend", "watched"}});
  args.disable_compile_cache = true;
  LLM llm(args);
  EXPECT_THAT(calls(), ElementsAre("initialize_cache ", "compile", "load"));
}

// ---- names ----

TEST(Extensions, refuse_names_that_are_taken_or_unusable) {
  const auto pass = [](std::string name) {
    return compile::UserPass{
        .name = std::move(name), .uuid = "", .apply = [](auto&) { return size_t{0}; }};
  };
  const auto compiler = [](std::string name) {
    return compile::UserCompiler{.name = std::move(name),
                                 .create = [](std::string_view) { return nullptr; }};
  };
  const auto op = [](std::string name) {
    return CustomOp{.name = std::move(name), .num_inputs = 1, .infer_types = [](auto, auto) {}};
  };
  compile::Extensions extensions;
  extensions.add_pass(pass("mine"));
  extensions.add_op(op("my::op"));
  extensions.add_compiler(compiler("mine"));
  EXPECT_THROW(extensions.add_pass(pass("mine")), InvalidArgument);
  EXPECT_THROW(extensions.add_pass(pass("my pass")), InvalidArgument);
  EXPECT_THROW(extensions.add_pass(pass("../x")), InvalidArgument);
  EXPECT_THROW(extensions.add_pass({.name = "empty", .uuid = "", .apply = {}}), InvalidArgument);
  EXPECT_THROW(extensions.add_op(op("my::op")), InvalidArgument);
  EXPECT_THROW(extensions.add_op(op("op")), InvalidArgument);
  EXPECT_THROW(extensions.add_op(op("my::")), InvalidArgument);
  EXPECT_THROW(extensions.add_compiler(compiler("inductor")), InvalidArgument);
  EXPECT_THROW(extensions.add_compiler(compiler("mine")), InvalidArgument);
  EXPECT_EQ(extensions.find_pass("other"), nullptr);
  EXPECT_EQ(extensions.ops().size(), 1U);
}

TEST(Extensions, a_file_that_is_no_extension_is_an_error_that_names_it) {
  compile::Extensions extensions;
  for (const char* path : {"/nowhere/extension.so", "/etc/hostname", "/tmp"}) {
    try {
      compile::load_extension(path, extensions);
      ADD_FAILURE() << path;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

}  // namespace
}  // namespace reprise
