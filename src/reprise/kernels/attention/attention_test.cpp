#include "reprise/kernels/attention/attention.h"

#include <cmath>

#include "reprise/base/error.h"
#include "reprise/kernels/quantize/quantize.h"
#include "tests/support/kernels/attention_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

namespace reprise::kernels {
namespace {

class Attention : public AttentionTest {};

TEST_P(Attention, decodes_at_edges_of_the_context) {
  for (int context : {1, 15, 16, 17, 31, 32, 33, 64, 1000}) {
    SCOPED_TRACE(context);
    expect_agrees({}, {{.query = 1, .context = context}});
  }
}

TEST_P(Attention, agrees_for_every_head_dim) {
  for (int64_t head_dim : {2, 16, 24, 32, 48, 64, 80, 96, 100, 128, 256, 512}) {
    SCOPED_TRACE(head_dim);
    expect_agrees({.head_dim = head_dim},
                  {{.query = 3, .context = 40}, {.query = 1, .context = 17}});
  }
}

TEST_P(Attention, agrees_for_every_group_size) {
  for (int64_t group_size : {1, 2, 3, 7, 8, 33}) {
    SCOPED_TRACE(group_size);
    expect_agrees({.group_size = group_size, .head_dim = 16},
                  {{.query = 5, .context = 5}, {.query = 1, .context = 49}});
  }
}

TEST_P(Attention, agrees_for_a_mix_of_prefill_chunk_decode_and_idle) {
  expect_agrees({},
                {{.query = 33, .context = 33},
                 {.query = 1, .context = 100},
                 {.query = 0, .context = 0},
                 {.query = 17, .context = 65},
                 {.query = 0, .context = 20},
                 {.query = 2, .context = 1000}});
}

// All weights are 1 here, and every kernel represents 1 exactly. So the test finds any position
// that is missing or counted twice.
TEST_P(Attention, averages_all_values_where_scores_are_equal) {
  for (const Model& model : {Model{},
                             Model{.group_size = 7, .head_dim = 64},
                             Model{.head_dim = 256, .sliding_window = 33},
                             Model{.head_dim = 24}}) {
    SCOPED_TRACE(model.head_dim);
    const Batch batch = make_batch(model, {{33, 33}, {1, 1000}, {17, 65}, {1, 31}, {2, 700}});
    fill_random(batch.q, 1e-30);  // scores that round to 0
    const Tensor want = make_ref(result_shape(model, batch));
    attention_ref(call_of(model, batch, want));
    expect_close(run(model, batch), want, 1.01 * rounding_error(dtype()), 4e-6);
  }
}

TEST_P(Attention, agrees_when_blocks_hold_several_tokens) {
  // 300 tokens x 2 heads: more work than the wanted number of blocks.
  expect_agrees({.group_size = 1, .head_dim = 16}, {{.query = 300, .context = 333}});
}

TEST_P(Attention, agrees_for_every_block_size) {
  for (int64_t block_size : {1, 8, 16, 32, 48, 128}) {
    SCOPED_TRACE(block_size);
    expect_agrees({.block_size = block_size}, {{.query = 3, .context = 70}});
  }
}

TEST_P(Attention, sees_only_the_sliding_window) {
  for (int64_t window : {1, 2, 16, 31, 32, 33, 1000}) {
    SCOPED_TRACE(window);
    expect_agrees({.sliding_window = window},
                  {{.query = 40, .context = 100}, {.query = 1, .context = 70}});
  }
}

TEST_P(Attention, caps_scores_softly) {
  // Scores have a standard deviation of 1, so that these caps change most of them, or few.
  for (float soft_cap : {0.5F, 2.0F, 50.0F}) {
    SCOPED_TRACE(soft_cap);
    expect_agrees({.sliding_window = 40, .soft_cap = soft_cap},
                  {{.query = 40, .context = 100}, {.query = 1, .context = 70}});
  }
}

TEST_P(Attention, zeroes_padding_tokens) {
  const Model model;
  const Batch batch =
      make_batch(model, {{.query = 2, .context = 20}, {.query = 1, .context = 3}}, 5);
  const Tensor out = run(model, batch);
  for (int64_t token = 0; token < 8; ++token) {
    double magnitude = 0;
    for (int64_t i = 0; i < model.head_dim; ++i) magnitude += std::abs(element(out, token, 0, i));
    if (token < 3) {
      EXPECT_GT(magnitude, 0.0);
    } else {
      EXPECT_EQ(magnitude, 0.0);
    }
  }
}

TEST_P(Attention, zeroes_tokens_of_a_request_without_positions) {
  expect_agrees(
      {}, {{.query = 1, .context = 20}, {.query = 1, .context = 0}, {.query = 1, .context = 5}});
}

TEST_P(Attention, gives_zeros_without_requests) {
  const Model model;
  Batch batch = make_batch(model, {}, 3);
  const Tensor out = run(model, batch);
  for (int64_t i = 0; i < model.head_dim; ++i) EXPECT_EQ(element(out, 2, 3, i), 0.0);
}

TEST_P(Attention, gives_a_token_the_same_bits_alone_and_in_any_chunk) {
  for (int64_t window : {0, 20, 50}) {
    const Model model = {.kv_heads = 2, .group_size = 3, .sliding_window = window};
    // The prompt has so many tokens that several share a block; in the short chunks below they do
    // not.
    const Batch prefill = make_batch(model, {{.query = 200, .context = 230}});
    const Tensor all = run(model, prefill);
    for (int count : {1, 2, 5, 33}) {
      for (int first : {0, 1, 31, 37}) {
        SCOPED_TRACE(testing::Message()
                     << count << " tokens from " << first << ", window " << window);
        Batch chunk = prefill;
        chunk.q = prefill.q.with_layout({count, prefill.q.size(1), prefill.q.size(2)},
                                        prefill.q.strides(),
                                        first * prefill.q.stride(0));
        chunk.query_start_loc = ints({0, count});
        chunk.seq_lens = ints({30 + first + count});
        const Tensor out = run(model, chunk);
        for (int token = 0; token < count; ++token) expect_same_row(out, token, all, first + token);
      }
    }
  }
}

TEST_P(Attention, gives_a_token_the_same_bits_in_tiles_of_any_height) {
  // One token with all heads of its group is one tile of rows, and the tokens of a prompt are
  // several tiles of other heights.
  for (int64_t group_size : {1, 2, 5, 7, 8, 9, 16}) {
    for (int64_t head_dim : {40, 64}) {
      SCOPED_TRACE(testing::Message() << "group of " << group_size << ", head_dim " << head_dim);
      const Model model = {.kv_heads = 2, .group_size = group_size, .head_dim = head_dim};
      const Batch prompt = make_batch(model, {{.query = 200, .context = 215}});
      const Tensor all = run(model, prompt);
      for (int first : {0, 100, 199}) {
        Batch alone = prompt;
        alone.q = prompt.q.with_layout({1, prompt.q.size(1), prompt.q.size(2)},
                                       prompt.q.strides(),
                                       first * prompt.q.stride(0));
        alone.query_start_loc = ints({0, 1});
        alone.seq_lens = ints({15 + first + 1});
        expect_same_row(run(model, alone), 0, all, first);
      }
    }
  }
}

TEST_P(Attention, gives_a_request_the_same_bits_beside_any_other) {
  const Model model = {.group_size = 7};
  const Batch batch = make_batch(
      model,
      {{.query = 3, .context = 50}, {.query = 1, .context = 129}, {.query = 20, .context = 20}});
  const Tensor all = run(model, batch);
  Batch alone = batch;
  alone.q = batch.q.with_layout(
      {1, batch.q.size(1), batch.q.size(2)}, batch.q.strides(), 3 * batch.q.stride(0));
  alone.query_start_loc = ints({0, 1});
  alone.seq_lens = ints({129});
  alone.block_table = batch.block_table.with_layout(
      {1, batch.block_table.size(1)}, batch.block_table.strides(), batch.block_table.stride(0));
  expect_same_row(run(model, alone), 0, all, 3);
}

TEST_P(Attention, gives_the_same_bits_for_every_block_size) {
  const Model small = {.block_size = 16};
  const Batch paged = make_batch(small, {{.query = 4, .context = 90}});
  const Model large = {.block_size = 96};
  Batch flat = make_batch(large, {{.query = 4, .context = 90}});
  flat.q = paged.q;
  for (int64_t position = 0; position < 90; ++position) {
    const int64_t from = int_element(paged.block_table, 0, position / 16);
    const int64_t to = int_element(flat.block_table, 0, 0);
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t i = 0; i < 32; ++i) {
        set_element(flat.key_cache,
                    element(paged.key_cache, from, head, position % 16, i),
                    to,
                    head,
                    position,
                    i);
        set_element(flat.value_cache,
                    element(paged.value_cache, from, head, position % 16, i),
                    to,
                    head,
                    position,
                    i);
      }
    }
  }
  expect_same_bits(run(large, flat), run(small, paged));
}

TEST_P(Attention, stays_finite_for_scores_beyond_the_range_of_exp) {
  const Model model;
  const Batch batch = make_batch(model, {{.query = 2, .context = 60}});
  const Tensor out = make(batch.q.shape());
  AttentionCall call = call_of(model, batch, out);
  call.scale = 1000.0F;
  launch_attention(stream_, kernels(), call);
  for (int64_t i = 0; i < model.head_dim; ++i) EXPECT_TRUE(std::isfinite(element(out, 1, 0, i)));
}

TEST_P(Attention, shows_a_nan_of_its_own_context) {
  const Model model;
  const Batch batch = make_batch(model, {{.query = 1, .context = 40}, {.query = 1, .context = 40}});
  set_element(batch.key_cache, NAN, int_element(batch.block_table, 1, 2), 0, 3, 5);
  const Tensor out = run(model, batch);
  EXPECT_TRUE(std::isfinite(element(out, 0, 0, 0)));
  EXPECT_TRUE(std::isnan(element(out, 1, 0, 0)));
  EXPECT_TRUE(std::isfinite(element(out, 1, 2, 0))) << "the NaN is in the other kv head";
}

TEST_P(Attention, keeps_an_infinite_value_from_tokens_that_do_not_see_it) {
  const Model model;
  // There are so many tokens that the last two share their loads of keys and values.
  const Batch batch = make_batch(model, {{.query = 200, .context = 200}});
  const Tensor clean = run(model, batch);
  set_element(batch.value_cache, INFINITY, int_element(batch.block_table, 0, 12), 0, 7, 5);
  const Tensor out = run(model, batch);
  for (int64_t token = 0; token < 199; ++token) expect_same_row(out, token, clean, token);
  EXPECT_TRUE(std::isinf(element(out, 199, 0, 5))) << "position 199 is the last token's own";
}

TEST_P(Attention, quantises_its_result_as_quantize_static_would) {
  const Tensor scale = make({1}, DType::f32);
  set_element(scale, 0.011, 0);
  for (int64_t head_dim : {24, 64}) {
    const Model model = {.head_dim = head_dim};
    const Batch batch =
        make_batch(model, {{.query = 40, .context = 70}, {.query = 1, .context = 0}, {1, 17}}, 3);
    const Tensor attended = run(model, batch);
    for (DType eight_bits : {DType::i8, DType::f8e4m3}) {
      const Tensor out = make(batch.q.shape(), eight_bits);
      AttentionCall call = call_of(model, batch, out);
      call.out_scale = &scale;
      launch_attention(stream_, kernels(), call);
      const Tensor want = make(batch.q.shape(), eight_bits);
      launch_quantize_static(stream_, kernels(), attended, scale, want);
      expect_same_bits(out, want);
    }
  }
}

TEST_P(Attention, refuses_a_head_dim_it_has_no_room_for) {
  const Model model = {.head_dim = 520};
  const Batch batch = make_batch(model, {{.query = 1, .context = 1}});
  EXPECT_THROW(run(model, batch), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         Attention,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
