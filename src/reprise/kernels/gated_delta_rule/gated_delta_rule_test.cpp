#include "reprise/kernels/gated_delta_rule/gated_delta_rule.h"

#include <cstring>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/states.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

class GatedDeltaRule : public KernelTest {
 protected:
  struct Inputs {
    Tensor q, k, v, beta, dt, a_log, dt_bias;
    [[nodiscard]] DeltaRuleInputs operands(int64_t neighbours) const {
      return {q, k, v, beta, dt, a_log, dt_bias, neighbours};
    }
  };
  Inputs inputs(int64_t tokens,
                int64_t groups,
                int64_t heads,
                int64_t keys,
                int64_t values,
                int64_t steps = 1) {
    return {.q = random_strided({tokens, groups * keys}),
            .k = random_strided({tokens, groups * keys}),
            .v = random({tokens, heads * values}),
            .beta = random_strided({tokens, heads}),
            .dt = random({tokens, heads * steps}, 2.0),
            .a_log = random({heads}, DType::f32, 0.7),
            .dt_bias = random({heads * steps}, DType::f32, 1.0)};
  }
  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = make(tensor.shape(), tensor.dtype());
    std::memcpy(copy.data(), tensor.data(), tensor.type().bytes());
    return copy;
  }
};

TEST_P(GatedDeltaRule, agrees_with_the_reference_for_new_and_continued_requests) {
  for (int64_t keys : {1, 8, 33}) {
    for (int64_t values : {1, 16, 37}) {
      for (int64_t neighbours : {2, 1}) {
        SCOPED_TRACE(testing::Message()
                     << keys << " keys, " << values << " values, " << neighbours << " neighbours");
        // With one neighbour, each element of a key has a time step of its own.
        const Inputs in = inputs(18, 2, 4, keys, values, neighbours == 1 ? keys : 1);
        const Tensor state = random({6, 4, keys, values}, DType::f32, 1.0);
        const Tensor want_state = copy_of(state);
        const Tensor slots = ints({2, 5, 1, 4});
        const Tensor starts = ints({0, 1, 13, 13, 16});  // two tokens pad the batch
        const Tensor lengths = ints({9, 12, 3, 7});
        const Tensor out = make({18, 4 * values});
        const Tensor want = make_ref({18, 4 * values});
        launch_gated_delta_rule(
            stream_, kernels(), in.operands(neighbours), {state, slots, starts, lengths}, out);
        gated_delta_rule_ref(in.operands(neighbours), {want_state, slots, starts, lengths}, want);
        expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-4, 1e-4);
        expect_close(state, want_state, 1e-4, 1e-5);
      }
    }
  }
}

// A verification of four drafts, a decode, and a prompt that is longer than its row of slots. The
// results are those of steps of one token each.
TEST_P(GatedDeltaRule, keeps_the_state_after_each_token_in_a_slot_of_its_own) {
  const Inputs in = inputs(13, 2, 4, 8, 37);
  const Tensor state = random({12, 4, 8, 37}, DType::f32, 1.0);
  const Tensor want_state = copy_of(state);
  const Tensor alone = copy_of(state);
  const Tensor slots = ints({3, 5}, {3, 4, 5, 1, 2, 6, 6, 6, 6, 6, 7, 8, 9, 10, 11});
  const Tensor starts = ints({0, 5, 6, 13});
  const Tensor lengths = ints({9, 10, 7});
  const Tensor out = make({13, 4 * 37});
  const Tensor want = make_ref({13, 4 * 37});
  launch_gated_delta_rule(stream_, kernels(), in.operands(2), {state, slots, starts, lengths}, out);
  gated_delta_rule_ref(in.operands(2), {want_state, slots, starts, lengths}, want);
  expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-4, 1e-4);
  expect_close(state, want_state, 1e-4, 1e-5);
  const Tensor same = make({13, 4 * 37});
  launch_gated_delta_rule(
      stream_, kernels(), in.operands(2), {alone, ints({3, 6, 7}), starts, lengths}, same);
  expect_same_bits(out, same);
}

// Six heads in three groups, then the same heads in the other order.
TEST_P(GatedDeltaRule, gives_heads_of_a_group_the_same_results_next_to_each_other_and_apart) {
  constexpr int64_t kTokens = 5;
  const Inputs apart = inputs(kTokens, 3, 6, 4, 3);
  Inputs together = apart;
  together.v = make({kTokens, 18});
  together.beta = make({kTokens, 6});
  together.dt = make({kTokens, 6});
  together.a_log = make({6}, DType::f32);
  together.dt_bias = make({6}, DType::f32);
  const auto place = [](int64_t head) { return head % 3 * 2 + head / 3; };
  for (int64_t head = 0; head < 6; ++head) {
    set_element(together.a_log, element(apart.a_log, head), place(head));
    set_element(together.dt_bias, element(apart.dt_bias, head), place(head));
    for (int64_t token = 0; token < kTokens; ++token) {
      set_element(together.beta, element(apart.beta, token, head), token, place(head));
      set_element(together.dt, element(apart.dt, token, head), token, place(head));
      for (int64_t i = 0; i < 3; ++i) {
        set_element(together.v, element(apart.v, token, head * 3 + i), token, place(head) * 3 + i);
      }
    }
  }
  const auto run = [&](const Inputs& in, int64_t neighbours) {
    const Tensor out = make({kTokens, 18});
    launch_gated_delta_rule(
        stream_,
        kernels(),
        in.operands(neighbours),
        {make({2, 6, 4, 3}, DType::f32), ints({1}), ints({0, kTokens}), ints({kTokens})},
        out);
    return out;
  };
  const Tensor got = run(apart, 1);
  const Tensor want = run(together, 2);
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t i = 0; i < 18; ++i) {
      EXPECT_EQ(element(got, token, i), element(want, token, place(i / 3) * 3 + i % 3));
    }
  }
}

TEST_P(GatedDeltaRule, neither_reads_nor_writes_the_null_slot) {
  const Inputs in = inputs(3, 1, 2, 5, 7);
  const Tensor state = make({3, 2, 5, 7}, DType::f32);  // NaN
  const Tensor before = copy_of(state);
  const Tensor out = make({3, 14});
  launch_gated_delta_rule(stream_,
                          kernels(),
                          in.operands(2),
                          {state, ints({0, 1, 3, 0}), ints({0, 2, 2, 3, 3}), ints({2, 9, 5, 0})},
                          out);
  expect_same_bits(state, before);
  for (int64_t i = 0; i < 14; ++i) EXPECT_EQ(element(out, 1, i), 0.0);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         GatedDeltaRule,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
