#include "reprise/program/guarded_function.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "reprise/program/compilable_function.h"
#include "reprise/tensor/ops.h"
#include "tests/support/program/program_fixture.h"

// Rows SPL-15 and SPL-16 of the behaviour reference. They call a function that branches at four
// rows, once with fewer rows and once with more. vLLM's STOCK_TORCH_COMPILE (level 1) computes the
// right result on both sides. vLLM's DYNAMO_TRACE_ONCE reuses the first trace for both sides, which
// is wrong, so levels 2 and 3 of Reprise refuse to trace this function.
namespace reprise::program {
namespace {

class Guarded : public testing::Test {
 protected:
  Guarded() {
    signature_.inputs = {{"x", {DType::f32, {Symbol::num_tokens, 16}}}};
    signature_.parameter_memory = {weight_.extent()};
  }

  Tensor rows(int64_t count) { return memory_.make({DType::f32, {count, 16}}, 7); }
  // Runs the function directly and through GuardedFunction, and expects the same results.
  void expect_same(GuardedFunction& guarded, const TracedFunction& function, int64_t count) {
    const Tensor x = rows(count);
    const std::vector<Tensor> inputs = {x};
    const uint64_t expected = FingerprintExecutor::content(function(inputs).front());
    EXPECT_EQ(FingerprintExecutor::content(guarded.run(inputs, memory_).front()), expected)
        << count << " rows";
  }

  FingerprintExecutor memory_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(64);
  Tensor weight_ = Tensor::borrow({DType::f32, {16}}, bytes_.data(), memory_);
  TraceSignature signature_;
  const TracedFunction straight_ = [this](std::span<const Tensor> in) {
    return std::vector{ops::rms_norm(ops::add(in[0], in[0]), weight_, 1e-5F)};
  };
  const TracedFunction branching_ = [this](std::span<const Tensor> in) {
    const Tensor sum = ops::add(in[0], in[0]);
    return std::vector{in[0].size(0) >= 4 ? sum : ops::rms_norm(sum, weight_, 1e-5F)};
  };
};

TEST_F(Guarded, function_that_looks_at_no_size_is_one_program) {
  GuardedFunction guarded(signature_, straight_);
  for (int64_t count : {4, 3, 1, 100, 4}) expect_same(guarded, straight_, count);
  EXPECT_EQ(guarded.num_programs(), 1U);
}

TEST_F(Guarded, function_that_branches_is_right_on_both_sides) {
  EXPECT_THROW((void)trace(signature_, branching_), TraceError);
  GuardedFunction guarded(signature_, branching_);
  for (int64_t count : {4, 3, 5, 4, 3, 100}) expect_same(guarded, branching_, count);
  EXPECT_EQ(guarded.num_programs(), 4U) << "one for each size that came";
  EXPECT_EQ(guarded.num_eager_runs(), 0U);
}

TEST_F(Guarded, function_with_too_many_sizes_runs_itself) {
  GuardedFunction guarded(signature_, branching_);
  for (int64_t count = 1; count <= 12; ++count) expect_same(guarded, branching_, count);
  EXPECT_EQ(guarded.num_programs(), GuardedFunction::kMaxPrograms);
  EXPECT_EQ(guarded.num_eager_runs(), 4U);
  expect_same(guarded, branching_, 1);
  EXPECT_EQ(guarded.num_eager_runs(), 4U) << "sizes that have a program keep it";
}

TEST_F(Guarded, function_that_no_program_can_say_is_refused_whatever_the_size) {
  const Tensor stray = memory_.make({DType::f32, {16}}, 9);
  GuardedFunction guarded(signature_, [&](std::span<const Tensor> in) {
    return std::vector{ops::rms_norm(in[0], stray, 1e-5F)};
  });
  const std::vector<Tensor> inputs = {rows(3)};
  EXPECT_THROW((void)guarded.run(inputs, memory_), TraceError);
}

TEST_F(Guarded, inputs_of_another_type_are_refused) {
  GuardedFunction guarded(signature_, straight_);
  const std::vector<Tensor> inputs = {memory_.make({DType::f32, {3, 8}}, 1)};
  EXPECT_THROW((void)guarded.run(inputs, memory_), InvalidArgument);
}

// ---- CompilableFunction, the interface for authors of models ----

TEST_F(Guarded, one_line_compiles_a_function_whatever_the_number_of_rows) {
  CompilableFunction block(straight_, {"x"}, {.parameter_memory = {weight_.extent()}});
  EXPECT_EQ(block.compiled(), nullptr);
  for (int64_t count : {5, 2, 70}) {
    const std::vector<Tensor> inputs = {rows(count)};
    EXPECT_EQ(FingerprintExecutor::content(block.run(inputs, memory_).front()),
              FingerprintExecutor::content(straight_(inputs).front()));
  }
  ASSERT_NE(block.compiled(), nullptr);
  EXPECT_EQ(block.compiled()->num_programs(), 1U);
}

TEST_F(Guarded, named_dimensions_are_the_only_open_ones) {
  CompilableFunction block(
      straight_, {"x"}, {.parameter_memory = {weight_.extent()}}, {.dynamic_arg_dims = {{"x", 1}}});
  const std::vector<Tensor> inputs = {rows(5)};
  // The weight has 16 columns, so no program can leave the width of x open. The function gets a
  // program for these exact sizes.
  EXPECT_EQ(FingerprintExecutor::content(block.run(inputs, memory_).front()),
            FingerprintExecutor::content(straight_(inputs).front()));
  const std::vector<Tensor> more_rows = {rows(6)};
  EXPECT_THROW((void)block.run(more_rows, memory_), InvalidArgument) << "rows were not named";
  EXPECT_THROW(CompilableFunction(straight_, {"x"}, {}, {.dynamic_arg_dims = {{"y", 0}}}),
               InvalidArgument);
}

TEST_F(Guarded, a_condition_and_do_not_compile_run_the_function_directly) {
  int num_calls = 0;
  const TracedFunction counted = [&](std::span<const Tensor> in) {
    ++num_calls;
    return straight_(in);
  };
  int num_questions = 0;
  const auto no = [&] { return ++num_questions < 0; };
  for (const CompileSupport& support :
       {CompileSupport{.enable_if = no}, CompileSupport{.do_not_compile = true}}) {
    num_calls = 0;
    CompilableFunction block(counted, {"x"}, {.parameter_memory = {weight_.extent()}}, support);
    const std::vector<Tensor> inputs = {rows(3)};
    for (int call = 0; call < 3; ++call) (void)block.run(inputs, memory_);
    EXPECT_EQ(num_calls, 3);
    EXPECT_EQ(block.compiled(), nullptr);
  }
  EXPECT_EQ(num_questions, 1) << "asked once";
}

}  // namespace
}  // namespace reprise::program
