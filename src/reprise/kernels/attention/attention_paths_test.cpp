#include <cmath>

#include "tests/support/kernels/attention_fixture.h"
#include "tests/support/kernels/attention_plan_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

// Tests the paths beside the path for any batch: their results, and that the result shows it if a
// plan does not belong to the batch.
namespace reprise::kernels {
namespace {

class AttentionPaths : public AttentionTest {
 protected:
  /// Returns the path of a plan for these requests, made without looking at the batch.
  AttentionPath planned(const Model& model,
                        const std::vector<Request>& requests,
                        const PlanOptions& options = {}) {
    std::vector<PlannedLengths> lengths;
    for (const Request& request : requests) lengths.push_back({request.query, request.context});
    const TestPlan plan = make_test_plan(lengths, options);
    const int64_t heads = model.kv_heads * model.group_size;
    return {
        .kind = AttentionPath::Kind::planned,
        .plan = ints(plan.words),
        .partials = make({std::max(plan.num_parts, 1) * heads * (model.head_dim + 2)}, DType::f32)};
  }

  void expect_oracle(const Model& model,
                     const std::vector<Request>& requests,
                     const PlanOptions& options,
                     int padding_tokens = 0) {
    const Batch batch = make_batch(model, requests, padding_tokens);
    const AttentionPath path = planned(model, requests, options);
    const Tensor out = run(model, batch, &path);
    const Tensor want = make_ref(batch.q.shape());
    attention_ref(call_of(model, batch, want));
    expect_close(out, want, 1.01 * rounding_error(dtype()), weights_error(model));
  }

  static bool is_nan_row(const Tensor& out, int64_t token) {
    for (int64_t head = 0; head < out.size(1); ++head) {
      for (int64_t i = 0; i < out.size(2); ++i) {
        if (!std::isnan(element(out, token, head, i))) return false;
      }
    }
    return true;
  }
};

TEST_P(AttentionPaths, uniform_has_the_bits_of_any_batch) {
  for (int query_len : {1, 5}) {
    for (int64_t group_size : {7, 33}) {
      SCOPED_TRACE(testing::Message() << query_len << " tokens, groups of " << group_size);
      const Model model = {.group_size = group_size};
      const Batch batch = make_batch(
          model, {{query_len, 40}, {query_len, query_len}, {query_len, 0}, {query_len, 129}}, 3);
      const AttentionPath path = {.kind = AttentionPath::Kind::uniform, .query_len = query_len};
      expect_same_bits(run(model, batch, &path), run(model, batch));
    }
  }
}

TEST_P(AttentionPaths, uniform_zeroes_rows_of_padding_requests_and_tokens) {
  const Model model;
  // A FULL graph for four requests runs such batches: one real request and padding, and padding
  // alone.
  Batch batch = make_batch(model, {{1, 20}}, 5);
  const Tensor padded_table =
      ints({4, batch.block_table.size(1)},
           std::vector<int>(static_cast<size_t>(4 * batch.block_table.size(1)), 0));
  for (int64_t i = 0; i < batch.block_table.size(1); ++i) {
    set_element(padded_table, static_cast<double>(int_element(batch.block_table, 0, i)), 0, i);
  }
  batch.block_table = padded_table;
  batch.query_start_loc = ints({0, 1, 1, 1, 1});
  batch.seq_lens = ints({20, 0, 0, 0});
  const AttentionPath path = {.kind = AttentionPath::Kind::uniform};
  expect_same_bits(run(model, batch, &path), run(model, batch));
  const Batch none = make_batch(model, {}, 3);
  const Tensor out = run(model, none, &path);
  for (int64_t token = 0; token < 3; ++token) EXPECT_EQ(element(out, token, 3, 5), 0.0);
}

TEST_P(AttentionPaths, planned_without_parts_has_the_bits_of_any_batch) {
  const Model model = {.group_size = 3};
  const std::vector<Request> requests = {
      {33, 33}, {1, 100}, {0, 0}, {17, 65}, {1, 1}, {2, 1000}, {1, 0}};
  const Batch batch = make_batch(model, requests, 2);
  for (int tokens_per_item : {1, 4, 100}) {
    const AttentionPath path =
        planned(model, requests, {.tokens_per_item = tokens_per_item, .parts = false});
    expect_same_bits(run(model, batch, &path), run(model, batch));
  }
}

TEST_P(AttentionPaths, planned_in_parts_agrees_with_the_oracle) {
  for (int positions : {32, 256}) {
    for (int64_t head_dim : {24, 128}) {
      SCOPED_TRACE(testing::Message() << positions << " positions, head_dim " << head_dim);
      expect_oracle({.group_size = 3, .head_dim = head_dim},
                    {{1, 31}, {1, 32}, {1, 33}, {5, 70}, {1, 64}, {1, 65}, {1, 700}},
                    {.positions_per_part = positions},
                    2);
    }
  }
}

TEST_P(AttentionPaths, planned_in_parts_sees_only_the_sliding_window) {
  for (int64_t window : {1, 31, 32, 33, 90, 1000}) {
    SCOPED_TRACE(window);
    expect_oracle({.sliding_window = window}, {{1, 300}, {1, 64}, {3, 70}}, {});
  }
}

TEST_P(AttentionPaths, planned_in_parts_shows_a_nan_of_its_own_context) {
  const Model model;
  const std::vector<Request> requests = {{1, 100}, {1, 100}};
  const Batch batch = make_batch(model, requests);
  set_element(batch.value_cache, NAN, int_element(batch.block_table, 1, 2), 0, 3, 5);
  const AttentionPath path = planned(model, requests);
  const Tensor out = run(model, batch, &path);
  EXPECT_TRUE(std::isfinite(element(out, 0, 0, 5)));
  EXPECT_TRUE(std::isnan(element(out, 1, 0, 5)));
}

TEST_P(AttentionPaths, a_plan_of_other_lengths_gives_nan_to_the_requests_that_changed) {
  const Model model;
  const std::vector<Request> requests = {{1, 100}, {1, 20}, {1, 70}, {1, 5}};
  const Batch batch = make_batch(model, requests);
  for (const bool parts : {true, false}) {
    // The second and third requests were preempted, and others took their places.
    const AttentionPath stale =
        planned(model, {{1, 100}, {1, 19}, {1, 71}, {1, 5}}, {.parts = parts});
    const Tensor out = run(model, batch, &stale);
    EXPECT_FALSE(is_nan_row(out, 0));
    EXPECT_TRUE(is_nan_row(out, 1));
    EXPECT_TRUE(is_nan_row(out, 2));
    EXPECT_FALSE(is_nan_row(out, 3));
  }
}

TEST_P(AttentionPaths, a_plan_of_another_batch_size_gives_nan_to_all_rows) {
  const Model model;
  const std::vector<Request> requests = {{1, 40}, {1, 50}, {1, 60}};
  const Batch batch = make_batch(model, requests, 1);
  for (const std::vector<Request>& others : {std::vector<Request>{},
                                             {{1, 40}},
                                             {{1, 40}, {1, 50}},
                                             {{1, 40}, {1, 50}, {1, 60}, {1, 70}},
                                             {{1, 40}, {2, 50}, {2, 60}}}) {
    const AttentionPath stale = planned(model, others);
    const Tensor out = run(model, batch, &stale);
    for (int64_t token = 0; token < 4; ++token)
      EXPECT_TRUE(is_nan_row(out, token)) << others.size();
  }
}

TEST_P(AttentionPaths, a_plan_of_other_query_lengths_shows_even_if_they_sum_to_the_same) {
  const Model model;
  const Batch batch = make_batch(model, {{1, 40}, {3, 50}, {1, 60}});
  const AttentionPath stale = planned(model, {{3, 40}, {1, 50}, {1, 60}});
  const Tensor out = run(model, batch, &stale);
  for (int64_t token = 0; token < 4; ++token) EXPECT_TRUE(is_nan_row(out, token));
  EXPECT_FALSE(is_nan_row(out, 4));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         AttentionPaths,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
