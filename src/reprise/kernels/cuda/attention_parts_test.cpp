#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/rows.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// How launches divide decode attention: what a row computes does not depend on the requests beside
// it.
namespace reprise::kernels::cuda {
namespace {

constexpr int64_t kCacheBlockSize = 16;

struct DividedRequest {
  int32_t tokens;
  int32_t length;
};

class CudaAttentionParts : public CudaOps {
 protected:
  /// Everything that one request reads.
  struct Request {
    int32_t tokens;
    int32_t length;
    Tensor q;  // [tokens, heads, head_dim]
    std::vector<int32_t> blocks;
  };

  void make_requests(const std::vector<DividedRequest>& sizes,
                     int64_t heads,
                     int64_t kv_heads,
                     int64_t head_dim) {
    int32_t num_blocks = 0;
    for (const DividedRequest& size : sizes) {
      Request request{size.tokens, size.length, random({size.tokens, heads, head_dim}), {}};
      request.blocks.resize(
          static_cast<size_t>(ceil_div(std::max<int64_t>(size.length, 1), kCacheBlockSize)));
      std::iota(request.blocks.begin(), request.blocks.end(), num_blocks);
      num_blocks += static_cast<int32_t>(request.blocks.size());
      requests_.push_back(std::move(request));
    }
    keys_ = random({num_blocks, kv_heads, kCacheBlockSize, head_dim});
    values_ = random({num_blocks, kv_heads, kCacheBlockSize, head_dim});
  }

  /// The operands of attention for these requests in one batch, one after the other.
  std::array<Tensor, 7> operands(const std::vector<size_t>& batch) {
    std::vector<int32_t> starts{0};
    std::vector<int32_t> lengths;
    size_t most_blocks = 0;
    for (const size_t index : batch) {
      const Request& request = requests_[index];
      starts.push_back(starts.back() + request.tokens);
      lengths.push_back(request.length);
      most_blocks = std::max(most_blocks, request.blocks.size());
    }
    const auto count = static_cast<int64_t>(batch.size());
    std::vector<int32_t> table(batch.size() * most_blocks, -1);
    const Tensor q = make({starts.back(), requests_[0].q.size(1), requests_[0].q.size(2)});
    const size_t token_bytes = q.type().bytes() / static_cast<size_t>(starts.back());
    for (size_t i = 0; i < batch.size(); ++i) {
      const Request& request = requests_[batch[i]];
      std::ranges::copy(request.blocks,
                        table.begin() + static_cast<std::ptrdiff_t>(i * most_blocks));
      std::memcpy(q.data_as<std::byte>() + static_cast<size_t>(starts[i]) * token_bytes,
                  request.q.data(),
                  static_cast<size_t>(request.tokens) * token_bytes);
    }
    return {q,
            keys_,
            values_,
            ints({count + 1}, starts),
            ints({count}, lengths),
            ints({count, static_cast<int64_t>(most_blocks)}, table),
            make(q.shape())};
  }

  void launch(const std::array<Tensor, 7>& in,
              const AttentionPath& path,
              CudaExecutor& executor,
              int64_t window = 0) {
    executor.set_attention(path);
    OpAttributes attributes;
    attributes.scale = 1.0F / std::sqrt(static_cast<float>(in[0].size(2)));
    attributes.sliding_window = window;
    executor.execute({.code = OpCode::attention, .attributes = attributes}, in, {});
  }

  /// The results of these requests in one batch.
  Tensor attend(const std::vector<size_t>& batch,
                const AttentionPath& path,
                CudaExecutor& executor,
                int64_t window = 0) {
    const std::array<Tensor, 7> in = operands(batch);
    launch(in, path, executor, window);
    stream_->synchronize();
    return in.back();
  }

  /// Whether the rows of requests_[index] are those of the batch's results from `first` on.
  static testing::AssertionResult same_rows(const Tensor& alone, const Tensor& all, int64_t first) {
    const size_t token_bytes = alone.type().bytes() / static_cast<size_t>(alone.size(0));
    const auto* found = all.data_as<std::byte>() + static_cast<size_t>(first) * token_bytes;
    return std::memcmp(alone.data(), found, alone.type().bytes()) == 0
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "other bits from token " << first << " on";
  }

  /// Every request has the same bits alone and in each of the batches.
  void expect_same_bits(const std::vector<std::vector<size_t>>& batches,
                        const AttentionPath& path,
                        int64_t window = 0) {
    for (const std::vector<size_t>& batch : batches) {
      const Tensor all = attend(batch, path, executor_, window);
      int64_t first = 0;
      for (const size_t index : batch) {
        const Tensor alone = attend({index}, path, executor_, window);
        EXPECT_TRUE(same_rows(alone, all, first)) << "request " << index;
        first += requests_[index].tokens;
      }
    }
  }

  /// Adds a request with some tokens of requests_[index]: a chunk of a prompt, or a decoding
  /// request. It reads the same cache. \returns its index
  size_t add_part(size_t index, int32_t first, int32_t tokens) {
    const Request& whole = requests_[index];
    const int64_t heads = whole.q.size(1);
    const int64_t head_dim = whole.q.size(2);
    const Tensor q = make({tokens, heads, head_dim});
    const size_t token_bytes = whole.q.type().bytes() / static_cast<size_t>(whole.tokens);
    std::memcpy(q.data(),
                whole.q.data_as<std::byte>() + static_cast<size_t>(first) * token_bytes,
                static_cast<size_t>(tokens) * token_bytes);
    const int32_t length = whole.length - whole.tokens + first + tokens;
    requests_.push_back({tokens, length, q, whole.blocks});
    return requests_.size() - 1;
  }
  static CudaExecutorOptions invariant(int num_multiprocessors) {
    return {.num_multiprocessors = num_multiprocessors, .invariance = BatchInvariance::required};
  }

  std::vector<Request> requests_;
  Tensor keys_;
  Tensor values_;
};

const AttentionPath kAny{.kind = AttentionPath::Kind::any_batch};
const AttentionPath kUniform{.kind = AttentionPath::Kind::uniform, .query_len = 1};

TEST_P(CudaAttentionParts, a_long_request_has_the_same_bits_alone_and_in_a_large_batch) {
  // One long request among many short ones: more tiles than multiprocessors.
  std::vector<DividedRequest> sizes = {{1, 1900}};
  for (int32_t i = 0; i < 40; ++i) sizes.push_back({1, 1 + i * 17});
  make_requests(sizes, 4, 2, 64);
  std::vector<size_t> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<size_t> reversed(all.rbegin(), all.rend());
  const Tensor first = attend(all, kAny, executor_);
  const Tensor uniform = attend(all, kUniform, executor_);
  EXPECT_TRUE(same_rows(first, uniform, 0));
  const Tensor back = attend(reversed, kUniform, executor_);
  for (const size_t index : {size_t{0}, size_t{1}, size_t{16}, size_t{31}, size_t{40}}) {
    const Tensor alone = attend({index}, kUniform, executor_);
    EXPECT_TRUE(same_rows(alone, first, static_cast<int64_t>(index)));
    EXPECT_TRUE(same_rows(alone, back, static_cast<int64_t>(40 - index)));
  }
}

TEST_P(CudaAttentionParts, requests_of_several_tokens_have_the_same_bits_in_every_batch) {
  make_requests({{3, 700}, {1, 300}, {2, 520}, {1, 1}, {4, 1030}}, 8, 2, 128);
  expect_same_bits({{0, 1, 2, 3, 4}, {4, 2, 0}}, kAny);
  expect_same_bits({{4, 1, 0}}, kAny, 600);
}

TEST_P(CudaAttentionParts, decoding_requests_beside_a_prompt_have_the_bits_of_decoding) {
  make_requests({{90, 200}, {1, 900}, {1, 33}, {2, 300}}, 4, 2, 64);
  const uint64_t before = stream_->counters().kernel_launches;
  const Tensor mixed = attend({1, 0, 2, 3}, kAny, executor_);
  EXPECT_EQ(stream_->counters().kernel_launches - before, 2U);
  EXPECT_TRUE(same_rows(attend({1}, kUniform, executor_), mixed, 0));
  EXPECT_TRUE(same_rows(attend({2}, kUniform, executor_), mixed, 91));
  EXPECT_TRUE(same_rows(attend({3}, kAny, executor_), mixed, 92));
  const uint64_t between = stream_->counters().kernel_launches;
  (void)attend({0}, kAny, executor_);
  EXPECT_EQ(stream_->counters().kernel_launches - between, 1U) << "only a prompt";
}

TEST_P(CudaAttentionParts, a_captured_launch_divides_the_contexts_that_its_replay_finds) {
  make_requests({{1, 1900}, {1, 40}, {1, 700}}, 4, 2, 64);
  for (const AttentionPath& path : {kAny, kUniform}) {
    const std::array<Tensor, 7> in = operands({0, 1, 2});
    const Tensor& lengths = in[4];
    const std::vector<int32_t> later(lengths.data_as<int32_t>(), lengths.data_as<int32_t>() + 3);
    std::fill_n(lengths.data_as<int32_t>(), 3, 1);
    stream_->begin_capture();
    launch(in, path, executor_);
    const auto graph = stream_->end_capture();
    const auto exec = machine_.device().instantiate(*graph);
    for (const auto& now : {std::vector<int32_t>{1, 1, 1}, later, {3, 1, 300}, later}) {
      std::ranges::copy(now, lengths.data_as<int32_t>());
      exec->launch(*stream_);
      stream_->synchronize();
    }
    EXPECT_TRUE(same_rows(attend({0, 1, 2}, path, executor_), in.back(), 0));
  }
}

TEST_P(CudaAttentionParts, parts_are_fewer_if_they_do_not_fit_into_the_workspace) {
  const CudaExecutorOptions small{.num_multiprocessors = 1};
  const int64_t rows = most_prefill_partial_rows(small.num_multiprocessors);
  // Six parts of each request and of 16 rows for each of eight heads.
  const int64_t count = rows / (int64_t{6} * 16 * 8) + 1;
  make_requests(std::vector<DividedRequest>(static_cast<size_t>(count), {1, 1500}), 128, 8, 64);
  std::vector<size_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);

  CudaExecutor executor(*stream_, *pool_, small);
  CudaExecutor large(*stream_, *pool_, {.num_multiprocessors = 1, .partial_rows = 2 * rows});
  const Tensor halved = attend(all, kUniform, executor);
  const Tensor whole = attend(all, kUniform, large);
  const Tensor alone = attend({0}, kUniform, executor);
  EXPECT_TRUE(same_rows(alone, whole, 0));
  EXPECT_FALSE(same_rows(alone, halved, 0)) << "all parts fitted";
  expect_close(halved, whole, 2 * unit());
  // The next launch finds the counters as they were.
  EXPECT_TRUE(same_rows(halved, attend(all, kUniform, executor), 0));
}

TEST_P(CudaAttentionParts, an_invariant_token_has_the_same_bits_in_chunks_and_while_decoding) {
  std::set<std::string> functions;
  if (!machine_.is_real()) {
    machine_.driver().set_time_of_kernels([&](const std::string& function, uint32_t) {
      functions.insert(function);
      return 1.0;
    });
  }
  for (const int64_t head_dim : {64, 128}) {
    requests_.clear();
    make_requests({{30, 1060}, {1, 700}, {3, 40}, {20, 20}}, 6, 2, head_dim);
    CudaExecutor executor(*stream_, *pool_, invariant(4));
    for (const int64_t window : {0, 300}) {
      if (window > 0 && head_dim == 128) continue;
      SCOPED_TRACE(testing::Message() << "heads of " << head_dim << ", window " << window);
      functions.clear();
      const Tensor all = attend({1, 0, 2, 3}, kAny, executor, window);
      // Computed row by row, the bits would not depend on the batch either, but that is slow.
      const char* type = dtype() == DType::bf16 ? "bf16" : "f16";
      if (!machine_.is_real()) {
        EXPECT_THAT(
            functions,
            testing::ElementsAre(fmt::format("reprise_fixed_attention_{}_{}", head_dim, type)));
      }
      expect_close(all, attend({1, 0, 2, 3}, kAny, executor_, window), 2 * unit());
      for (const auto& [first, tokens] :
           std::vector<std::pair<int32_t, int32_t>>{{0, 1}, {0, 13}, {13, 17}, {5, 2}, {29, 1}}) {
        const size_t part = add_part(0, first, tokens);
        const Tensor alone = attend({part}, kAny, executor, window);
        EXPECT_TRUE(same_rows(alone, all, 1 + first)) << first;
        EXPECT_TRUE(same_rows(alone, attend({3, part, 1}, kAny, executor, window), 20)) << first;
      }
      const size_t decoding = add_part(0, 21, 1);
      EXPECT_TRUE(same_rows(attend({decoding}, kUniform, executor, window), all, 22));
      EXPECT_TRUE(same_rows(attend({1}, kUniform, executor, window), all, 0));
    }
  }
}

TEST_P(CudaAttentionParts, invariant_parts_that_do_not_fit_into_the_workspace_have_the_same_bits) {
  if (dtype() == DType::f16) GTEST_SKIP() << "one type is enough: it takes the longest here";
  const int64_t rows = most_prefill_partial_rows(1);
  // Three parts of each request and of 16 rows for each of eight heads.
  const int64_t count = rows / (int64_t{3} * 16 * 8) + 1;
  make_requests(std::vector<DividedRequest>(static_cast<size_t>(count), {1, 1030}), 128, 8, 64);
  std::vector<size_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  CudaExecutor executor(*stream_, *pool_, invariant(1));
  CudaExecutorOptions roomy = invariant(1);
  roomy.partial_rows = 2 * rows;
  CudaExecutor large(*stream_, *pool_, roomy);
  const Tensor undivided = attend(all, kUniform, executor);
  EXPECT_TRUE(same_rows(undivided, attend(all, kUniform, large), 0));
  EXPECT_TRUE(same_rows(attend({0}, kUniform, executor), undivided, 0));
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaAttentionParts,
                         testing::Values(DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
