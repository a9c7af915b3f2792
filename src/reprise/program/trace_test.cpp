#include "reprise/program/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "reprise/program/text.h"
#include "reprise/tensor/ops.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::program {
namespace {

using testing::HasSubstr;
using Reason = TraceError::Reason;

// The weights, caches and inputs of a toy model.
class Trace : public testing::Test {
 protected:
  Trace() {
    signature_.inputs = {{"x", {DType::f32, {Symbol::num_tokens, 16}}},
                         {"slots", {DType::i32, {Symbol::num_tokens}}},
                         {"starts", {DType::i32, {SymInt(Symbol::num_reqs, 1, 1)}}},
                         {"lens", {DType::i32, {Symbol::num_reqs}}},
                         {"blocks", {DType::i32, {Symbol::num_reqs, 4}}},
                         {"rows", {DType::i32, {Symbol::num_logits}}}};
    signature_.states = {keys_, values_};
    for (const Tensor& weight : {norm_, weight_, bias_})
      signature_.parameter_memory.push_back(weight.extent());
    signature_.name_of_parameter = [this](const Tensor& tensor) {
      if (tensor.data() == norm_.data()) return "layers.0.norm.weight";
      return tensor.data() == weight_.data() ? "layers.0.proj.weight" : "layers.0.proj.bias";
    };
  }

  TracedProgram traced(const TracedFunction& function) { return trace(signature_, function); }
  // Traces a function with one result.
  TracedProgram traced_one(const std::function<Tensor(std::span<const Tensor>)>& function) {
    return traced([&](std::span<const Tensor> in) { return std::vector<Tensor>{function(in)}; });
  }
  // Returns the error of a function that cannot be traced.
  TraceError refused(const std::function<Tensor(std::span<const Tensor>)>& function) {
    try {
      (void)traced_one(function);
    } catch (const TraceError& error) {
      return error;
    }
    ADD_FAILURE() << "was accepted";
    return {Reason::output, std::nullopt, "", ""};
  }
  Tensor attend(std::span<const Tensor> in, const Tensor& q, const Tensor& out) {
    ops::attention(q,
                   keys_,
                   values_,
                   {.query_start_loc = in[2], .seq_lens = in[3], .block_table = in[4]},
                   out);
    return out;
  }

  FingerprintExecutor memory_;
  std::vector<std::unique_ptr<std::byte[]>> memory_blocks_;
  Tensor norm_ = make({DType::f32, {16}}, 1);
  Tensor weight_ = make({DType::f32, {16, 16}}, 2);
  Tensor bias_ = make({DType::f32, {16}}, 3);
  Tensor keys_ = make({DType::f32, {9, 2, 16, 8}}, 4);
  Tensor values_ = make({DType::f32, {9, 2, 16, 8}}, 5);
  Tensor stray_ = make({DType::f32, {16}}, 6);
  TraceSignature signature_;

 private:
  // Makes a tensor at its own address. Distinct addresses let the trace tell tensors apart.
  Tensor make(const TensorType& type, uint64_t seed) {
    memory_blocks_.push_back(std::make_unique<std::byte[]>(type.bytes()));
    auto* cell = reinterpret_cast<uint64_t*>(memory_blocks_.back().get());
    *cell = seed;
    return Tensor::borrow(type, cell, memory_);
  }
};

TEST_F(Trace, records_a_layer_with_slots_versions_and_places) {
  const TracedProgram layer = traced([&](std::span<const Tensor> in) {
    const Tensor normed = ops::rms_norm(in[0], norm_, 1e-5F);
    const Tensor heads = ops::unflatten(ops::linear(normed, weight_, bias_), 2);
    const Tensor out = ops::empty_like(heads);
    ops::kv_write(heads, heads, keys_, values_, in[1]);
    const Tensor attended = ops::flatten(attend(in, heads, out));
    const Tensor again = ops::rms_norm(ops::add(in[0], attended), norm_, 1e-5F);
    return std::vector<Tensor>{ops::gather_rows(again, in[5])};
  });
  EXPECT_EQ(print(layer.program), R"(program {
  input %x: f32[T, 16]
  input %slots: i32[T]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  input %rows: i32[L]
  parameter p0: f32[16]
  parameter p1: f32[16, 16]
  parameter p2: f32[16]
  state s0: f32[9, 2, 16, 8]
  state s1: f32[9, 2, 16, 8]
  %0: f32[T, 16] = rms_norm(%x, p0) {epsilon=1e-05}  // layers.0.norm
  %1: f32[T, 16] = linear(%0, p1, p2)  // layers.0.proj
  %2: f32[T, 2, 8] = unflatten(%1) {heads=2}
  %3: f32[T, 2, 8] = empty()
  %4: s0, %5: s1 = kv_write(%2, %2, s0, s1, %slots)
  %6: f32[T, 2, 8] = attention(%2, %4, %5, %starts, %lens, %blocks, %3) {scale=1}
  %7: f32[T, 16] = flatten(%6)
  %8: f32[T, 16] = add(%x, %7)
  %9: f32[T, 16] = rms_norm(%8, p0) {epsilon=1e-05}  // layers.0.norm
  %10: f32[L, 16] = gather_rows(%9, %rows)
  return %10
  keep %4, %5
}
)");
  ASSERT_EQ(layer.slots.parameters.size(), 3U);
  EXPECT_EQ(layer.slots.parameters[2].data(), bias_.data());
  EXPECT_EQ(layer.slots.states[1].data(), values_.data());
  EXPECT_EQ(memory_.num_ops(), 0U) << "tracing launches nothing";
}

TEST_F(Trace, follows_sizes_that_are_affine) {
  const TracedProgram half = traced_one(
      [](std::span<const Tensor> in) { return ops::slice(in[0], 0, 1, in[0].size(0) - 1); });
  EXPECT_THAT(print(half.program),
              HasSubstr("f32[T-1, 16] = slice(%x) {dim=0, begin=1, length=T-1}"));
}

TEST_F(Trace, refuses_a_baked_number_and_says_where) {
  const TraceError error = refused([&](std::span<const Tensor> in) {
    const Tensor normed = ops::rms_norm(in[0], norm_, 1e-5F);
    return ops::slice(normed, 0, 0, in[0].size(0) / 2);
  });
  EXPECT_EQ(error.reason(), Reason::baked_number);
  EXPECT_EQ(error.op_index(), 1U);
  EXPECT_EQ(error.module_path(), "layers.0.norm");
  EXPECT_THAT(error.what(),
              HasSubstr("op 1: slice: length is neither a constant nor affine in T, R or L; "
                        "3 with T=7, R=3, L=2, B=19; 515 with T=1031"));
  EXPECT_THAT(error.what(), HasSubstr("(in or after layers.0.norm) at trace_test.cpp:"));
}

TEST_F(Trace, refuses_a_number_that_was_remembered_from_an_earlier_call) {
  int64_t first_size = 0;
  const TraceError error = refused([&](std::span<const Tensor> in) {
    if (first_size == 0) first_size = in[0].size(0);
    return ops::add(in[0], ops::slice(in[0], 0, 0, first_size));
  });
  EXPECT_EQ(error.reason(), Reason::shape);
  EXPECT_EQ(error.op_index(), 1U);
}

TEST_F(Trace, refuses_a_constant_that_depends_on_a_size) {
  const TraceError error = refused([&](std::span<const Tensor> in) {
    return ops::rms_norm(in[0], norm_, 1.0F / static_cast<float>(in[0].size(0)));
  });
  EXPECT_EQ(error.reason(), Reason::baked_number);
  const TraceError function = refused([](std::span<const Tensor> in) {
    return ops::activation(in[0], in[0].size(0) > 100 ? OpFunction::relu : OpFunction::gelu);
  });
  EXPECT_EQ(function.reason(), Reason::baked_number);
}

TEST_F(Trace, refuses_a_branch_on_a_size) {
  const TraceError other_op = refused([&](std::span<const Tensor> in) {
    return in[0].size(0) > 100 ? ops::add(in[0], in[0]) : ops::rms_norm(in[0], norm_, 1e-5F);
  });
  EXPECT_EQ(other_op.reason(), Reason::branch);
  EXPECT_THAT(other_op.what(), HasSubstr("op 0 is add instead of rms_norm with T=1031"));
  const TraceError more_ops = refused([&](std::span<const Tensor> in) {
    const Tensor sum = ops::add(in[0], in[0]);
    return in[0].size(0) > 100 ? ops::add(sum, sum) : sum;
  });
  EXPECT_EQ(more_ops.reason(), Reason::branch);
  const TraceError other_argument = refused([&](std::span<const Tensor> in) {
    const Tensor sum = ops::add(in[0], in[0]);
    return ops::add(sum, in[0].size(0) > 100 ? sum : in[0]);
  });
  EXPECT_EQ(other_argument.reason(), Reason::branch);
  const TraceError other_result = refused([&](std::span<const Tensor> in) {
    const Tensor sum = ops::add(in[0], in[0]);
    return in[0].size(0) > 100 ? sum : in[0];
  });
  EXPECT_EQ(other_result.reason(), Reason::branch);
  const TraceError other_parameter = refused([&](std::span<const Tensor> in) {
    return ops::rms_norm(in[0], in[0].size(0) > 100 ? bias_ : norm_, 1e-5F);
  });
  EXPECT_EQ(other_parameter.reason(), Reason::branch);
}

TEST_F(Trace, refuses_to_write_to_anything_but_declared_state) {
  signature_.states = {keys_};
  const TraceError error = refused([&](std::span<const Tensor> in) {
    const Tensor heads = ops::unflatten(in[0], 2);
    ops::kv_write(heads, heads, keys_, values_, in[1]);
    return heads;
  });
  EXPECT_THAT(error.reason(), testing::AnyOf(Reason::undeclared_state, Reason::undeclared_memory));
  EXPECT_EQ(error.op_index(), 1U);
}

TEST_F(Trace, refuses_to_write_to_parameters_inputs_and_used_results) {
  signature_.parameter_memory.push_back(stray_.extent());
  const TraceError input = refused([&](std::span<const Tensor> in) {
    const Tensor heads = ops::unflatten(in[0], 2);
    return attend(in, heads, heads);
  });
  EXPECT_EQ(input.reason(), Reason::undeclared_state);
  const TraceError used = refused([&](std::span<const Tensor> in) {
    const Tensor heads = ops::unflatten(in[0], 2);
    const Tensor out = ops::empty_like(heads);
    const Tensor early = ops::flatten(out);
    return ops::add(early, ops::flatten(attend(in, heads, out)));
  });
  EXPECT_EQ(used.reason(), Reason::undeclared_state);
  EXPECT_THAT(used.what(), HasSubstr("not declared state"));
}

TEST_F(Trace, refuses_memory_that_is_neither_input_nor_parameter) {
  const TraceError error =
      refused([&](std::span<const Tensor> in) { return ops::rms_norm(in[0], stray_, 1e-5F); });
  EXPECT_EQ(error.reason(), Reason::undeclared_memory);
  const TraceError state = refused([&](std::span<const Tensor> in) {
    return ops::gather_rows(ops::embedding(in[1], keys_), in[5]);
  });
  EXPECT_EQ(state.reason(), Reason::undeclared_state);
}

TEST_F(Trace, refuses_views_made_without_ops) {
  const TraceError error = refused([&](std::span<const Tensor> in) {
    const Tensor half = in[0].with_layout({in[0].size(0), 8}, {16, 1}, 8);
    return ops::silu_and_mul(half);
  });
  EXPECT_EQ(error.reason(), Reason::foreign_view);
}

TEST_F(Trace, refuses_results_that_no_op_made) {
  EXPECT_EQ(refused([&](std::span<const Tensor>) { return norm_; }).reason(), Reason::output);
  EXPECT_EQ(refused([&](std::span<const Tensor>) { return Tensor{}; }).reason(), Reason::output);
}

TEST_F(Trace, names_the_op_whose_arguments_do_not_fit) {
  const TraceError error = refused(
      [&](std::span<const Tensor> in) { return ops::silu_and_mul(ops::slice(in[0], 1, 0, 3)); });
  EXPECT_EQ(error.reason(), Reason::shape);
  EXPECT_EQ(error.op_index(), 1U);
}

TEST_F(Trace, binds_symbols_from_inputs) {
  const TracedProgram sum =
      traced_one([](std::span<const Tensor> in) { return ops::add(in[0], in[0]); });
  std::vector<Tensor> inputs;
  for (const TraceInput& input : signature_.inputs) {
    inputs.push_back(memory_.make(input.type.evaluate({9, 4, 3}), 1));
  }
  EXPECT_EQ(bind_symbols(sum.program, inputs), (SymbolValues{9, 4, 3}));
  inputs[1] = memory_.make({DType::i32, {8}}, 1);
  EXPECT_THROW((void)bind_symbols(sum.program, inputs), InvalidArgument);
  inputs[1] = memory_.make({DType::f32, {9}}, 1);
  EXPECT_THROW((void)bind_symbols(sum.program, inputs), InvalidArgument);
  inputs.pop_back();
  EXPECT_THROW((void)bind_symbols(sum.program, inputs), InvalidArgument);
}

}  // namespace
}  // namespace reprise::program
