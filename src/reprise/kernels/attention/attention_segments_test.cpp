#include <cmath>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/attention_segments.h"
#include "tests/support/kernels/attention_fixture.h"

// Contexts of several segments: the results, and that the bits do not depend on which thread
// computes which segment.
namespace reprise::kernels {
namespace {

constexpr auto kSegment = static_cast<int>(kAttentionSegment);

class AttentionSegments : public AttentionTest {
 protected:
  /// A path with memory for the sums of `num_parts` segments, for batches of any kind or for
  /// uniform ones.
  AttentionPath divided(const Model& model,
                        const Batch& batch,
                        int64_t num_parts,
                        int32_t uniform_query_len = 0) {
    const Shape rows = result_shape(model, batch);
    const int64_t tokens = std::max(1, uniform_query_len);
    const bool is_uniform = uniform_query_len > 0;
    const std::vector<int> zeros(static_cast<size_t>(num_parts * rows[1]), 0);
    return {.kind = is_uniform ? AttentionPath::Kind::uniform : AttentionPath::Kind::any_batch,
            .query_len = uniform_query_len,
            .segment_sums = make({num_parts * tokens * rows[1] * (rows[2] + 2)}, DType::f32),
            .segment_counters = ints(zeros)};
  }

  void expect_same_bits_divided(const Model& model, const Batch& batch) {
    const AttentionPath path = divided(model, batch, 20);
    expect_same_bits(run(model, batch, &path), run(model, batch));
  }

  /// A batch with token `token` of `batch` as the only token of `request`, which has `context`
  /// positions.
  Batch alone(const Batch& batch, int64_t token, int64_t request, int context) {
    Batch one = batch;
    const Shape row = {1, batch.q.size(1), batch.q.size(2)};
    one.q = batch.q.with_layout(row, batch.q.strides(), token * batch.q.stride(0));
    one.query_start_loc = ints({0, 1});
    one.seq_lens = ints({context});
    one.block_table = batch.block_table.with_layout({1, batch.block_table.size(1)},
                                                    batch.block_table.strides(),
                                                    request * batch.block_table.stride(0));
    return one;
  }

  void expect_same_bits_with(int workers,
                             const Model& model,
                             const Batch& batch,
                             const AttentionPath& path,
                             const Tensor& want) {
    const auto device = device::create_cpu_device(
        {.num_threads = workers, .pin_threads = false, .allow_oversubscription = true});
    const auto stream = device->create_stream();
    const Tensor out = make(result_shape(model, batch));
    AttentionCall call = call_of(model, batch, out);
    call.path = &path;
    launch_attention(*stream, kernels(), call);
    stream->synchronize();
    expect_same_bits(out, want);
    expect_zeros(path.segment_counters);
  }

  void expect_zeros(const Tensor& counters) {
    for (int64_t i = 0; i < counters.num_elements(); ++i) {
      EXPECT_EQ(int_element(counters, i), 0) << i;
    }
  }
};

TEST_P(AttentionSegments, agree_with_the_oracle_on_both_sides_of_a_boundary) {
  for (const int64_t head_dim : {24, 64}) {
    const Model model = {.kv_heads = 1, .head_dim = head_dim};
    const Batch batch = make_batch(model,
                                   {{.query = 1, .context = kSegment},
                                    {.query = 1, .context = kSegment + 1},
                                    {.query = 3, .context = 2 * kSegment + 1},
                                    {.query = 1, .context = 2 * kSegment + 77}},
                                   1);
    expect_agrees(model, batch);
    expect_same_bits_divided(model, batch);
  }
}

TEST_P(AttentionSegments, change_no_bit_of_a_context_of_one_segment) {
  // A short context lies in the first segment of a long one, so the segment's largest score and
  // sums are already those of the row, and nothing is added.
  const Model model = {.kv_heads = 1};
  const Batch batch = make_batch(model, {{.query = 1, .context = kSegment}}, 0);
  const AttentionPath path = divided(model, batch, 4);
  const Tensor out = run(model, batch, &path);
  expect_same_bits(out, run(model, batch));
  for (int64_t i = 0; i < path.segment_sums.num_elements(); ++i) {
    EXPECT_TRUE(std::isnan(path.segment_sums.data_as<float>()[i])) << "no sums were written";
  }
}

TEST_P(AttentionSegments, have_the_same_bits_for_every_kind_of_attention) {
  const std::vector<Request> requests = {{.query = 1, .context = kSegment + 40},
                                         {.query = 2, .context = kSegment + 33}};
  for (const Model& model :
       {Model{.kv_heads = 1, .sliding_window = 90},
        Model{.kv_heads = 1, .sliding_window = kSegment - 1},
        Model{.kv_heads = 1, .sliding_window = kSegment + 50},
        Model{.kv_heads = 1, .chunk_size = kSegment - 32},
        Model{.kv_heads = 1, .group_size = 3, .soft_cap = 20.0F},
        Model{.kv_heads = 1, .group_size = 33},
        Model{.kv_heads = 1, .group_size = 16, .head_dim = 64, .latent_size = 48},
        Model{.head_dim = 40, .block_size = 8},
        Model{.kv_heads = 1, .is_bidirectional = true},
        Model{.kv_heads = 1, .sliding_window = kSegment - 50, .is_bidirectional = true}}) {
    SCOPED_TRACE(testing::Message() << "window " << model.sliding_window << ", chunk "
                                    << model.chunk_size << ", group " << model.group_size);
    Batch batch = make_batch(model, requests);
    expect_same_bits_divided(model, batch);
    if (model.soft_cap == 0) continue;
    batch.sinks = random({model.kv_heads * model.group_size}, 3.0);
    expect_same_bits_divided(model, batch);
  }
}

TEST_P(AttentionSegments, give_a_token_the_same_bits_in_a_prompt_and_alone) {
  for (const int64_t window : {0, kSegment + 7}) {
    const Model model = {.kv_heads = 1, .group_size = 3, .sliding_window = window};
    // Tokens on both sides of a boundary share a block.
    const Batch prompt = make_batch(model, {{.query = 300, .context = kSegment + 100}});
    const Tensor all = run(model, prompt);
    for (const int token : {0, 198, 199, 200, 299}) {
      SCOPED_TRACE(testing::Message() << "token " << token << ", window " << window);
      const Batch one = alone(prompt, token, 0, kSegment - 200 + token + 1);
      const AttentionPath path = divided(model, one, 4);
      expect_same_row(run(model, one, &path), 0, all, token);
    }
  }
}

TEST_P(AttentionSegments, give_a_request_the_same_bits_beside_any_other) {
  const Model model = {.kv_heads = 1, .group_size = 7};
  std::vector<Request> requests = {{.query = 1, .context = 3 * kSegment - 5},
                                   {.query = 1, .context = kSegment + 1},
                                   {.query = 1, .context = 0}};
  for (int r = 0; r < 30; ++r) requests.push_back({.query = 1, .context = 20 * r});
  const Batch batch = make_batch(model, requests, 2);
  const Tensor all = run(model, batch);
  // The path has memory for the segments of both requests, of the first or of the second.
  for (const int64_t parts : {5, 4, 3, 2, 1}) {
    SCOPED_TRACE(parts);
    const AttentionPath path = divided(model, batch, parts);
    expect_same_bits(run(model, batch, &path), all);
    expect_zeros(path.segment_counters);
  }
  for (const int r : {0, 1}) {
    const Batch one = alone(batch, r, r, requests[static_cast<size_t>(r)].context);
    const AttentionPath path = divided(model, one, 4);
    expect_same_row(run(model, one, &path), 0, all, r);
  }
}

TEST_P(AttentionSegments, have_the_same_bits_on_the_uniform_path) {
  const Model model = {.group_size = 4};
  for (const int query_len : {1, 5, 12}) {
    SCOPED_TRACE(query_len);
    const Batch batch = make_batch(model,
                                   {{.query = query_len, .context = kSegment + 3},
                                    {.query = query_len, .context = 40},
                                    {.query = query_len, .context = 0},
                                    {.query = query_len, .context = 2 * kSegment + 2}},
                                   3);
    const AttentionPath path = divided(model, batch, 8, query_len);
    expect_same_bits(run(model, batch, &path), run(model, batch));
    expect_zeros(path.segment_counters);
  }
}

TEST_P(AttentionSegments, show_a_nan_of_any_segment_and_hide_those_of_others) {
  const Model model = {.kv_heads = 1};
  const Batch batch = make_batch(
      model,
      {{.query = 1, .context = 2 * kSegment + 20}, {.query = 1, .context = 2 * kSegment + 20}});
  for (const int position : {5, kSegment + 5, 2 * kSegment + 5}) {
    const int64_t block = int_element(batch.block_table, 1, position / model.block_size);
    const double before = element(batch.value_cache, block, 0, 5, 3);
    set_element(batch.value_cache, NAN, block, 0, 5, 3);
    const AttentionPath path = divided(model, batch, 8);
    const Tensor out = run(model, batch, &path);
    EXPECT_TRUE(std::isfinite(element(out, 0, 0, 3)));
    EXPECT_TRUE(std::isnan(element(out, 1, 0, 3))) << position;
    set_element(batch.value_cache, before, block, 0, 5, 3);
  }
}

// The second head of a token reads its rows of a chunk after the first head, if one thread has
// both.
TEST_P(AttentionSegments, have_the_same_bits_where_two_heads_take_turns) {
  if (GetParam().isa != Isa::avx512_bf16 || dtype() != DType::bf16) {
    GTEST_SKIP() << "no heads take turns";
  }
  const std::vector<Request> requests = {{.query = 1, .context = 2 * kSegment},
                                         {.query = 1, .context = kSegment + 801},
                                         {.query = 1, .context = 3 * kSegment - 5},
                                         {.query = 1, .context = 77},
                                         {.query = 1, .context = 0},
                                         {.query = 1, .context = 1}};
  for (const Model& model : {Model{.group_size = 7, .head_dim = 64},
                             Model{.kv_heads = 4, .group_size = 8, .sliding_window = kSegment + 51},
                             Model{.group_size = 3, .block_size = 8, .soft_cap = 20.0F}}) {
    SCOPED_TRACE(testing::Message() << "group " << model.group_size);
    Batch batch = make_batch(model, requests, 1);
    if (model.soft_cap > 0) batch.sinks = random({model.kv_heads * model.group_size}, 3.0);
    // The last position of an odd number is half of a pair. Its infinite value shows whether the
    // other half is left out.
    const int64_t block = int_element(batch.block_table, 3, 76 / model.block_size);
    set_element(batch.value_cache, INFINITY, block, 1, 76 % model.block_size, 3);
    const Tensor want = run(model, batch);
    EXPECT_TRUE(std::isinf(element(want, 3, model.group_size, 3)));
    // With memory for one segment, no context is divided.
    for (const int64_t parts : {20, 1}) {
      for (const int workers : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << parts << " parts, " << workers << " workers");
        expect_same_bits_with(workers, model, batch, divided(model, batch, parts), want);
      }
    }
  }
}

TEST_P(AttentionSegments, are_found_by_a_graph_for_any_number_of_workers) {
  const Model model = {.kv_heads = 1};
  const int long_context = 3 * kSegment - 17;
  const Batch batch = make_batch(
      model, {{.query = 1, .context = long_context}, {.query = 1, .context = kSegment + 9}});
  const Tensor want = run(model, batch);
  for (const int workers : {1, 2, 8}) {
    SCOPED_TRACE(workers);
    const auto device = device::create_cpu_device(
        {.num_threads = workers, .pin_threads = false, .allow_oversubscription = true});
    const auto stream = device->create_stream();
    const Tensor out = make(result_shape(model, batch));
    const AttentionPath path = divided(model, batch, 8);
    AttentionCall call = call_of(model, batch, out);
    call.path = &path;
    set_element(batch.seq_lens, 7, 0);
    stream->begin_capture();
    launch_attention(*stream, kernels(), call);
    const auto graph = stream->end_capture();
    const auto replay = device->instantiate(*graph);
    set_element(batch.seq_lens, long_context, 0);
    for (int round = 0; round < 8; ++round) {
      replay->launch(*stream);
      stream->synchronize();
      expect_same_bits(out, want);
    }
    expect_zeros(path.segment_counters);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         AttentionSegments,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
