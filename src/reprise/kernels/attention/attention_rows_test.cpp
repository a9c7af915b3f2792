#include <algorithm>
#include <array>
#include <cmath>

#include "tests/support/kernels/attention_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

// Many query rows of one request share the loads of keys and values. On the uniform path, all
// tokens of a request are rows of one block, so small batches have many rows.
namespace reprise::kernels {
namespace {

class AttentionOfManyRows : public AttentionTest {
 protected:
  Tensor run_rows(const Model& model, const Batch& batch) {
    const auto tokens = static_cast<int>(int_element(batch.query_start_loc, 1));
    const AttentionPath path = {.kind = AttentionPath::Kind::uniform, .query_len = tokens};
    return run(model, batch, &path);
  }

  /// One token of the first request as a batch of its own.
  Batch alone(const Batch& batch, int token) {
    Batch one = batch;
    const auto tokens = static_cast<int>(int_element(batch.query_start_loc, 1));
    one.q = batch.q.with_layout(
        {1, batch.q.size(1), batch.q.size(2)}, batch.q.strides(), token * batch.q.stride(0));
    one.query_start_loc = ints({0, 1});
    const auto context = static_cast<int>(int_element(batch.seq_lens, 0));
    one.seq_lens = ints({context - (tokens - 1 - token)});
    return one;
  }

  void expect_rows_agree(const Model& model, const Batch& batch) {
    const Tensor out = run_rows(model, batch);
    const Tensor want = make_ref(result_shape(model, batch));
    attention_ref(call_of(model, batch, want));
    // Sums of float32 have larger errors where scores are larger.
    expect_close(out, want, 1.01 * rounding_error(dtype()), std::max(4e-5, weights_error(model)));
    const auto tokens = static_cast<int>(int_element(batch.query_start_loc, 1));
    for (const int token : {0, 1, tokens / 2, tokens - 1}) {
      SCOPED_TRACE(testing::Message() << "token " << token);
      expect_same_row(run(model, alone(batch, token)), 0, out, token);
    }
  }
  void expect_rows_agree(const Model& model, const Request& request) {
    SCOPED_TRACE(testing::Message() << request.query << " tokens, " << request.context
                                    << " positions, group of " << model.group_size << ", head_dim "
                                    << model.head_dim << ", window " << model.sliding_window);
    Batch batch = make_batch(model, {request});
    // Scores that differ much, so that maxima grow within a span of chunks.
    fill_random(batch.q, 6.0);
    expect_rows_agree(model, batch);
  }
};

TEST_P(AttentionOfManyRows, agree_with_the_oracle_and_have_the_bits_of_a_token_alone) {
  for (const int64_t group_size : {1, 5, 7, 16, 33}) {
    expect_rows_agree({.group_size = group_size}, {.query = 40, .context = 170});
  }
  for (const int64_t head_dim : {48, 64, 96, 128}) {
    expect_rows_agree({.kv_heads = 1, .group_size = 7, .head_dim = head_dim},
                      {.query = 20, .context = 150});
  }
}

TEST_P(AttentionOfManyRows, agree_at_the_edges_of_chunks_and_spans) {
  for (const int context : {36, 63, 64, 65, 127, 128, 129, 255, 257}) {
    expect_rows_agree({.kv_heads = 1, .group_size = 4}, {.query = 36, .context = context});
  }
}

TEST_P(AttentionOfManyRows, agree_in_several_segments) {
  expect_rows_agree({.kv_heads = 1, .group_size = 7}, {.query = 10, .context = 2053});
}

TEST_P(AttentionOfManyRows, see_only_the_sliding_window) {
  for (const int64_t window : {1, 2, 31, 33, 64, 100, 150}) {
    expect_rows_agree({.kv_heads = 1, .group_size = 4, .sliding_window = window},
                      {.query = 70, .context = 200});
  }
}

TEST_P(AttentionOfManyRows, agree_for_every_kind) {
  for (const Model& model : {Model{.group_size = 7, .soft_cap = 2.0F},
                             Model{.group_size = 7, .chunk_size = 33},
                             Model{.group_size = 7, .block_size = 8},
                             Model{.group_size = 7, .block_size = 1},
                             Model{.group_size = 7, .block_size = 48}}) {
    expect_rows_agree(model, {.query = 40, .context = 140});
  }
}

TEST_P(AttentionOfManyRows, agree_where_all_tokens_see_all_positions) {
  for (const int64_t window : {0, 20}) {
    const Model model = {.group_size = 7, .sliding_window = window, .is_bidirectional = true};
    for (const int context : {33, 127, 141}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", " << context << " positions");
      const Batch batch = make_batch(model, {{.query = 33, .context = context}});
      const Tensor want = make_ref(result_shape(model, batch));
      attention_ref(call_of(model, batch, want));
      expect_close(
          run_rows(model, batch), want, 1.01 * rounding_error(dtype()), weights_error(model));
    }
  }
}

TEST_P(AttentionOfManyRows, agree_with_sinks_and_with_biases) {
  const Model model = {.group_size = 7};
  Batch batch = make_batch(model, {{.query = 40, .context = 140}});
  batch.sinks = random({14}, 3.0);
  expect_rows_agree(model, batch);
  batch.sinks = {};
  batch.biases = random({14, 140}, DType::f32, 8.0);
  expect_rows_agree(model, batch);
}

// The weight of a position that a row does not see is 0, and 0 times infinity is NaN.
TEST_P(AttentionOfManyRows, do_not_meet_values_that_are_not_finite_and_that_they_do_not_see) {
  // In the second case, a group of 32 rows that do not see all of a chunk ends where the next group
  // sees all of it.
  for (const auto& [group_size, first, position] :
       {std::array{7, 100, 100}, {7, 100, 130}, {7, 100, 139}, {16, 101, 105}}) {
    SCOPED_TRACE(testing::Message() << "groups of " << group_size << ", position " << position);
    const Model model = {.group_size = group_size};
    const Batch batch = make_batch(model, {{.query = 40, .context = first + 40}});
    const Tensor clean = run_rows(model, batch);
    for (const double value : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      const int block = static_cast<int>(int_element(batch.block_table, 0, position / 16));
      set_element(batch.value_cache, value, block, 0, position % 16, 5);
      const Tensor out = run_rows(model, batch);
      for (int token = 0; token < 40; ++token) {
        SCOPED_TRACE(testing::Message() << "token " << token);
        if (first + token < position) {
          expect_same_row(out, token, clean, token);
        } else {
          EXPECT_FALSE(std::isfinite(element(out, token, 0, 5)));
          EXPECT_EQ(element(out, token, 0, 6), element(clean, token, 0, 6));
          EXPECT_EQ(element(out, token, group_size, 5), element(clean, token, group_size, 5));
        }
      }
    }
  }
}

TEST_P(AttentionOfManyRows, show_a_nan_key_to_the_tokens_that_see_it_only) {
  const Model model = {.group_size = 7};
  const Batch batch = make_batch(model, {{.query = 40, .context = 140}});
  const Tensor clean = run_rows(model, batch);
  set_element(batch.key_cache, NAN, int_element(batch.block_table, 0, 120 / 16), 0, 120 % 16, 3);
  const Tensor out = run_rows(model, batch);
  for (int token = 0; token < 40; ++token) {
    if (100 + token < 120) {
      expect_same_row(out, token, clean, token);
    } else {
      for (int64_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(element(out, token, 0, i)));
      EXPECT_EQ(element(out, token, 7, 0), element(clean, token, 7, 0));
    }
  }
}

// Scores of -inf make weights of exactly 0, and a row whose first scores are all -inf must be able
// to see later positions.
TEST_P(AttentionOfManyRows, count_scores_of_minus_infinity_as_nothing) {
  const Model model = {.group_size = 7};
  if (weights_error(model) < 1e-3) GTEST_SKIP() << "only where weights are rounded";
  const Batch batch = make_batch(model, {{.query = 40, .context = 140}});
  for (int64_t token = 0; token < 40; ++token) {
    for (int64_t head = 0; head < 14; ++head) set_element(batch.q, 3e38, token, head, 0);
  }
  for (int position = 0; position < 140; ++position) {
    const int64_t block = int_element(batch.block_table, 0, position / 16);
    for (int64_t head = 0; head < 2; ++head) {
      set_element(batch.key_cache, position < 70 ? -3e38 : 0.0, block, head, position % 16, 0);
    }
  }
  expect_rows_agree(model, batch);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         AttentionOfManyRows,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
