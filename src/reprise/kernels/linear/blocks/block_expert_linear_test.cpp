#include "reprise/kernels/linear/linear.h"

#include <vector>

#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class BlockExpertLinear : public KernelTest {
 protected:
  Tensor quantized(const Tensor& x) {
    const Tensor out = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, out);
    return out;
  }
  Tensor random_weight(const std::vector<PanelPart>& parts, int64_t num_experts, int64_t depth) {
    TensorType type = packed_weight_type(parts, depth, dtype());
    type.shape = {num_experts, type.shape[0] / num_experts, depth};
    const Tensor weight = make(type);
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor random_weight(PanelFormat format, int64_t num_experts, int64_t columns, int64_t depth) {
    return random_weight(
        {{.format = format, .columns = num_experts * columns}}, num_experts, depth);
  }
  // Chooses different experts for each token at random; about one row in ten has none.
  Tensor choose(int64_t num_tokens, int64_t top_k, int num_experts, bool leaves_out = true) {
    std::vector<int> chosen;
    for (int64_t token = 0; token < num_tokens; ++token) {
      const int first = std::uniform_int_distribution<int>(0, num_experts - 1)(random_);
      for (int k = 0; k < static_cast<int>(top_k); ++k) {
        const bool is_left_out =
            leaves_out && std::uniform_int_distribution<int>(0, 9)(random_) == 0;
        chosen.push_back(is_left_out ? -1 : (first + k) % num_experts);
      }
    }
    return ints({num_tokens, top_k}, chosen);
  }
  Tensor run(const Tensor& x,
             const Tensor& weight,
             int64_t columns,
             const Tensor& bias,
             const Tensor& experts) {
    const Tensor out = make({experts.size(0) * experts.size(1), columns});
    launch_expert_linear(stream_, kernels(), x, weight, bias, experts, out);
    return out;
  }
  void expect_agrees(const Tensor& x,
                     const Tensor& weight,
                     int64_t columns,
                     const Tensor& bias,
                     const Tensor& experts) {
    const Tensor q = quantized(x);
    const Tensor want = make_ref({experts.size(0) * experts.size(1), columns});
    expert_linear_ref(q, weight, bias, experts, want);
    const double blocks = static_cast<double>(q.size(1)) / 40;
    // The tolerance is that of the test of block_linear.
    expect_close(run(q, weight, columns, bias, experts),
                 want,
                 1.01 * rounding_error(dtype()),
                 4e-5 * blocks);
  }
};

TEST_P(BlockExpertLinear, agrees_with_the_reference_in_every_format) {
  for (const PanelFormat format : all_panel_formats()) {
    // There are 3 experts: one token has fewer rows than there are experts, 5 tokens have more.
    const Tensor weight = random_weight(format, 3, 48, 256);
    const Tensor bias = random({3, 48});
    for (int64_t num_tokens : {1, 5}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(format) << ", " << num_tokens);
      expect_agrees(random({num_tokens, 256}), weight, 48, bias, choose(num_tokens, 2, 3));
    }
  }
}

TEST_P(BlockExpertLinear, agrees_for_rows_of_tokens_and_of_their_experts) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_0}) {
    for (int64_t columns : {16, 64, 80}) {
      const Tensor weight = random_weight(format, 5, columns, 288);
      for (int64_t num_tokens : {1, 2, 3, 33, 70}) {
        SCOPED_TRACE(testing::Message() << num_tokens << " tokens, " << columns << " columns");
        const Tensor experts = choose(num_tokens, 2, 5);
        expect_agrees(random({num_tokens, 288}), weight, columns, {}, experts);
        expect_agrees(
            random({2 * num_tokens, 288}), weight, columns, random({5, columns}), experts);
      }
    }
  }
}

TEST_P(BlockExpertLinear, agrees_when_one_expert_has_all_rows_and_others_have_none) {
  // There are more rows than can be multiplied together, and several blocks of the grid for each
  // expert.
  const Tensor experts = ints({400, 1}, std::vector<int>(400, 1));
  expect_agrees(random({400, 32}), random_weight(PanelFormat::q8_0, 3, 144, 32), 144, {}, experts);
}

TEST_P(BlockExpertLinear, gives_zeros_to_rows_whose_expert_another_rank_has) {
  const Tensor weight = random_weight(PanelFormat::q8_0, 4, 96, 64);
  const Tensor bias = random({4, 96});
  for (int64_t num_tokens : {1, 9}) {
    const std::vector<int> none(static_cast<size_t>(2 * num_tokens), -1);
    const Tensor experts = ints({num_tokens, 2}, none);
    expect_agrees(random({num_tokens, 64}), weight, 96, bias, experts);
  }
}

// Weights of several formats, like experts whose gate and up have different formats.
TEST_P(BlockExpertLinear, multiplies_with_experts_of_parts_in_different_formats) {
  const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_k, .columns = 32},
                                        {.format = PanelFormat::q6_k, .columns = 32},
                                        {.format = PanelFormat::q4_k, .columns = 32},
                                        {.format = PanelFormat::q6_k, .columns = 32}};
  const Tensor weight = random_weight(parts, 2, 256);
  for (int64_t num_tokens : {1, 20}) {
    expect_agrees(random({num_tokens, 256}), weight, 64, random({2, 64}), choose(num_tokens, 1, 2));
  }
}

TEST_P(BlockExpertLinear, gives_a_row_the_same_bits_whatever_other_tokens_choose) {
  for (const PanelFormat format : all_panel_formats()) {
    SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format));
    const Tensor x = quantized(random({50, 256}));
    const Tensor weight = random_weight(format, 6, 48, 256);
    const Tensor experts = choose(50, 3, 6);
    const Tensor all = run(x, weight, 48, {}, experts);
    for (int64_t token : {0, 7, 49}) {
      const Tensor one = x.with_layout({1, x.size(1)}, {x.size(1), 1}, token * x.size(1));
      const Tensor out = run(one, weight, 48, {}, experts.with_layout({1, 3}, {3, 1}, token * 3));
      for (int64_t k = 0; k < 3; ++k) expect_same_row(out, k, all, token * 3 + k);
    }
  }
}

// An expert gives the bits of a linear layer. For many rows of one expert, AMX tiles multiply, if
// the kernels have them.
TEST_P(BlockExpertLinear, gives_the_bits_of_block_linear) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_1, PanelFormat::q6_k}) {
    const Tensor x = quantized(random({48, 512}));
    const Tensor weight = random_weight(format, 1, 80, 512);
    const Tensor bias = random({1, 80});
    const Tensor want = make({48, 80});
    const TensorType as_layer = {dtype(), {80, 512}, weight.layout()};
    const Tensor layer = Tensor::borrow(as_layer, weight.data(), executor_);
    launch_linear(stream_, kernels(), x, layer, bias.with_layout({80}, {1}, 0), want);
    const Tensor got = run(x, weight, 80, bias, ints({48, 1}, std::vector<int>(48, 0)));
    for (int64_t row = 0; row < 48; ++row) expect_same_row(got, row, want, row);
  }
}

TEST_P(BlockExpertLinear, launches_nothing_without_tokens) {
  EXPECT_FALSE(launch_expert_linear(stream_,
                                    kernels(),
                                    make({0, 40}, DType::i8),
                                    random_weight(PanelFormat::q8_0, 2, 16, 32),
                                    {},
                                    ints({0, 2}, {}),
                                    make({0, 16})));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockExpertLinear,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
