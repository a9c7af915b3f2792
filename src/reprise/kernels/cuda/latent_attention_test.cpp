#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/rows.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// Latent attention on the tensor cores. Tiles have 16 or 64 rows (tokens times heads) and 32
// positions, and a part has at least 256 positions.
namespace reprise::kernels::cuda {
namespace {

constexpr LatentSizes kUsualLatents = kLatentSizes[0];
constexpr LatentSizes kSmallLatents = kLatentSizes[1];

class CudaLatents : public CudaAttention {
 protected:
  void SetUp() override { (void)take_bank_conflicts(); }
  void TearDown() override { EXPECT_EQ(take_bank_conflicts(), 0U); }

  void expect_agrees(const Batch& batch,
                     int64_t heads,
                     const LatentSizes& sizes = kUsualLatents,
                     int64_t block_size = 16) {
    SCOPED_TRACE(testing::Message() << heads << " heads, keys of " << sizes.key_dim);
    expect_oracle(batch,
                  heads,
                  1,
                  sizes.key_dim,
                  block_size,
                  AttentionOptions{.latent_size = sizes.value_dim});
  }
  [[nodiscard]] bool is_bf16() const { return dtype() == DType::bf16; }
};

TEST_P(CudaLatents, agree_with_the_oracle_around_the_edges_of_tiles_of_positions) {
  for (const int32_t length : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 255, 256, 257}) {
    SCOPED_TRACE(length);
    const bool is_even = length % 2 == 0;
    expect_agrees(
        {{1}, {length}}, is_even ? 16 : 5, length % 3 == 0 ? kSmallLatents : kUsualLatents);
    if (HasFatalFailure()) return;
  }
  expect_agrees({{1}, {90}}, 3, kUsualLatents, 8);   // blocks shorter than a tile
  expect_agrees({{1}, {90}}, 3, kUsualLatents, 24);  // blocks whose size is not a power of two
}

TEST_P(CudaLatents, agree_with_the_oracle_for_every_number_of_heads) {
  const std::vector<int64_t> all = {1, 2, 8, 15, 16, 17, 20, 31, 33, 64, 65, 128};
  for (const int64_t heads : is_bf16() ? all : std::vector<int64_t>{20}) {
    expect_agrees({{1, 1}, {40, 7}}, heads, heads % 2 == 0 ? kUsualLatents : kSmallLatents);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaLatents, agree_with_the_oracle_for_drafts) {
  expect_agrees({{2, 2, 2}, {2, 33, 300}, 2, 1}, 16);
  expect_agrees({{5, 5}, {64, 600}}, 8, kSmallLatents);  // tiles end inside of a token's heads
  expect_agrees({{4, 4}, {40, 4}}, 20);
}

TEST_P(CudaLatents, agree_with_the_oracle_for_prompts_chunks_and_mixed_batches) {
  if (is_uniform_only()) return;
  expect_agrees({{40}, {40}}, 3);
  expect_agrees({{33}, {300}, 3}, 16, kSmallLatents);
  // Chunks of prompts, decoding requests, requests without tokens, and padding.
  expect_agrees({{50, 1, 0, 17, 1, 3}, {50, 140, 0, 64, 1, 400}, 5, 2}, 4);
  expect_agrees({{1, 1, 1, 2}, {65, 32, 1, 300}, 3, 1}, 8);
}

TEST_P(CudaLatents, agree_with_the_oracle_in_parts_that_are_merged_in_two_steps) {
  if (kind() == AttentionPath::Kind::planned) return;
  expect_agrees({{1, 1}, {700, 40}}, 16);
  expect_agrees({{1, 1}, {2100, 2049}}, 3);  // nine parts: groups of eight and one
  expect_agrees({{2, 2}, {5000, 300}}, 2, kSmallLatents);
}

std::string name_of_latents(const testing::TestParamInfo<CudaAttentionCase>& tested) {
  const auto& [dtype, kind] = tested.param;
  constexpr std::array kKinds = {"any_batch", "uniform", "planned"};
  return std::string(dtype_name(dtype)) + "_" + kKinds.at(static_cast<size_t>(kind));
}
INSTANTIATE_TEST_SUITE_P(Types,
                         CudaLatents,
                         testing::Combine(testing::Values(DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform,
                                                          AttentionPath::Kind::planned)),
                         name_of_latents);

/// Tokens of one text, whose latents all requests share: a token is known by its position.
class CudaLatentBits : public CudaOps {
 protected:
  struct Request {
    int32_t tokens;
    int32_t length;
  };

  static constexpr int64_t kBlockSize = 16;

  void make_text(int64_t length, int64_t heads) {
    latents_ = random({ceil_div(length, kBlockSize), 1, kBlockSize, kUsualLatents.key_dim});
    queries_ = random({length, heads, kUsualLatents.key_dim});
  }

  /// q, latents, query_start_loc, seq_lens, block_table, out, and no index.
  std::vector<Tensor> operands(const std::vector<Request>& batch) {
    std::vector<int32_t> starts{0};
    std::vector<int32_t> lengths;
    std::vector<int32_t> table;
    const auto blocks = static_cast<size_t>(latents_.size(0));
    for (const Request& request : batch) {
      starts.push_back(starts.back() + request.tokens);
      lengths.push_back(request.length);
      table.resize(table.size() + blocks);
      std::iota(table.end() - static_cast<std::ptrdiff_t>(blocks), table.end(), 0);
    }
    const int64_t heads = queries_.size(1);
    const Tensor q = make({starts.back(), heads, kUsualLatents.key_dim});
    const auto token_bytes = static_cast<size_t>(heads * kUsualLatents.key_dim * 2);
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto first = static_cast<size_t>(batch[i].length - batch[i].tokens);
      std::memcpy(q.data_as<std::byte>() + static_cast<size_t>(starts[i]) * token_bytes,
                  queries_.data_as<std::byte>() + first * token_bytes,
                  static_cast<size_t>(batch[i].tokens) * token_bytes);
    }
    const auto count = static_cast<int64_t>(batch.size());
    return {q,
            latents_,
            ints({count + 1}, starts),
            ints({count}, lengths),
            ints({count, latents_.size(0)}, table),
            make({starts.back(), heads, kUsualLatents.value_dim}),
            {},
            {}};
  }
  static void launch(const std::vector<Tensor>& in,
                     CudaExecutor& executor,
                     const AttentionPath& path = {.kind = AttentionPath::Kind::any_batch}) {
    executor.set_attention(path);
    OpAttributes attributes;
    attributes.scale = 0.04F;
    executor.execute({.code = OpCode::mla_attention, .attributes = attributes}, in, {});
  }
  /// The results of these requests in one batch.
  Tensor attend(const std::vector<Request>& batch,
                CudaExecutor& executor,
                const AttentionPath& path = {.kind = AttentionPath::Kind::any_batch}) {
    const std::vector<Tensor> in = operands(batch);
    launch(in, executor, path);
    stream_->synchronize();
    return in[5];
  }
  /// Whether `count` tokens have the same bits, from these on.
  static bool same(const Tensor& a, int64_t of_a, const Tensor& b, int64_t of_b, int64_t count) {
    const auto token_bytes = static_cast<size_t>(a.size(1) * a.size(2) * 2);
    return std::memcmp(a.data_as<std::byte>() + static_cast<size_t>(of_a) * token_bytes,
                       b.data_as<std::byte>() + static_cast<size_t>(of_b) * token_bytes,
                       static_cast<size_t>(count) * token_bytes) == 0;
  }

  Tensor latents_;
  Tensor queries_;
};

TEST_P(CudaLatentBits, are_those_of_a_request_alone_in_every_batch_and_in_tiles_of_both_sizes) {
  if (dtype() == DType::f16) GTEST_SKIP() << "one type is enough: it takes long here";
  make_text(900, 12);
  // One multiprocessor gets tiles of 64 rows, a thousand get tiles of sixteen.
  CudaExecutor wide(*stream_, *pool_, {.num_multiprocessors = 1, .partial_rows = 20000});
  CudaExecutor narrow(*stream_, *pool_, {.num_multiprocessors = 1000});
  const std::vector<Request> batch = {{1, 900}, {3, 700}, {40, 640}, {1, 1}, {2, 300}};
  const Tensor all = attend(batch, wide);
  EXPECT_TRUE(same(all, 0, attend(batch, narrow), 0, all.size(0)));
  int64_t first = 0;
  for (const Request& request : batch) {
    SCOPED_TRACE(request.length);
    for (CudaExecutor* executor : {&wide, &narrow}) {
      EXPECT_TRUE(same(all, first, attend({request}, *executor), 0, request.tokens));
    }
    const AttentionPath uniform{.kind = AttentionPath::Kind::uniform, .query_len = request.tokens};
    EXPECT_TRUE(same(all, first, attend({request, request}, narrow, uniform), 0, request.tokens));
    first += request.tokens;
  }
}

TEST_P(CudaLatentBits, have_fewer_parts_if_these_do_not_fit_into_the_workspace) {
  if (dtype() == DType::f16) GTEST_SKIP() << "one type is enough: it takes long here";
  make_text(2300, 16);
  CudaExecutor small(*stream_, *pool_, {.num_multiprocessors = 1});
  CudaExecutor large(*stream_, *pool_, {.num_multiprocessors = 1, .partial_rows = 40000});
  constexpr int64_t kRowsOfRequest = 144;  // nine parts of sixteen rows
  const int64_t rows = most_prefill_partial_rows(1) * kPartialRowFloats / latent_part_floats(512);
  const std::vector<Request> batch(static_cast<size_t>(rows / kRowsOfRequest + 1), {1, 2300});
  const Tensor halved = attend(batch, small);
  const Tensor whole = attend(batch, large);
  EXPECT_TRUE(same(attend({{1, 2300}}, small), 0, whole, 0, 1));
  EXPECT_FALSE(same(halved, 0, whole, 0, 1)) << "all parts fitted";
  expect_close(halved, whole, 2 * unit());
  // The next launch finds the counters as they were.
  EXPECT_TRUE(same(halved, 0, attend(batch, small), 0, halved.size(0)));
}

TEST_P(CudaLatentBits, of_an_invariant_token_are_the_same_in_chunks_and_while_decoding) {
  make_text(620, 6);
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .invariance = BatchInvariance::required});
  const Tensor prompt = attend({{1, 300}, {50, 600}}, executor);
  expect_close(prompt, attend({{1, 300}, {50, 600}}, executor_), 2 * unit());
  // A token has the same bits in a chunk of any size that begins anywhere.
  for (const Request& part : {Request{1, 551}, {13, 563}, {30, 600}, {1, 600}, {2, 575}}) {
    const Tensor alone = attend({part}, executor);
    const int64_t place = 1 + part.length - part.tokens - 550;
    EXPECT_TRUE(same(alone, 0, prompt, place, part.tokens)) << part.length;
    const Tensor beside = attend({{3, 20}, part, {1, 620}}, executor);
    EXPECT_TRUE(same(beside, 3, prompt, place, part.tokens)) << part.length;
  }
}

TEST_P(CudaLatentBits, of_a_captured_launch_follow_the_contexts_that_its_replay_finds) {
  make_text(1300, 16);
  const std::vector<Request> batch = {{1, 1300}, {1, 40}, {1, 700}};
  const Tensor want = attend(batch, executor_);
  const std::vector<Tensor> in = operands(batch);
  const Tensor& lengths = in[3];
  std::fill_n(lengths.data_as<int32_t>(), 3, 1);
  stream_->begin_capture();
  launch(in, executor_);
  const auto graph = stream_->end_capture();
  const auto exec = machine_.device().instantiate(*graph);
  for (const auto& now : {std::array{1, 1, 1}, {600, 1, 300}, {1300, 40, 700}}) {
    std::ranges::copy(now, lengths.data_as<int32_t>());
    exec->launch(*stream_);
    stream_->synchronize();
  }
  // The queries are those of the first lengths in both.
  EXPECT_TRUE(same(in[5], 0, want, 0, 3));
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaLatentBits,
                         testing::Values(DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

/// Which kernel a launch takes, over a fake driver.
class CudaLatentLaunches : public testing::Test {
 protected:
  struct Shape {
    int64_t tokens;
    int64_t reqs;
    int64_t heads;
    LatentSizes sizes = kUsualLatents;
    DType dtype = DType::bf16;
  };
  /// The function of the only launch. \pre a GPU with 132 multiprocessors
  std::string launched(const Shape& shape) {
    std::string name;
    for (const auto& [function, kernel] : host_kernels()) {
      machine_.driver().add_kernel(function,
                                   {.parameter_bytes = kernel.argument_bytes,
                                    .run = [&name, function](const device::cuda::FakeLaunch&) {
                                      name = name.empty() ? function : "several launches";
                                    }});
    }
    const auto stream = machine_.device().create_stream();
    const auto pool = machine_.create_host_pool();
    CudaExecutor executor(*stream, *pool, {.num_multiprocessors = 132});
    const auto make = [&](reprise::Shape dims, DType type) {
      const TensorType whole{type, dims};
      return Tensor::own(whole, device::PoolReference(pool->allocate(whole.bytes())), executor);
    };
    const Tensor cache = make({4, 1, 16, shape.sizes.key_dim}, shape.dtype);
    executor.execute(
        {.code = OpCode::mla_attention},
        std::vector<Tensor>{make({shape.tokens, shape.heads, shape.sizes.key_dim}, shape.dtype),
                            cache,
                            make({shape.reqs + 1}, DType::i32),
                            make({shape.reqs}, DType::i32),
                            make({shape.reqs, 4}, DType::i32),
                            make({shape.tokens, shape.heads, shape.sizes.value_dim}, shape.dtype),
                            {},
                            {}},
        {});
    stream->synchronize();
    return name;
  }

  CudaMachine machine_;
};

TEST_F(CudaLatentLaunches, take_tiles_of_64_rows_where_these_have_work_for_the_gpu) {
  EXPECT_EQ(launched({.tokens = 1, .reqs = 1, .heads = 128}), "reprise_latent_attention_512_bf16");
  EXPECT_EQ(launched({.tokens = 256, .reqs = 256, .heads = 16}),
            "reprise_latent_attention_512_bf16")
      << "sixteen rows for each request";
  EXPECT_EQ(launched({.tokens = 64, .reqs = 64, .heads = 128}),
            "reprise_wide_latent_attention_512_bf16");
  EXPECT_EQ(launched({.tokens = 512, .reqs = 1, .heads = 16}),
            "reprise_wide_latent_attention_512_bf16");
  EXPECT_EQ(
      launched(
          {.tokens = 512, .reqs = 1, .heads = 16, .sizes = kSmallLatents, .dtype = DType::f16}),
      "reprise_wide_latent_attention_256_f16");
  EXPECT_EQ(launched({.tokens = 64, .reqs = 1, .heads = 16}), "reprise_latent_attention_512_bf16")
      << "too few tiles of 64 rows";
}

TEST_F(CudaLatentLaunches, take_tiles_of_16_rows_on_gpus_with_less_shared_memory) {
  machine_.driver().set_block_shared_bytes(99 * 1024);
  machine_.driver().set_architecture_of_code(86);
  EXPECT_EQ(launched({.tokens = 512, .reqs = 1, .heads = 16}), "reprise_latent_attention_512_bf16");
  machine_.driver().set_block_shared_bytes(163 * 1024);  // an A100's
  EXPECT_EQ(launched({.tokens = 512, .reqs = 1, .heads = 16}), "reprise_latent_attention_512_bf16");
  EXPECT_EQ(launched({.tokens = 512, .reqs = 1, .heads = 16, .sizes = kSmallLatents}),
            "reprise_wide_latent_attention_256_bf16");
}

TEST_F(CudaLatentLaunches, compute_other_sizes_and_float32_row_by_row) {
  EXPECT_EQ(launched({.tokens = 4, .reqs = 4, .heads = 4, .dtype = DType::f32}),
            "reprise_attention_by_rows_f32");
  EXPECT_EQ(launched({.tokens = 4, .reqs = 4, .heads = 4, .sizes = {128, 192}}),
            "reprise_attention_by_rows_bf16");
}

}  // namespace
}  // namespace reprise::kernels::cuda
