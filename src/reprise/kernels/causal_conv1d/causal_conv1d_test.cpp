#include "reprise/kernels/causal_conv1d/causal_conv1d.h"

#include <cstring>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/states.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

class CausalConv1d : public KernelTest {
 protected:
  struct Batch {
    Tensor slots;
    Tensor starts;
    Tensor lengths;
  };
  // `earlier`: the number of tokens of each request before this step.
  Batch batch(const std::vector<int>& slots,
              const std::vector<int>& query_lens,
              const std::vector<int>& earlier) {
    std::vector<int> starts = {0};
    std::vector<int> lengths;
    for (size_t i = 0; i < query_lens.size(); ++i) {
      starts.push_back(starts.back() + query_lens[i]);
      lengths.push_back(query_lens[i] + earlier[i]);
    }
    return {ints(slots), ints(starts), ints(lengths)};
  }
  StateOperands operands(const Tensor& state, const Batch& batch) {
    return {.state = state,
            .state_indices = batch.slots,
            .query_start_loc = batch.starts,
            .seq_lens = batch.lengths};
  }
  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = make(tensor.shape(), tensor.dtype());
    std::memcpy(copy.data(), tensor.data(), tensor.type().bytes());
    return copy;
  }
};

TEST_P(CausalConv1d, agrees_with_the_reference_for_new_and_continued_requests) {
  for (int64_t channels : {1, 15, 16, 17, 300}) {
    for (int64_t kernel : {2, 4, 16}) {
      SCOPED_TRACE(testing::Message() << channels << " channels, kernel " << kernel);
      // Two tokens after those of the requests pad the batch.
      const Batch requests = batch({3, 1, 4, 2}, {5, 1, 18, 1}, {0, 7, 2, 0});
      const Tensor state = random({5, kernel - 1, channels}, DType::f32, 1.0);
      const Tensor want_state = copy_of(state);
      const Tensor x = random_strided({27, channels});
      const Tensor weight = random({channels, 1, kernel}, 0.5);
      const Tensor bias = channels == 15 ? Tensor{} : random({channels});
      const Tensor out = make({27, channels});
      const Tensor want = make_ref({27, channels});
      launch_causal_conv1d(stream_, kernels(), x, weight, bias, operands(state, requests), out);
      causal_conv1d_ref(x, weight, bias, operands(want_state, requests), want);
      expect_close(
          out, want, 1.01 * rounding_error(dtype()) + 1e-5, 1.01 * underflow_error(dtype()) + 1e-5);
      expect_same_bits(state, want_state);
    }
  }
}

TEST_P(CausalConv1d, gives_the_same_bits_for_a_prompt_in_one_piece_and_in_chunks) {
  const Tensor x = random({9, 33});
  const Tensor weight = random({33, 1, 4});
  const Tensor whole = make({9, 33});
  const Tensor state = random({3, 3, 33}, DType::f32, 1.0);
  launch_causal_conv1d(
      stream_, kernels(), x, weight, {}, operands(state, batch({1}, {9}, {0})), whole);
  int done = 0;
  for (const int chunk : {2, 1, 5, 1}) {
    const Tensor rows = random({chunk, 33});
    const size_t bytes = static_cast<size_t>(chunk) * 33 * dtype_bytes(dtype());
    const size_t begin = static_cast<size_t>(done) * 33 * dtype_bytes(dtype());
    std::memcpy(rows.data(), static_cast<const std::byte*>(x.data()) + begin, bytes);
    const Tensor out = make({chunk, 33});
    launch_causal_conv1d(
        stream_, kernels(), rows, weight, {}, operands(state, batch({2}, {chunk}, {done})), out);
    for (int row = 0; row < chunk; ++row) expect_same_row(out, row, whole, done + row);
    done += chunk;
  }
}

// A verification of four drafts, and a prompt that is longer than its row of slots. Then the
// requests continue after the tokens that were accepted.
TEST_P(CausalConv1d, keeps_the_state_after_each_token_in_a_slot_of_its_own) {
  const Tensor weight = random({33, 1, 4});
  const Tensor x = random({13, 33});
  const Tensor state = random({12, 3, 33}, DType::f32, 1.0);
  const Tensor want_state = copy_of(state);
  Batch requests = batch({0, 0, 0}, {5, 1, 7}, {4, 9, 0});
  requests.slots = ints({3, 5}, {3, 4, 5, 1, 2, 6, 6, 6, 6, 6, 7, 8, 9, 10, 11});
  const Tensor out = make({13, 33});
  const Tensor want = make_ref({13, 33});
  launch_causal_conv1d(stream_, kernels(), x, weight, {}, operands(state, requests), out);
  causal_conv1d_ref(x, weight, {}, operands(want_state, requests), want);
  expect_close(
      out, want, 1.01 * rounding_error(dtype()) + 1e-5, 1.01 * underflow_error(dtype()) + 1e-5);
  expect_same_bits(state, want_state);
}

TEST_P(CausalConv1d, neither_reads_nor_writes_a_request_with_a_slot_beyond_the_states) {
  const Tensor state = make({3, 3, 20}, DType::f32);
  const Tensor before = copy_of(state);
  Batch requests = batch({0, 0}, {2, 1}, {4, 4});
  requests.slots = ints({2, 2}, {1, 3, 2, -1});
  const Tensor out = make({3, 20});
  launch_causal_conv1d(
      stream_, kernels(), random({3, 20}), random({20, 1, 4}), {}, operands(state, requests), out);
  expect_same_bits(state, before);
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(element(out, row, 0), 0.0);
}

TEST_P(CausalConv1d, neither_reads_nor_writes_the_null_slot_and_skips_requests_without_tokens) {
  // Row 0 of the state is NaN, so a result that depends on this row is NaN, too.
  const Tensor state = make({3, 3, 20}, DType::f32);
  const Tensor before = copy_of(state);
  const Tensor out = make({3, 20});
  launch_causal_conv1d(stream_,
                       kernels(),
                       random({3, 20}),
                       random({20, 1, 4}),
                       {},
                       operands(state, batch({0, 2, 1 << 20, 0}, {2, 0, 1, 0}, {0, 9, 5, 3})),
                       out);
  expect_same_bits(state, before);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(element(out, row, i), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         CausalConv1d,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
