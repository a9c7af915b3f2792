#include "reprise/kernels/short_conv/short_conv.h"

#include <cstring>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/states.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

class ShortConv : public KernelTest {
 protected:
  static constexpr int64_t kTokens = 8;

  // Requests of 3, 1 and 2 tokens: a new one, one that continues, and one in the null slot. Two
  // tokens pad the batch.
  StateOperands operands(const Tensor& state) {
    return {
        .state = state, .state_indices = slots_, .query_start_loc = starts_, .seq_lens = lengths_};
  }
  Tensor copy_of(const Tensor& tensor) {
    const Tensor copy = make(tensor.shape(), tensor.dtype());
    std::memcpy(copy.data(), tensor.data(), tensor.type().bytes());
    return copy;
  }

  Tensor slots_ = ints({2, 1, 0});
  Tensor starts_ = ints({0, 3, 4, 6});
  Tensor lengths_ = ints({3, 9, 2});
};

TEST_P(ShortConv, agrees_with_the_reference) {
  for (int64_t channels : {1, 16, 33, 300}) {
    for (int64_t kernel : {2, 3, 16}) {
      SCOPED_TRACE(testing::Message() << channels << " channels, kernel " << kernel);
      const Tensor state = random({3, kernel - 1, channels}, DType::f32, 1.0);
      const Tensor want_state = copy_of(state);
      const Tensor x = random_strided({kTokens, 3 * channels});
      const Tensor weight = random({channels, 1, kernel}, 0.5);
      const Tensor bias = channels == 16 ? Tensor{} : random({channels});
      const Tensor out = make({kTokens, channels});
      const Tensor want = make_ref({kTokens, channels});
      launch_short_conv(stream_, kernels(), x, weight, bias, operands(state), out);
      short_conv_ref(x, weight, bias, operands(want_state), want);
      expect_close(
          out, want, 1.01 * rounding_error(dtype()) + 1e-5, 1.01 * underflow_error(dtype()) + 1e-5);
      for (int64_t row = 4; row < kTokens; ++row) EXPECT_EQ(element(out, row, 0), 0.0);
      // A product of two elements is exact in double, so both round it in the same way.
      expect_same_bits(state, want_state);
    }
  }
}

TEST_P(ShortConv, gives_the_same_bits_for_a_prompt_in_one_piece_and_in_chunks) {
  const int64_t row_elements = 3 * 33;
  const Tensor x = random({6, row_elements});
  const Tensor weight = random({33, 1, 3});
  const Tensor state = random({3, 2, 33}, DType::f32, 1.0);
  const auto run = [&](const Tensor& rows, int slot, int num_tokens, int earlier) {
    const Tensor out = make({num_tokens, 33});
    const Tensor slots = ints({slot});
    const Tensor starts = ints({0, num_tokens});
    const Tensor lengths = ints({earlier + num_tokens});
    launch_short_conv(
        stream_,
        kernels(),
        rows,
        weight,
        {},
        {.state = state, .state_indices = slots, .query_start_loc = starts, .seq_lens = lengths},
        out);
    return out;
  };
  const Tensor whole = run(x, 1, 6, 0);
  int done = 0;
  for (const int chunk : {1, 3, 2}) {
    const Tensor rows = make({chunk, row_elements});
    const size_t row_bytes = static_cast<size_t>(row_elements) * dtype_bytes(dtype());
    std::memcpy(rows.data(),
                static_cast<const std::byte*>(x.data()) + static_cast<size_t>(done) * row_bytes,
                static_cast<size_t>(chunk) * row_bytes);
    const Tensor out = run(rows, 2, chunk, done);
    for (int row = 0; row < chunk; ++row) expect_same_row(out, row, whole, done + row);
    done += chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, ShortConv, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
