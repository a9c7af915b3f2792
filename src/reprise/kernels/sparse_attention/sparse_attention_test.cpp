#include "reprise/kernels/sparse_attention/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tensor/view.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

struct SparseSizes {
  int64_t heads = 3;
  int64_t head_dim = 20;
  int64_t value_dim = 12;
  int64_t index_heads = 4;
  int64_t index_dim = 9;
  int64_t block_size = 4;
  int64_t top_k = 5;
};

class SparseAttention : public KernelTest {
 protected:
  // Sets up requests of given lengths, each with its last tokens. The blocks are in reverse order.
  void set_up(const SparseSizes& sizes,
              const std::vector<int>& query_lens,
              const std::vector<int>& lens) {
    sizes_ = sizes;
    lens_ = lens;
    starts_ = {0};
    for (const int count : query_lens) starts_.push_back(starts_.back() + count);
    const int64_t longest = *std::ranges::max_element(lens);
    most_blocks_ = (longest + sizes.block_size - 1) / sizes.block_size;
    const auto num_reqs = static_cast<int64_t>(lens.size());
    const int64_t num_tokens = starts_.back() + 1;  // the last one is padding
    q_ = random_strided({num_tokens, sizes.heads, sizes.head_dim});
    cache_ = random(
        {num_reqs * most_blocks_ + 1, 1, sizes.block_size, sizes.head_dim + sizes.index_dim});
    index_q_ = random_strided({num_tokens, sizes.index_heads, sizes.index_dim});
    index_weights_ = random({num_tokens, sizes.index_heads});
    table_.clear();
    for (int64_t i = num_reqs * most_blocks_; i > 0; --i) table_.push_back(static_cast<int>(i));
  }

  Tensor run() {
    const Tensor out = make({q_.size(0), sizes_.heads, sizes_.value_dim});
    launch_sparse_attention(
        stream_,
        kernels(),
        {.q = q_,
         .kv_cache = cache_,
         .index_q = index_q_,
         .index_weights = index_weights_,
         .query_start_loc = ints(starts_),
         .seq_lens = ints(lens_),
         .block_table = ints({static_cast<int64_t>(lens_.size()), most_blocks_}, table_),
         .out = out,
         .scale = 0.3F,
         .top_k = sizes_.top_k});
    return out;
  }

  [[nodiscard]] double cached(size_t request, int64_t position, int64_t i) const {
    const auto block = request * static_cast<size_t>(most_blocks_) +
                       static_cast<size_t>(position / sizes_.block_size);
    return element(cache_, table_[block], 0, position % sizes_.block_size, i);
  }
  [[nodiscard]] double index_score(size_t request, int64_t token, int64_t position) const {
    double score = 0;
    for (int64_t head = 0; head < sizes_.index_heads; ++head) {
      double product = 0;
      for (int64_t i = 0; i < sizes_.index_dim; ++i) {
        product +=
            element(index_q_, token, head, i) * cached(request, position, sizes_.head_dim + i);
      }
      score += element(index_weights_, token, head) * std::max(0.0, product);
    }
    return score;
  }
  // The positions that a token chooses by the definition.
  [[nodiscard]] std::vector<int64_t> chosen(size_t request, int64_t token, int64_t context) const {
    std::vector<int64_t> positions;
    std::vector<double> scores;
    for (int64_t position = 0; position < context; ++position) {
      positions.push_back(position);
      scores.push_back(index_score(request, token, position));
    }
    std::ranges::stable_sort(positions, [&](int64_t a, int64_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    positions.resize(static_cast<size_t>(std::min(context, sizes_.top_k)));
    return positions;
  }
  void expect_row(const Tensor& want, size_t request, int64_t token, int64_t context) const {
    const std::vector<int64_t> positions = chosen(request, token, context);
    for (int64_t head = 0; head < sizes_.heads; ++head) {
      std::vector<double> weights;
      double total = 0;
      for (const int64_t position : positions) {
        double score = 0;
        for (int64_t i = 0; i < sizes_.head_dim; ++i) {
          score += element(q_, token, head, i) * cached(request, position, i);
        }
        weights.push_back(std::exp(0.3 * score));
        total += weights.back();
      }
      for (int64_t i = 0; i < sizes_.value_dim; ++i) {
        double sum = 0;
        for (size_t p = 0; p < positions.size(); ++p) {
          sum += weights[p] / total * cached(request, positions[p], i);
        }
        set_element(want, sum, token, head, i);
      }
    }
  }
  void expect_agrees() {
    const Tensor want = make_ref({q_.size(0), sizes_.heads, sizes_.value_dim});
    for (size_t request = 0; request < lens_.size(); ++request) {
      const int64_t end = starts_[request + 1];
      for (int64_t token = starts_[request]; token < end; ++token) {
        expect_row(want, request, token, lens_[request] - (end - 1 - token));
      }
    }
    for (int64_t head = 0; head < sizes_.heads; ++head) {
      for (int64_t i = 0; i < sizes_.value_dim; ++i) {
        set_element(want, 0, starts_.back(), head, i);
      }
    }
    expect_close(run(), want, 1.01 * rounding_error(dtype()) + 2e-5, 2e-5);
  }

  SparseSizes sizes_;
  std::vector<int> starts_;
  std::vector<int> lens_;
  std::vector<int> table_;
  int64_t most_blocks_ = 0;
  Tensor q_;
  Tensor cache_;
  Tensor index_q_;
  Tensor index_weights_;
};

TEST_P(SparseAttention, sees_the_positions_of_the_highest_index_scores) {
  // The contexts are shorter than, as long as and longer than the number of chosen positions, and
  // have several chunks.
  set_up({}, {1, 4, 2, 3}, {3, 6, 40, 70});
  expect_agrees();
  set_up({.heads = 9, .top_k = 33}, {2, 1}, {70, 33});
  expect_agrees();
}

TEST_P(SparseAttention, takes_sizes_that_no_vector_divides) {
  set_up({.heads = 17,
          .head_dim = 37,
          .value_dim = 33,
          .index_heads = 7,
          .index_dim = 31,
          .block_size = 16,
          .top_k = 1},
         {3},
         {35});
  expect_agrees();
}

TEST_P(SparseAttention, prefers_earlier_positions_of_equal_scores) {
  set_up({.top_k = 3}, {1}, {20});
  std::memset(index_weights_.data(), 0, index_weights_.type().bytes());  // all scores are 0
  expect_agrees();
}

TEST_P(SparseAttention, a_token_alone_has_the_bits_that_it_has_in_a_batch) {
  set_up({}, {4}, {40});
  const Tensor batch = run();
  // The last token again, as the only token of a step.
  const Tensor q = q_;
  const Tensor index_q = index_q_;
  const Tensor weights = index_weights_;
  q_ = make_view({OpCode::slice, {.dim = 0, .begin = 3, .length = 1}}, q);
  index_q_ = make_view({OpCode::slice, {.dim = 0, .begin = 3, .length = 1}}, index_q);
  index_weights_ = make_view({OpCode::slice, {.dim = 0, .begin = 3, .length = 1}}, weights);
  starts_ = {0, 1};
  const Tensor alone = run();
  for (int64_t head = 0; head < sizes_.heads; ++head) {
    for (int64_t i = 0; i < sizes_.value_dim; ++i) {
      ASSERT_EQ(element(alone, 0, head, i), element(batch, 3, head, i));
    }
  }
}

TEST_P(SparseAttention, refuses_more_than_its_stack_holds) {
  set_up({.top_k = 2049}, {1}, {4});
  EXPECT_THROW(run(), InvalidArgument);
  set_up({.index_heads = 129}, {1}, {4});
  EXPECT_THROW(run(), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         SparseAttention,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
