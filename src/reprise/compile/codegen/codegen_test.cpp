// Compares generated code with the interpreter, which runs the precompiled kernels of the same
// instruction set. The bits must be equal for any input.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/program/text.h"
#include "tests/support/compile/codegen_fixture.h"

namespace reprise::compile {
namespace {

using device::CpuKernelFunction;
using kernels::Isa;
using program::ObjectCode;
using program::Program;

constexpr std::array<int64_t, 13> kWidths = {1, 3, 15, 16, 17, 31, 32, 33, 64, 96, 127, 896, 4096};

struct CodegenCase {
  Isa isa = Isa::scalar;
  DType dtype = DType::f32;
};

std::vector<CodegenCase> all_cases() {
  std::vector<CodegenCase> cases;
  for (const Isa isa : kernels::supported_isas(device::detect_cpu_features())) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({isa, dtype});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<CodegenCase>& info) {
  return fmt::format("{}_{}", kernels::isa_name(info.param.isa), dtype_name(info.param.dtype));
}

class Codegen : public testing::TestWithParam<CodegenCase> {
 protected:
  void SetUp() override {
    compiler_ = find_compiler(GetParam().isa);
    if (compiler_ == nullptr) GTEST_SKIP() << "built without LLVM 19";
  }

  /// Compiles one function for each body; they are named f0, f1 ...
  ObjectCode compile(std::span<const Program> bodies) {
    std::vector<RowGroupSource> sources;
    for (size_t i = 0; i < bodies.size(); ++i) {
      EXPECT_EQ(compiler_->why_not(bodies[i]), std::nullopt) << program::print(bodies[i]);
      sources.push_back({fmt::format("f{}", i), &bodies[i]});
    }
    return ObjectCode::load(compiler_->compile(sources));
  }
  static CpuKernelFunction function_of(const ObjectCode& code, size_t index) {
    return code.find<CpuKernelFunction>(fmt::format("f{}", index));
  }

  void expect_same_bits(CpuKernelFunction function,
                        const Program& body,
                        const GroupBench::Options& options) {
    SCOPED_TRACE(testing::Message() << options.num_rows << " rows\n" << program::print(body));
    const std::vector<Tensor> inputs = bench_.make_inputs(body, options);
    const std::vector<Tensor> want = bench_.interpret(body, inputs);
    const std::vector<Tensor> got = bench_.make_outputs(body, options.num_rows);
    // Runs blocks of 3 rows. The second half of the blocks runs first.
    const auto arguments = arguments_of(inputs, got, options.num_rows, 3);
    const auto blocks = static_cast<uint32_t>((options.num_rows + 2) / 3);
    function(&arguments, {blocks / 2, blocks});
    function(&arguments, {0, blocks / 2});
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(difference(got[i], want[i]), "") << "output " << i;
    }
  }

  std::unique_ptr<CompilerInterface> compiler_;
  GroupBench bench_{GetParam().isa};
};

TEST_P(Codegen, computes_the_bits_of_the_interpreter_at_edges_of_width_and_rows) {
  std::vector<Program> bodies;
  for (const std::string_view name : body_names()) {
    const bool has_heads = name.find("rope") != std::string_view::npos;
    for (const int64_t width : kWidths) {
      if (has_heads && width > 127) continue;
      bodies.push_back(make_body(name, {.dtype = GetParam().dtype, .width = width}));
    }
  }
  const ObjectCode code = compile(bodies);
  for (size_t i = 0; i < bodies.size(); ++i) {
    for (const int64_t rows : {0, 1, 2, 7, 33}) {
      const bool is_wide = bodies[i].type(bodies[i].outputs[0]).shape[1].constant() > 500;
      if (is_wide && rows > 7) continue;
      for (const Numbers numbers : {Numbers::ordinary, Numbers::any_bits}) {
        const Rows layout = rows % 2 == 1 ? Rows::strided : Rows::dense;
        expect_same_bits(function_of(code, i),
                         bodies[i],
                         {.num_rows = rows, .numbers = numbers, .rows = layout});
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, Codegen, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace reprise::compile
