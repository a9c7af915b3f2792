#include "reprise/kernels/selective_state_update/selective_state_update.h"

#include <cstring>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/states.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

struct Sizes {
  int64_t heads;
  int64_t head_dim;
  int64_t state_size;
  int64_t groups;
  bool has_decay_of_each = false;  // as in Mamba-1
};

class SelectiveStateUpdate : public KernelTest {
 protected:
  // The inputs of `tokens` tokens.
  struct Inputs {
    Tensor x, dt, b, c, a_log, d, dt_bias;
    [[nodiscard]] SelectiveStateInputs operands() const { return {x, dt, b, c, a_log, d, dt_bias}; }
  };
  Inputs inputs(const Sizes& sizes, int64_t tokens) {
    const Shape decays =
        sizes.has_decay_of_each ? Shape{sizes.heads, sizes.state_size} : Shape{sizes.heads};
    return {.x = random_strided({tokens, sizes.heads * sizes.head_dim}),
            .dt = random({tokens, sizes.heads}, 2.0),
            .b = random_strided({tokens, sizes.groups * sizes.state_size}),
            .c = random({tokens, sizes.groups * sizes.state_size}),
            .a_log = random(decays, DType::f32, 0.7),
            .d = random({sizes.heads}, DType::f32, 1.0),
            .dt_bias = random({sizes.heads}, DType::f32, 1.0)};
  }
  Tensor states(const Sizes& sizes, int64_t slots) {
    return random({slots, sizes.heads, sizes.head_dim, sizes.state_size}, DType::f32, 1.0);
  }
  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = make(tensor.shape(), tensor.dtype());
    std::memcpy(copy.data(), tensor.data(), tensor.type().bytes());
    return copy;
  }
};

const Sizes kAllSizes[] = {
    {1, 1, 1, 1}, {4, 5, 7, 2}, {2, 16, 33, 1}, {3, 8, 128, 3}, {70, 1, 16, 1, true}};

TEST_P(SelectiveStateUpdate, agrees_with_the_reference_for_new_and_continued_requests) {
  for (const Sizes& sizes : kAllSizes) {
    SCOPED_TRACE(testing::Message() << sizes.heads << " heads, states of " << sizes.state_size);
    const Inputs in = inputs(sizes, 18);
    const Tensor state = states(sizes, 6);
    const Tensor want_state = copy_of(state);
    const Tensor slots = ints({2, 5, 1, 4});
    const Tensor starts = ints({0, 1, 13, 13, 16});  // two tokens pad the batch
    const Tensor lengths = ints({9, 12, 3, 7});
    const Tensor out = make({18, sizes.heads * sizes.head_dim});
    const Tensor want = make_ref({18, sizes.heads * sizes.head_dim});
    launch_selective_state_update(
        stream_, kernels(), in.operands(), {state, slots, starts, lengths}, out);
    selective_state_update_ref(in.operands(), {want_state, slots, starts, lengths}, want);
    expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-4, 1e-4);
    expect_close(state, want_state, 1e-4, 1e-5);
  }
}

TEST_P(SelectiveStateUpdate, neither_reads_nor_writes_the_null_slot) {
  const Sizes sizes = {4, 5, 7, 2};
  const Inputs in = inputs(sizes, 3);
  const Tensor state = make({3, 4, 5, 7}, DType::f32);  // NaN
  const Tensor before = copy_of(state);
  const Tensor out = make({3, 20});
  launch_selective_state_update(
      stream_,
      kernels(),
      in.operands(),
      {state, ints({0, 1, -3, 0}), ints({0, 2, 2, 3, 3}), ints({2, 9, 5, 0})},
      out);
  expect_same_bits(state, before);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(element(out, 1, i), 0.0);
}

TEST_P(SelectiveStateUpdate, of_a_request_does_not_depend_on_its_batch_or_its_slot) {
  const Sizes sizes = {3, 8, 20, 3};
  const Inputs in = inputs(sizes, 6);
  const Tensor both = make({6, 24});
  const Tensor state = states(sizes, 4);
  launch_selective_state_update(stream_,
                                kernels(),
                                in.operands(),
                                {state, ints({3, 1}), ints({0, 2, 6}), ints({2, 4})},
                                both);
  const Tensor alone = make({6, 24});
  const Tensor other = states(sizes, 4);
  launch_selective_state_update(stream_,
                                kernels(),
                                in.operands(),
                                {other, ints({0, 2}), ints({0, 2, 6}), ints({2, 4})},
                                alone);
  for (int64_t row = 2; row < 6; ++row) expect_same_row(alone, row, both, row);
}

// A verification of four drafts, a decode, and a prompt that is longer than its row of slots. The
// results are those of a request that keeps only the last state.
TEST_P(SelectiveStateUpdate, keeps_the_state_after_each_token_in_a_slot_of_its_own) {
  for (const Sizes& sizes : kAllSizes) {
    SCOPED_TRACE(testing::Message() << sizes.heads << " heads, states of " << sizes.state_size);
    const Inputs in = inputs(sizes, 13);
    const Tensor state = states(sizes, 12);
    const Tensor want_state = copy_of(state);
    const Tensor alone = copy_of(state);
    const Tensor slots = ints({3, 5}, {3, 4, 5, 1, 2, 6, 6, 6, 6, 6, 7, 8, 9, 10, 11});
    const Tensor starts = ints({0, 5, 6, 13});
    const Tensor lengths = ints({9, 10, 7});
    const Tensor out = make({13, sizes.heads * sizes.head_dim});
    const Tensor want = make_ref({13, sizes.heads * sizes.head_dim});
    launch_selective_state_update(
        stream_, kernels(), in.operands(), {state, slots, starts, lengths}, out);
    selective_state_update_ref(in.operands(), {want_state, slots, starts, lengths}, want);
    expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-4, 1e-4);
    expect_close(state, want_state, 1e-4, 1e-5);
    const Tensor same = make({13, sizes.heads * sizes.head_dim});
    launch_selective_state_update(
        stream_, kernels(), in.operands(), {alone, ints({3, 6, 7}), starts, lengths}, same);
    expect_same_bits(out, same);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         SelectiveStateUpdate,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
