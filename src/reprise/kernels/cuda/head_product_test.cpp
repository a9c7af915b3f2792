#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/kernels/products.h"

// Products of heads: tiles of 16 rows and 32 columns, or of 64 rows and 64 columns from 33 rows on,
// and 64 elements of the depth at a time.
namespace reprise::kernels::cuda {
namespace {

class CudaHeadProducts : public CudaOps {
 protected:
  void SetUp() override { (void)take_bank_conflicts(); }
  void TearDown() override { EXPECT_EQ(take_bank_conflicts(), 0U); }

  void expect_agrees(const Tensor& x, const Tensor& weight) {
    SCOPED_TRACE(testing::Message() << x.size(0) << " rows, " << x.size(1) << " heads, "
                                    << weight.size(1) << " columns, depth " << x.size(2));
    const Tensor got = run(OpCode::head_linear, {x, weight});
    const Tensor want = make(got.shape(), DType::f32);
    head_linear_ref(x, weight, want);
    expect_close(got, want, 2e-4);
  }
  /// The middle part of each head of a wider tensor.
  Tensor part_of_heads(int64_t rows, int64_t heads, int64_t depth, int64_t before) {
    const int64_t width = before + depth + 8;
    return random({rows, heads, width})
        .with_layout({rows, heads, depth}, {heads * width, width, 1}, before);
  }
};

TEST_P(CudaHeadProducts, agree_with_the_oracle_around_the_edges_of_tiles) {
  for (const int64_t rows : {1, 7, 15, 16, 17, 32, 33, 63, 64, 65, 129}) {
    expect_agrees(random({rows, 2, rows % 2 == 0 ? 64 : 72}),
                  random({2, 40, rows % 2 == 0 ? 64 : 72}));
    if (HasFatalFailure()) return;
  }
  for (const int64_t columns : {8, 24, 32, 56, 64, 72, 128}) {
    for (const int64_t rows : {3, 40}) {
      expect_agrees(random({rows, 3, 24}), random({3, columns, 24}));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaHeadProducts, agree_with_the_oracle_for_the_sizes_of_models) {
  for (const int64_t rows : {1, 33}) {
    expect_agrees(random({rows, 2, 128}), random({2, 512, 128}));  // queries of DeepSeek-V3
    expect_agrees(random({rows, 2, 512}), random({2, 128, 512}));  // its values
    expect_agrees(random({rows, 1, 640}), random({1, 64, 640}));   // a depth of more than all slots
  }
}

TEST_P(CudaHeadProducts, read_part_of_a_head) {
  expect_agrees(part_of_heads(5, 3, 64, 0), random({3, 40, 64}));
  expect_agrees(part_of_heads(40, 3, 136, 64), random({3, 64, 136}));
}

TEST_P(CudaHeadProducts, whose_rows_are_not_aligned_are_computed_by_another_kernel) {
  expect_agrees(part_of_heads(5, 3, 64, 4), random({3, 40, 64}));
  expect_agrees(random({5, 3, 60}), random({3, 40, 60}));
  expect_agrees(random({5, 3, 64}), random({3, 41, 64}));
}

TEST_P(CudaHeadProducts, give_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({140, 2, 200});
  const Tensor weight = random({2, 72, 200});
  const Tensor all = run(OpCode::head_linear, {x, weight});
  const size_t row_bytes = all.type().bytes() / 140;
  for (const int64_t rows : {1, 16, 20, 33, 70}) {
    const Tensor some =
        run(OpCode::head_linear,
            {x.with_layout({rows, 2, 200}, {400, 200, 1}, int64_t{60} * 400), weight});
    EXPECT_EQ(std::memcmp(some.data(),
                          all.data_as<std::byte>() + 60 * row_bytes,
                          static_cast<size_t>(rows) * row_bytes),
              0)
        << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaHeadProducts,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
