#include "reprise/compile/codegen/plugin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "reprise/compile/codegen/codegen_target.h"
#include "reprise/device/cpu/cpu_features.h"
#include "tests/support/compile/codegen_fixture.h"

namespace reprise::compile {
namespace {

using kernels::Isa;

// avx512_vnni shares the generated code of avx512.
constexpr std::array kIsas = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};

TEST(CodegenPlugin, is_an_answer_when_it_is_not_there) {
  const std::array<std::filesystem::path, 2> paths = {"/nowhere/a.so", "/nowhere/b.so"};
  const CodegenPlugin plugin = load_codegen_plugin(paths, Isa::scalar);
  EXPECT_EQ(plugin.compiler, nullptr);
  EXPECT_NE(plugin.reason.find("/nowhere/b.so"), std::string::npos) << plugin.reason;
}

TEST(CodegenPlugin, is_an_answer_when_it_cannot_be_loaded) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("reprise_no_plugin_" + std::to_string(getpid()) + ".so");
  std::ofstream(path) << "not a library";
  const CodegenPlugin plugin = load_codegen_plugin({&path, 1}, Isa::scalar);
  EXPECT_EQ(plugin.compiler, nullptr);
  EXPECT_FALSE(plugin.reason.empty());
  std::filesystem::remove(path);
}

TEST(CodegenPlugin, is_an_answer_when_it_was_cut_short) {
  namespace fs = std::filesystem;
  const std::vector<fs::path> paths = default_codegen_plugin_paths();
  const auto whole = std::find_if(
      paths.begin(), paths.end(), [](const fs::path& path) { return fs::exists(path); });
  if (whole == paths.end()) GTEST_SKIP() << "built without LLVM 19";
  const fs::path part =
      fs::temp_directory_path() / ("reprise_cut_plugin_" + std::to_string(getpid()) + ".so");
  fs::copy_file(*whole, part, fs::copy_options::overwrite_existing);
  for (const uintmax_t num_bytes : {fs::file_size(part) - 1, fs::file_size(part) / 2}) {
    fs::resize_file(part, num_bytes);
    const CodegenPlugin plugin = load_codegen_plugin({&part, 1}, Isa::scalar);
    EXPECT_EQ(plugin.compiler, nullptr);
    EXPECT_NE(plugin.reason.find("cut short"), std::string::npos) << plugin.reason;
  }
  fs::remove(part);
}

TEST(CodegenPlugin, has_the_identity_that_is_known_without_it) {
  for (const Isa isa : kIsas) {
    const auto compiler = find_compiler(isa);
    if (compiler == nullptr) GTEST_SKIP() << "built without LLVM 19";
    EXPECT_EQ(compiler->compute_hash(), codegen_identity(isa));
    EXPECT_EQ(compiler->name(), "llvm");
  }
}

TEST(CodegenPlugin, has_another_identity_for_each_instruction_set) {
  if (codegen_identity(Isa::scalar).empty()) GTEST_SKIP() << "built without LLVM 19";
  std::set<std::string> identities;
  for (const Isa isa : kIsas) identities.insert(codegen_identity(isa));
  EXPECT_EQ(identities.size(), kIsas.size());
}

TEST(CodegenPlugin, makes_code_for_machines_that_this_is_not) {
  const program::Program body = make_body("add_rms_norm", {.width = 896});
  const RowGroupSource source = {"kernel", &body};
  for (const Isa isa : kIsas) {
    const auto compiler = find_compiler(isa);
    if (compiler == nullptr) GTEST_SKIP() << "built without LLVM 19";
    const auto code = program::ObjectCode::load(compiler->compile({&source, 1}));
    EXPECT_NE(code.find<void*>("kernel"), nullptr) << kernels::isa_name(isa);
  }
}

TEST(CodegenPlugin, makes_objects_that_are_refused_when_cut) {
  const auto compiler = find_compiler(Isa::avx2);
  if (compiler == nullptr) GTEST_SKIP() << "built without LLVM 19";
  const program::Program body = make_body("embedding_rms_norm", {.width = 896});
  const RowGroupSource source = {"kernel", &body};
  const auto object = compiler->compile({&source, 1});
  for (size_t sixteenth = 0; sixteenth < 16; ++sixteenth) {
    const auto part = std::span(object).first(object.size() * sixteenth / 16);
    EXPECT_THROW((void)program::ObjectCode::load(part), program::ObjectCodeError);
  }
}

// The other tests rely on this: two instruction sets give different bits if they differ in the
// number of lanes or in fused products, so a test would notice code for the wrong one.
TEST(CodegenPlugin, makes_code_whose_bits_tell_instruction_sets_apart) {
  const auto isas = kernels::supported_isas(device::detect_cpu_features());
  const auto compiler = find_compiler(Isa::scalar);
  if (compiler == nullptr) GTEST_SKIP() << "built without LLVM 19";
  const program::Program body = make_body("rms_norm", {.dtype = DType::f32, .width = 896});
  const RowGroupSource source = {"kernel", &body};
  const auto code = program::ObjectCode::load(compiler->compile({&source, 1}));
  for (const Isa isa : isas) {
    GroupBench bench(isa);
    const auto inputs = bench.make_inputs(body, {.num_rows = 20});
    const auto want = bench.interpret(body, inputs);
    const auto got = bench.make_outputs(body, 20);
    const auto arguments = arguments_of(inputs, got, 20, 20);
    code.find<device::CpuKernelFunction>("kernel")(&arguments, {0, 1});
    EXPECT_EQ(difference(got[0], want[0]).empty(), isa == Isa::scalar) << kernels::isa_name(isa);
  }
}

}  // namespace
}  // namespace reprise::compile
