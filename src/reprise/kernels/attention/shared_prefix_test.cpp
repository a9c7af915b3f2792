#include <cmath>

#include "reprise/tensor/attention_segments.h"
#include "tests/support/kernels/attention_fixture.h"

// Cascade attention: the attention over a prefix that all requests share is computed once for all
// of them.
namespace reprise::kernels {
namespace {

class SharedPrefix : public AttentionTest {
 protected:
  /// Makes all requests begin with the first `prefix_len` positions of the first one.
  static void share_prefix(const Model& model, const Batch& batch, int64_t prefix_len) {
    for (int64_t r = 1; r < batch.block_table.size(0); ++r) {
      for (int64_t i = 0; i < prefix_len / model.block_size; ++i) {
        set_element(batch.block_table, int_element(batch.block_table, 0, i), r, i);
      }
    }
  }

  /// The path with memory for exactly the states of all tokens.
  AttentionPath cascade(const Model& model,
                        const Batch& batch,
                        int32_t prefix_len,
                        int32_t tokens_per_block,
                        int32_t uniform_query_len = 0) {
    const Shape rows = result_shape(model, batch);
    return {.kind = uniform_query_len > 0 ? AttentionPath::Kind::uniform
                                          : AttentionPath::Kind::any_batch,
            .query_len = uniform_query_len,
            .shared_prefix_len = prefix_len,
            .tokens_per_prefix_block = tokens_per_block,
            .prefix_states = make({rows[0] * rows[1] * 2 * (rows[2] + 2)}, DType::f32)};
  }

  void expect_bits_of_plain(const Model& model, const Batch& batch, int32_t prefix_len) {
    const Tensor plain = run(model, batch);
    for (const int32_t tokens : {1, 3, 100}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens share the loads");
      const AttentionPath path = cascade(model, batch, prefix_len, tokens);
      expect_same_bits(run(model, batch, &path), plain);
    }
  }
};

TEST_P(SharedPrefix, has_the_bits_of_plain_attention_for_any_batch_behind_it) {
  for (const int64_t group_size : {1, 4, 7, 33}) {
    for (const int32_t prefix_len : {32, 96}) {
      SCOPED_TRACE(testing::Message() << "groups of " << group_size << ", prefix " << prefix_len);
      const Model model = {.group_size = group_size};
      const Batch batch =
          make_batch(model, {{1, 97}, {3, 130}, {1, 128}, {17, 177}, {1, 161}, {0, 100}}, 2);
      share_prefix(model, batch, prefix_len);
      expect_bits_of_plain(model, batch, prefix_len);
    }
  }
}

TEST_P(SharedPrefix, has_the_bits_of_plain_attention_on_the_uniform_path) {
  const Model model = {.group_size = 4, .head_dim = 64};
  for (const int query_len : {1, 3}) {
    const Batch batch =
        make_batch(model, {{query_len, 67}, {query_len, 96}, {query_len, 97}, {query_len, 200}}, 3);
    share_prefix(model, batch, 64);
    const AttentionPath path = cascade(model, batch, 64, 2, query_len);
    expect_same_bits(run(model, batch, &path), run(model, batch));
  }
}

TEST_P(SharedPrefix, has_the_bits_of_plain_attention_for_every_kind_of_causal_attention) {
  const std::vector<Request> requests = {{1, 97}, {2, 140}, {1, 65}};
  for (const Model& model :
       {Model{.group_size = 3, .soft_cap = 20.0F},
        Model{.kv_heads = 1, .group_size = 16, .head_dim = 64, .latent_size = 48},
        Model{.head_dim = 40, .block_size = 8},
        Model{.block_size = 32}}) {
    const Batch batch = make_batch(model, requests);
    share_prefix(model, batch, 64);
    expect_bits_of_plain(model, batch, 64);
  }
  Batch with_sinks = make_batch({}, requests);
  with_sinks.sinks = random({4}, 3.0);
  share_prefix({}, with_sinks, 64);
  expect_bits_of_plain({}, with_sinks, 64);
}

TEST_P(SharedPrefix, has_the_bits_of_plain_attention_for_prefixes_of_several_segments) {
  constexpr auto kLength = static_cast<int>(kAttentionSegment);
  const Model model = {.kv_heads = 1, .group_size = 4};
  const Batch batch = make_batch(
      model,
      {{1, 2 * kLength + 64}, {3, 3 * kLength + 5}, {1, 2 * kLength + 33}, {1, 2 * kLength + 65}});
  share_prefix(model, batch, 2 * kLength + 32);
  for (const int32_t prefix_len :
       {kLength - 32, kLength, kLength + 32, 2 * kLength, 2 * kLength + 32}) {
    // Software tiles take ten seconds for each.
    if (GetParam().isa == Isa::amx_software && prefix_len != kLength + 32) continue;
    SCOPED_TRACE(testing::Message() << "prefix " << prefix_len);
    expect_bits_of_plain(model, batch, prefix_len);
  }
}

TEST_P(SharedPrefix, is_read_from_the_first_request_alone) {
  const Model model;
  const Batch batch = make_batch(model, {{1, 97}, {1, 130}, {1, 65}});
  share_prefix(model, batch, 64);
  const Tensor plain = run(model, batch);
  // Entries that point outside of the memory: a kernel that reads them crashes.
  for (const int64_t request : {1, 2}) {
    for (const int64_t block : {0, 3}) set_element(batch.block_table, 1 << 30, request, block);
  }
  const AttentionPath path = cascade(model, batch, 64, 32);
  expect_same_bits(run(model, batch, &path), plain);
}

TEST_P(SharedPrefix, does_not_count_where_a_window_or_both_directions_ask_for_other_sums) {
  for (const Model& model : {Model{.sliding_window = 50}, Model{.is_bidirectional = true}}) {
    // These requests share nothing.
    const Batch batch = make_batch(model, {{1, 97}, {1, 130}});
    const AttentionPath path = cascade(model, batch, 64, 32);
    expect_same_bits(run(model, batch, &path), run(model, batch));
  }
}

TEST_P(SharedPrefix, shows_a_nan_of_its_own_to_every_request_and_a_later_nan_to_one) {
  const Model model;
  const Batch batch = make_batch(model, {{1, 97}, {1, 130}});
  share_prefix(model, batch, 64);
  set_element(batch.value_cache, NAN, int_element(batch.block_table, 0, 1), 0, 3, 5);
  set_element(batch.value_cache, NAN, int_element(batch.block_table, 1, 5), 1, 3, 6);
  const AttentionPath path = cascade(model, batch, 64, 32);
  const Tensor out = run(model, batch, &path);
  EXPECT_TRUE(std::isnan(element(out, 0, 0, 5)) && std::isnan(element(out, 1, 0, 5)));
  EXPECT_TRUE(std::isfinite(element(out, 0, 2, 6)) && std::isnan(element(out, 1, 2, 6)));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         SharedPrefix,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
