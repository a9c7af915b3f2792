#include <cmath>

#include "reprise/base/error.h"
#include "tests/support/kernels/attention_fixture.h"
#include "tests/support/kernels/attention_plan_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

// Attention other than causal attention over keys and values: latents, sinks, biases, and both
// directions.
namespace reprise::kernels {
namespace {

class AttentionKinds : public AttentionTest {
 protected:
  // The cache of latent attention: all heads share one row.
  static Model latent(int64_t heads, int64_t latent_size, int64_t rope_size) {
    return {.kv_heads = 1,
            .group_size = heads,
            .head_dim = latent_size + rope_size,
            .latent_size = latent_size};
  }
  AttentionPath planned(const Model& model, const std::vector<Request>& requests) {
    std::vector<PlannedLengths> lengths;
    for (const Request& request : requests) lengths.push_back({request.query, request.context});
    const TestPlan plan = make_test_plan(lengths, {.positions_per_part = 32});
    const int64_t values = model.latent_size > 0 ? model.latent_size : model.head_dim;
    return {.kind = AttentionPath::Kind::planned,
            .plan = ints(plan.words),
            .partials = make(
                {std::max(plan.num_parts, 1) * model.kv_heads * model.group_size * (values + 2)},
                DType::f32)};
  }
};

const std::vector<Request>& mixed_requests() {
  static const std::vector<Request> requests = {{33, 33}, {1, 100}, {0, 0}, {17, 65}, {1, 300}};
  return requests;
}

TEST_P(AttentionKinds, latent_agrees_for_any_number_of_heads_and_size_of_latents) {
  for (int64_t heads : {1, 4, 16, 40}) {
    for (const auto& [latent_size, rope_size] : {std::pair{24, 8}, std::pair{512, 64}}) {
      SCOPED_TRACE(testing::Message() << heads << " heads, latents of " << latent_size);
      expect_agrees(latent(heads, latent_size, rope_size), {{3, 40}, {1, 17}, {1, 129}}, 2);
    }
  }
}

TEST_P(AttentionKinds, latent_refuses_keys_it_has_no_room_for) {
  const Model model = latent(2, 512, 136);
  const Batch batch = make_batch(model, {{1, 1}});
  EXPECT_THROW(run(model, batch), InvalidArgument);
}

TEST_P(AttentionKinds, latent_has_the_same_bits_on_the_uniform_path) {
  const Model model = latent(16, 48, 16);
  const Batch batch = make_batch(model, {{2, 40}, {2, 2}, {2, 129}}, 3);
  const AttentionPath path = {.kind = AttentionPath::Kind::uniform, .query_len = 2};
  expect_same_bits(run(model, batch, &path), run(model, batch));
}

TEST_P(AttentionKinds, latent_gives_a_token_the_same_bits_alone_and_in_any_chunk) {
  const Model model = latent(16, 24, 8);
  const Batch prompt = make_batch(model, {{50, 80}});
  const Tensor all = run(model, prompt);
  Batch chunk = prompt;
  chunk.q = prompt.q.with_layout(
      {1, prompt.q.size(1), prompt.q.size(2)}, prompt.q.strides(), 37 * prompt.q.stride(0));
  chunk.query_start_loc = ints({0, 1});
  chunk.seq_lens = ints({30 + 38});
  expect_same_row(run(model, chunk), 0, all, 37);
}

TEST_P(AttentionKinds, latent_in_parts_agrees_with_the_oracle) {
  const Model model = latent(16, 48, 16);
  const Batch batch = make_batch(model, mixed_requests(), 2);
  const AttentionPath path = planned(model, mixed_requests());
  const Tensor out = run(model, batch, &path);
  const Tensor want = make_ref(result_shape(model, batch));
  attention_ref(call_of(model, batch, want));
  expect_close(out, want, 1.01 * rounding_error(dtype()), weights_error(model));
}

TEST_P(AttentionKinds, sinks_take_part_in_the_softmax_on_every_path) {
  for (int64_t window : {0, 20}) {
    SCOPED_TRACE(window);
    const Model model = {.group_size = 3, .sliding_window = window};
    Batch batch = make_batch(model, mixed_requests(), 2);
    batch.sinks = random({6}, 3.0);
    expect_agrees(model, batch);
    const AttentionPath path = planned(model, mixed_requests());
    const Tensor want = make_ref(result_shape(model, batch));
    attention_ref(call_of(model, batch, want));
    expect_close(
        run(model, batch, &path), want, 1.01 * rounding_error(dtype()), weights_error(model));
  }
}

TEST_P(AttentionKinds, sinks_far_below_all_scores_change_nothing_and_far_above_leave_zeros) {
  const Model model;
  Batch batch = make_batch(model, {{3, 40}});
  const Tensor plain = run(model, batch);
  batch.sinks = make({4});
  for (int64_t head = 0; head < 4; ++head) set_element(batch.sinks, head == 0 ? 500 : -500, head);
  const Tensor out = run(model, batch);
  for (int64_t i = 0; i < model.head_dim; ++i) {
    EXPECT_EQ(element(out, 1, 0, i), 0.0);
    EXPECT_NEAR(element(out, 1, 1, i), element(plain, 1, 1, i), 0.01);
  }
}

TEST_P(AttentionKinds, biases_move_the_scores_of_positions_on_every_path) {
  // There are as many columns as the longest request has positions, and in the second case more.
  for (const int64_t columns : {300, 333}) {
    for (const int64_t window : {0, 20}) {
      SCOPED_TRACE(testing::Message() << columns << " columns, window " << window);
      const Model model = {.group_size = 3, .sliding_window = window};
      Batch batch = make_batch(model, mixed_requests(), 2);
      batch.biases = random({6, columns}, DType::f32, 8.0);
      expect_agrees(model, batch);
      const AttentionPath path = planned(model, mixed_requests());
      const Tensor want = make_ref(result_shape(model, batch));
      attention_ref(call_of(model, batch, want));
      expect_close(
          run(model, batch, &path), want, 1.01 * rounding_error(dtype()), weights_error(model));
    }
  }
}

TEST_P(AttentionKinds, a_token_sees_its_own_chunk_of_positions_on_every_path) {
  for (const int64_t chunk_size : {1, 9, 32, 33, 64, 1000}) {
    SCOPED_TRACE(chunk_size);
    const Model model = {.group_size = 3, .chunk_size = chunk_size};
    const Batch batch = make_batch(model, mixed_requests(), 2);
    expect_agrees(model, batch);
    const AttentionPath path = planned(model, mixed_requests());
    const Tensor want = make_ref(result_shape(model, batch));
    attention_ref(call_of(model, batch, want));
    expect_close(
        run(model, batch, &path), want, 1.01 * rounding_error(dtype()), weights_error(model));
    const Batch uniform = make_batch(model, {{3, 40}, {3, 3}, {3, 129}});
    const AttentionPath uniform_path = {.kind = AttentionPath::Kind::uniform, .query_len = 3};
    expect_same_bits(run(model, uniform, &uniform_path), run(model, uniform));
  }
}

TEST_P(AttentionKinds, a_token_reads_nothing_of_earlier_chunks) {
  const Model model = {.chunk_size = 32};
  const Batch batch = make_batch(model, {{1, 70}});
  const Tensor plain = run(model, batch);
  for (const int64_t block : {0, 1, 2, 3}) set_element(batch.block_table, 1 << 30, 0, block);
  expect_same_bits(run(model, batch), plain);
}

TEST_P(AttentionKinds, bidirectional_tokens_see_all_positions_of_their_request) {
  const Model model = {.group_size = 2, .is_bidirectional = true};
  expect_agrees(model, {{33, 33}, {1, 1}, {70, 70}, {0, 0}}, 3);
  const Batch batch = make_batch(model, {{5, 5}, {5, 5}});
  const AttentionPath path = {.kind = AttentionPath::Kind::uniform, .query_len = 5};
  expect_same_bits(run(model, batch, &path), run(model, batch));
}

// The text of an encoder may be shorter than the decoder's tokens that attend to it.
TEST_P(AttentionKinds, bidirectional_tokens_see_all_of_a_shorter_text) {
  const Model model = {.group_size = 2, .is_bidirectional = true};
  expect_agrees(model, {{5, 2}, {40, 7}, {1, 33}, {3, 0}}, 2);
}

TEST_P(AttentionKinds, bidirectional_windows_reach_as_far_behind_a_token_as_before_it) {
  for (const int64_t window : {1, 2, 5, 32, 33, 65}) {
    SCOPED_TRACE(testing::Message() << "window " << window);
    const Model model = {.group_size = 2, .sliding_window = window, .is_bidirectional = true};
    expect_agrees(model, {{33, 33}, {1, 1}, {130, 130}, {0, 0}, {4, 4}}, 3);
    const Batch batch = make_batch(model, {{5, 5}, {5, 5}});
    const AttentionPath path = {.kind = AttentionPath::Kind::uniform, .query_len = 5};
    expect_same_bits(run(model, batch, &path), run(model, batch));
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         AttentionKinds,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
