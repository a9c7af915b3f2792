// Random bodies through every instruction set: the same bits as op by op, wherever the results lie.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/compile/codegen/codegen_fixture.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"

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

constexpr std::array<int64_t, 8> kHeadWidths = {2, 6, 16, 30, 32, 64, 66, 128};

/// A handful of ops over rows of some width, by chance also in heads.
class RandomBody {
 public:
  RandomBody(uint32_t seed, DType dtype) : random_(seed), dtype_(dtype) {
    head_ = kHeadWidths[random_() % kHeadWidths.size()];
    heads_ = 1 + random_() % 3;
    width_ = head_ * heads_;
    if (random_() % 4 == 0) {  // one head that is wide enough for a loop
      heads_ = 1;
      width_ = head_ = 2 * (100 + random_() % 400);
    }
    for (int i = 0; i < 2; ++i) rows_.push_back(input({Symbol::num_tokens, width_}));
  }

  Program make() {
    const size_t steps = 1 + random_() % 6;
    for (size_t i = 0; i < steps; ++i) add_step();
    const size_t outputs = 1 + random_() % 3;
    for (size_t i = 0; i < outputs; ++i) {
      body_.outputs.push_back(
          rows_[rows_.size() - 1 - random_() % std::min<size_t>(rows_.size(), 4)]);
    }
    return std::move(body_);
  }

 private:
  ValueId input(program::SymShape shape, DType dtype) {
    return body_.add_input(fmt::format("in{}", body_.inputs.size()), {dtype, shape});
  }
  ValueId input(program::SymShape shape) { return input(shape, dtype_); }
  ValueId add(OpCode op,
              std::vector<ValueId> inputs,
              program::SymShape shape,
              NodeAttributes attributes = {}) {
    const ValueId result = body_.add_value({dtype_, shape});
    body_.nodes.push_back({op, attributes, std::move(inputs), {result}});
    return result;
  }
  ValueId any_row() { return rows_[random_() % rows_.size()]; }
  bool has_room() const { return body_.inputs.size() < 10; }

  void add_step() {
    const program::SymShape shape = {Symbol::num_tokens, width_};
    switch (random_() % (has_room() ? 8 : 2)) {
      default:
        return rows_.push_back(add(OpCode::add, {any_row(), any_row()}, shape));
      case 2:
        return rows_.push_back(
            add(OpCode::rms_norm, {any_row(), input({width_})}, shape, {.epsilon = 1e-5F}));
      case 3: {
        const ValueId normed = body_.add_value({dtype_, shape});
        const ValueId sum = body_.add_value({dtype_, shape});
        body_.nodes.push_back({OpCode::fused_add_rms_norm,
                               {.epsilon = 1e-6F},
                               {any_row(), any_row(), input({width_})},
                               {normed, sum}});
        rows_.push_back(normed);
        return rows_.push_back(sum);
      }
      case 4: {
        const ValueId ids = input({Symbol::num_tokens}, DType::i32);
        return rows_.push_back(add(OpCode::embedding, {ids, input({37, width_})}, shape));
      }
      case 5:
        return rows_.push_back(
            add(OpCode::silu_and_mul, {input({Symbol::num_tokens, 2 * width_})}, shape));
      case 6:
        return add_part();
      case 7:
        return add_heads();
    }
  }

  // A part of a wider input, at some offset.
  void add_part() {
    const ValueId wide = input({Symbol::num_tokens, width_ + 24});
    const auto begin = static_cast<int64_t>(random_() % 25);
    rows_.push_back(add(OpCode::slice,
                        {wide},
                        {Symbol::num_tokens, width_},
                        {.dim = 1, .begin = begin, .length = width_}));
  }

  // In heads: norm, rotation or both.
  void add_heads() {
    const program::SymShape in_heads = {Symbol::num_tokens, heads_, head_};
    const auto split = [&] {
      return add(OpCode::unflatten, {any_row()}, in_heads, {.length = heads_});
    };
    ValueId q = split();
    ValueId k = split();
    const auto kind = random_() % 3;
    if (kind != 0) q = add(OpCode::rms_norm, {q, input({head_})}, in_heads, {.epsilon = 1e-6F});
    if (kind != 1) {
      const ValueId positions = input({Symbol::num_tokens}, DType::i32);
      const ValueId table = input({37, head_}, DType::f32);
      const ValueId q_turned = body_.add_value({dtype_, in_heads});
      const ValueId k_turned = body_.add_value({dtype_, in_heads});
      body_.nodes.push_back({OpCode::rope, {}, {q, k, positions, table}, {q_turned, k_turned}});
      q = q_turned;
      k = k_turned;
    }
    for (const ValueId value : {q, k}) {
      rows_.push_back(add(OpCode::flatten, {value}, {Symbol::num_tokens, width_}));
    }
  }

  std::mt19937 random_;
  DType dtype_;
  int64_t head_ = 0;
  int64_t heads_ = 0;
  int64_t width_ = 0;
  Program body_;
  std::vector<ValueId> rows_;  // [T, width]
};

struct RandomCase {
  Isa isa = Isa::scalar;
  DType dtype = DType::f32;
};

std::vector<RandomCase> all_cases() {
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
                         testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<RandomCase>& target) {
                           return fmt::format("{}_{}",
                                              kernels::isa_name(target.param.isa),
                                              dtype_name(target.param.dtype));
                         });

}  // namespace
}  // namespace reprise::compile
