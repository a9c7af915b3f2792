#include <string_view>

#include "reprise/kernels/cuda/cuda_kernels.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// Attention of models other than Llama: sinks, a soft cap, chunks of positions, both directions,
// latents, and heads of other sizes.
namespace reprise::kernels::cuda {
namespace {

class CudaAttentionKinds : public CudaAttention {
 protected:
  void expect_all_agree(int64_t heads,
                        int64_t kv_heads,
                        int64_t head_dim,
                        const AttentionOptions& options) {
    if (is_uniform_only()) {
      expect_oracle({{2, 2, 2}, {40, 2, 130}}, heads, kv_heads, head_dim, 16, options);
      return;
    }
    expect_oracle({{3, 1, 17}, {40, 100, 65}, 5, 2}, heads, kv_heads, head_dim, 16, options);
  }
};

TEST_P(CudaAttentionKinds, sinks_take_part_in_the_softmax_of_their_head) {
  expect_all_agree(6, 2, 16, {.has_sinks = true});
  expect_all_agree(4, 2, 64, {.window = 20, .has_sinks = true});
}

TEST_P(CudaAttentionKinds, heads_of_every_size_agree_with_the_oracle) {
  // 48 and 100 have no kernel on the tensor cores; the others have one.
  for (const int64_t head_dim : {32, 48, 80, 96, 100, 256}) {
    SCOPED_TRACE(head_dim);
    expect_all_agree(4, 2, head_dim, {});
    expect_all_agree(4, 1, head_dim, {.window = 20, .soft_cap = 1.5F, .has_sinks = true});
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaAttentionKinds, parts_of_long_contexts_have_one_score_of_a_sink) {
  const Batch batch = {.query_lens = {1, 1}, .seq_lens = {700, 40}};
  for (const int64_t head_dim : {32, 64, 256}) {
    SCOPED_TRACE(head_dim);
    expect_oracle(batch, 8, 2, head_dim, 16, AttentionOptions{.has_sinks = true});
    expect_oracle(batch, 8, 2, head_dim, 16, AttentionOptions{.window = 300, .has_sinks = true});
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaAttentionKinds, only_heads_without_a_kernel_on_the_tensor_cores_are_computed_by_rows) {
  if (dtype() == DType::f32) return;
  const auto kernels_of = [&](int64_t head_dim) {
    const AttentionPathKernels paths = attention_kernels(dtype());
    const AttentionKernels& kernels =
        is_uniform_only()
            ? paths.uniform
            : (kind() == AttentionPath::Kind::planned ? paths.planned : paths.any_batch);
    const auto head = std::ranges::find(kFragmentHeads, head_dim);
    return head == kFragmentHeads.end()
               ? nullptr
               : kernels.of_heads[static_cast<size_t>(head - kFragmentHeads.begin())];
  };
  for (const int64_t head_dim : {32, 64, 80, 96, 128, 256}) {
    ASSERT_NE(kernels_of(head_dim), nullptr);
    EXPECT_NE(std::string_view(kernels_of(head_dim)->name).find(std::to_string(head_dim)),
              std::string_view::npos)
        << kernels_of(head_dim)->name;
  }
  EXPECT_EQ(kernels_of(48), nullptr);
}

TEST_P(CudaAttentionKinds, biases_move_the_scores_of_positions) {
  expect_all_agree(6, 2, 16, {.has_biases = true});
  expect_all_agree(4, 2, 64, {.window = 20, .has_biases = true});
}

TEST_P(CudaAttentionKinds, scores_have_a_soft_cap) {
  expect_all_agree(4, 2, 64, {.soft_cap = 1.5F});
  expect_all_agree(4, 2, 40, {.window = 9, .soft_cap = 0.5F});
}

TEST_P(CudaAttentionKinds, a_token_sees_its_own_chunk_of_positions) {
  // Heads of 64 elements are served on the tensor cores.
  for (const int64_t chunk_size : {9, 32, 1000}) {
    SCOPED_TRACE(chunk_size);
    for (const int64_t head_dim : {64, 24}) {
      expect_all_agree(4, 2, head_dim, {.chunk_size = chunk_size});
    }
  }
}

TEST_P(CudaAttentionKinds, tokens_see_all_positions_in_both_directions) {
  expect_all_agree(4, 2, 64, {.is_bidirectional = true});
  // The text of an encoder may be shorter than the tokens that attend to it.
  expect_oracle({{5, 5}, {2, 33}}, 4, 4, 16, 16, AttentionOptions{.is_bidirectional = true});
  expect_all_agree(4, 2, 64, {.window = 9, .is_bidirectional = true});
}

TEST_P(CudaAttentionKinds, latents_are_the_keys_and_the_values_of_all_heads) {
  expect_all_agree(3, 1, 32, {.latent_size = 24});
  if (is_uniform_only()) expect_all_agree(16, 1, 576, {.latent_size = 512});
}

std::string name_of_case(const testing::TestParamInfo<CudaAttentionCase>& tested) {
  const auto& [dtype, kind] = tested.param;
  constexpr std::array kKinds = {"any_batch", "uniform", "planned"};
  return std::string(dtype_name(dtype)) + "_" + kKinds.at(static_cast<size_t>(kind));
}
INSTANTIATE_TEST_SUITE_P(Types,
                         CudaAttentionKinds,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform,
                                                          AttentionPath::Kind::planned)),
                         name_of_case);

}  // namespace
}  // namespace reprise::kernels::cuda
