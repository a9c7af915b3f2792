// Runs random bodies on every instruction set. Generated code must give the same bits as the single
// ops, also if results are stored over operands.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"
#include "tests/support/compile/codegen_fixture.h"
#include "tests/support/compile/random_body_fixture.h"

namespace reprise::compile {
namespace {

using device::CpuKernelFunction;
using kernels::Isa;
using program::Node;
using program::NodeAttributes;
using program::Program;
using program::Symbol;
using program::SymInt;
using program::ValueId;
using program::ValueType;

struct RandomCase {
  Isa isa = Isa::scalar;
  DType dtype = DType::f32;
};

std::vector<RandomCase> random_cases() {
  std::vector<RandomCase> cases;
  for (const Isa isa : kernels::supported_isas(device::detect_cpu_features())) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({isa, dtype});
  }
  return cases;
}

class RandomBodies : public testing::TestWithParam<RandomCase> {
 protected:
  void SetUp() override {
    compiler_ = find_compiler(GetParam().isa);
    if (compiler_ == nullptr) GTEST_SKIP() << "built without LLVM 19";
    for (uint32_t seed = 0; bodies_.size() < 40; ++seed) {
      Program body =
          RandomBody(seed * 12 + static_cast<uint32_t>(GetParam().isa), GetParam().dtype).make();
      ASSERT_EQ(program::verify(body), std::nullopt) << program::print(body);
      if (body.inputs.size() + body.outputs.size() > kernels::kMaxRowGroupOperands) continue;
      ASSERT_EQ(compiler_->why_not(body), std::nullopt) << program::print(body);
      bodies_.push_back(std::move(body));
    }
    std::vector<RowGroupSource> sources;
    for (size_t i = 0; i < bodies_.size(); ++i) {
      sources.push_back({fmt::format("f{}", i), &bodies_[i]});
    }
    code_.emplace(program::ObjectCode::load(compiler_->compile(sources)));
  }
  CpuKernelFunction function(size_t body) const {
    return code_->find<CpuKernelFunction>(fmt::format("f{}", body));
  }

  std::unique_ptr<CompilerInterface> compiler_;
  GroupBench bench_{GetParam().isa};
  std::vector<Program> bodies_;
  std::optional<program::ObjectCode> code_;
};

TEST_P(RandomBodies, have_the_bits_of_the_interpreter) {
  for (size_t i = 0; i < bodies_.size(); ++i) {
    for (const Numbers numbers : {Numbers::ordinary, Numbers::any_bits}) {
      const GroupBench::Options options = {
          .num_rows = 5, .numbers = numbers, .rows = i % 2 == 0 ? Rows::strided : Rows::dense};
      const auto inputs = bench_.make_inputs(bodies_[i], options);
      const auto want = bench_.interpret(bodies_[i], inputs);
      const auto got = bench_.make_outputs(bodies_[i], 5);
      const auto arguments = arguments_of(inputs, got, 5, 2);
      function(i)(&arguments, {0, 3});
      for (size_t output = 0; output < got.size(); ++output) {
        ASSERT_EQ(difference(got[output], want[output]), "") << "output " << output << " of\n"
                                                             << program::print(bodies_[i]);
      }
    }
  }
}

TEST_P(RandomBodies, may_write_a_result_where_an_input_of_its_type_lies) {
  size_t shared = 0;
  for (size_t i = 0; i < bodies_.size(); ++i) {
    const Program& body = bodies_[i];
    for (size_t output = 0; output < body.outputs.size(); ++output) {
      for (size_t input = 0; input < body.inputs.size(); ++input) {
        if (body.type(body.inputs[input].value) != body.type(body.outputs[output])) continue;
        const auto inputs = bench_.make_inputs(body, {.num_rows = 3});
        const auto want = bench_.interpret(body, inputs);
        auto got = bench_.make_outputs(body, 3);
        got[output] = inputs[input];
        const auto arguments = arguments_of(inputs, got, 3, 3);
        function(i)(&arguments, {0, 1});
        ++shared;
        for (size_t k = 0; k < got.size(); ++k) {
          ASSERT_EQ(difference(got[k], want[k]), "")
              << "output " << k << ", while output " << output << " is where input " << input
              << " was, of\n"
              << program::print(body);
        }
      }
    }
  }
  EXPECT_GT(shared, 30U);
}

TEST_P(RandomBodies, compile_to_the_same_bytes_twice) {
  std::vector<RowGroupSource> sources;
  for (size_t i = 0; i < 10; ++i) sources.push_back({fmt::format("f{}", i), &bodies_[i]});
  const auto first = compiler_->compile(sources);
  EXPECT_EQ(first, compiler_->compile(sources));
  EXPECT_EQ(first, find_compiler(GetParam().isa)->compile(sources));
}

INSTANTIATE_TEST_SUITE_P(AllTargets,
                         RandomBodies,
                         testing::ValuesIn(random_cases()),
                         [](const testing::TestParamInfo<RandomCase>& target) {
                           return fmt::format("{}_{}",
                                              kernels::isa_name(target.param.isa),
                                              dtype_name(target.param.dtype));
                         });

}  // namespace
}  // namespace reprise::compile
