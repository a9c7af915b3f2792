#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "reprise/kernels/cuda/flashinfer_table.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// FlashInfer's attention with the project's division of work. A build with FlashInfer's headers
// runs their functions on the host, thread by thread; a build without them the project's own in
// their place.
namespace reprise::kernels::cuda {
namespace {

/// On a GPU only the kernels that the build has.
FlashInferKernels tested_kernels() {
  const bool is_real = device::cuda::load_driver().reason.empty();
  FlashInferKernels kernels = is_real ? flashinfer_kernels() : declared_flashinfer_kernels();
  kernels.planned = {};
  return kernels;
}

class CudaFlashInfer : public CudaAttention {
 protected:
  CudaFlashInfer() : CudaAttention(tested_kernels()) {}

  void SetUp() override {
    if (flashinfer_.heads.empty()) GTEST_SKIP() << "this build has no kernels of FlashInfer";
  }
  [[nodiscard]] bool is_bf16() const { return dtype() == DType::bf16; }
};

TEST_P(CudaFlashInfer, agrees_with_the_oracle_for_every_group_and_size_of_heads) {
  const Batch batch = is_uniform_only() ? Batch{{1, 1, 1}, {5, 64, 33}, 5, 5}
                                        : Batch{{1, 1, 1, 1}, {1, 300, 128, 129}, 2, 1};
  for (const int64_t head_dim : {64, 128, 256}) {
    for (const int64_t group :
         is_bf16() ? std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 12, 16} : std::vector<int64_t>{4}) {
      SCOPED_TRACE(testing::Message() << "heads of " << head_dim << ", group of " << group);
      expect_oracle(batch, group * 2, 2, head_dim, 16);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaFlashInfer, agrees_with_the_oracle_around_the_edges_of_its_tiles_of_positions) {
  // A tile has 128 positions (64 for heads of 256), a step of a warp 16, a part 256 or more.
  for (const int32_t length :
       {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257}) {
    SCOPED_TRACE(length);
    expect_oracle({{1}, {length}}, 4, 1, length % 2 == 0 ? 128 : 64, 16);
    if (HasFatalFailure()) return;
  }
  expect_oracle({{1}, {129}}, 2, 1, 256, 16);
  expect_oracle({{1}, {200}}, 3, 3, 64, 8);   // blocks shorter than a step
  expect_oracle({{1}, {200}}, 2, 1, 64, 24);  // blocks whose size is not a power of two
}

TEST_P(CudaFlashInfer, merges_the_parts_of_long_contexts) {
  for (int i = 0; i < (is_bf16() ? 4 : 1); ++i) {
    expect_oracle({{1}, {2000}}, 8, 1, 64, 16);
    expect_oracle({{1, 1}, {700, 40}}, 4, 1, 128, 16);
    if (HasFatalFailure()) return;
  }
  expect_oracle(
      {{1, 1}, {700, 40}}, 8, 2, 64, 16, AttentionOptions{.window = 300, .has_sinks = true});
}

TEST_P(CudaFlashInfer, knows_windows_chunks_sinks_and_soft_caps) {
  const Batch batch = {{1, 1, 1}, {40, 300, 65}};
  for (const int64_t window : {1, 16, 37, 128}) {
    SCOPED_TRACE(window);
    expect_oracle(batch, 4, 1, window == 37 ? 128 : 64, 16, window);
    if (HasFatalFailure()) return;
  }
  expect_oracle(batch, 4, 2, 64, 16, AttentionOptions{.chunk_size = 32});
  expect_oracle(batch, 4, 2, 64, 16, AttentionOptions{.has_sinks = true});
  expect_oracle(
      batch, 4, 2, 256, 16, AttentionOptions{.window = 20, .soft_cap = 1.5F, .has_sinks = true});
}

TEST_P(CudaFlashInfer, serves_several_tokens_per_request) {
  if (is_uniform_only()) {
    expect_oracle({{3, 3}, {600, 3}, 3, 1}, 7, 1, 64, 16);  // two tiles of sixteen rows
    expect_oracle({{8, 8}, {300, 20}}, 8, 1, 128, 16);
    return;
  }
  // Few tokens on average, so that the shape counts as decoding.
  expect_oracle({{5, 1, 2, 1}, {5, 40, 50, 300}, 1, 3}, 4, 2, 64, 16);
  expect_oracle({{3, 1}, {600, 300}}, 4, 1, 128, 16);
}

// On the host only the tiles are tested: FlashInfer's loop is played.
TEST_P(CudaFlashInfer, computes_prompts_in_tiles_of_tokens) {
  if (is_uniform_only()) return;
  if (is_bf16()) {
    expect_oracle({{128}, {128}}, 1, 1, 128, 16);
    expect_oracle({{129}, {199}, 3}, 2, 1, 128, 16);
    expect_oracle({{193}, {193}}, 1, 1, 64, 16);
  }
  // Chunks, decoding requests, requests without tokens, and padding.
  expect_oracle({{130, 1, 0, 40, 17}, {140, 60, 0, 50, 64}, 5, 2}, 3, 1, 64, 16);
}

TEST_P(CudaFlashInfer, decodes_beside_prompts) {
  if (is_uniform_only()) return;
  const Batch mix{{50, 1, 0, 90, 1, 17}, {50, 140, 0, 200, 1, 64}, 5, 2};
  expect_oracle(mix, 8, 2, 64, 16);
  expect_oracle(mix, 7, 1, 128, 16, 37);
}

struct Launches {
  int decode = 0;
  int prompts = 0;
  friend bool operator==(const Launches&, const Launches&) = default;
};

/// Without an executor that has already loaded the kernels.
class CudaFlashInferLaunches : public CudaAttention {
 protected:
  /// The launches of FlashInfer's kernels for these operands, which are not filled. Only over the
  /// fake driver.
  Launches launches_of(const Batch& batch, int64_t head_dim, int64_t window, DType cache) {
    Launches launches;
    const FlashInferKernels kernels = tested_kernels();
    const auto count = [&](const device::Kernel& kernel, int& number) {
      const size_t bytes = flashinfer_host_kernels().at(kernel.cuda.function).argument_bytes;
      machine_.driver().add_kernel(
          kernel.cuda.function,
          {.parameter_bytes = bytes,
           .run = [&number](const device::cuda::FakeLaunch&) { ++number; }});
    };
    for (const FlashInferHeads& one : kernels.heads) count(*one.decode, launches.decode);
    for (const FlashInferPromptKernel& one : kernels.prompts) count(*one.kernel, launches.prompts);
    CudaExecutor executor(*stream_, *pool_, {.num_multiprocessors = 4, .flashinfer = kernels});
    executor.set_attention({.kind = kind(), .query_len = batch.query_lens[0]});
    std::vector<int32_t> starts{0};
    for (const int32_t len : batch.query_lens) starts.push_back(starts.back() + len);
    const auto reqs = static_cast<int64_t>(batch.seq_lens.size());
    // A row of a cache of eight bits ends with its scale.
    const Tensor keys = make({reqs, 1, 64, head_dim + (cache == DType::i8 ? 4 : 0)}, cache);
    OpAttributes attributes;
    attributes.scale = 1;
    attributes.sliding_window = window;
    std::vector<int32_t> table(batch.seq_lens.size());
    std::iota(table.begin(), table.end(), 0);
    executor.execute({.code = OpCode::attention, .attributes = attributes},
                     std::array{random({starts.back(), 4, head_dim}),
                                keys,
                                keys,
                                ints({reqs + 1}, starts),
                                ints({reqs}, batch.seq_lens),
                                ints({reqs, 1}, table),
                                make({starts.back(), 4, head_dim})},
                     {});
    stream_->synchronize();
    return launches;
  }
};

TEST_P(CudaFlashInferLaunches, happen_where_it_has_a_kernel_and_requests_have_few_rows) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver counts launches";
  const Batch decoding{{1, 1}, {40, 30}};
  EXPECT_EQ(launches_of(decoding, 64, 0, dtype()), (Launches{1, 0}));
  EXPECT_EQ(launches_of(decoding, 256, 20, dtype()), (Launches{1, 0}));
  EXPECT_EQ(launches_of(decoding, 96, 0, dtype()), (Launches{0, 0})) << "another size of heads";
  EXPECT_EQ(launches_of(decoding, 64, 0, DType::i8), (Launches{0, 0})) << "a cache of eight bits";
  if (kind() == AttentionPath::Kind::uniform) return;
  const Batch prompt{{64}, {64}};
  EXPECT_EQ(launches_of(prompt, 128, 0, dtype()), (Launches{0, 1}));
  EXPECT_EQ(launches_of({{63}, {63}}, 128, 0, dtype()), (Launches{0, 0})) << "too few tiles";
  EXPECT_EQ(launches_of(prompt, 128, 20, dtype()), (Launches{0, 0})) << "a window";
  EXPECT_EQ(launches_of(prompt, 256, 0, dtype()), (Launches{0, 0})) << "another size of heads";
  EXPECT_EQ(launches_of({{64, 1}, {64, 30}}, 128, 0, dtype()), (Launches{1, 1}));
  EXPECT_EQ(launches_of({{64, 1}, {64, 30}}, 128, 20, dtype()), (Launches{1, 0})) << "a window";
}

std::string name_of_path(const testing::TestParamInfo<CudaAttentionCase>& tested) {
  const auto& [dtype, kind] = tested.param;
  return std::string(dtype_name(dtype)) +
         (kind == AttentionPath::Kind::uniform ? "_uniform" : "_any_batch");
}
INSTANTIATE_TEST_SUITE_P(Types,
                         CudaFlashInfer,
                         testing::Combine(testing::Values(DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform)),
                         name_of_path);

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaFlashInferLaunches,
                         testing::Combine(testing::Values(DType::bf16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform)),
                         name_of_path);

}  // namespace
}  // namespace reprise::kernels::cuda
