#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/state_arguments.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/kernels/oracles/states.h"

// Prompts of recurrent layers on CUDA: in chunks, in pieces, beside other requests. The oracle
// computes one token after the other.
namespace reprise::kernels::cuda {
namespace {

/// A step of some requests.
struct StateStep {
  std::vector<int32_t> tokens;   // of each request
  std::vector<int32_t> lengths;  // of each request, with these tokens
  std::vector<int32_t> slots;    // slots_per_req for each request
  int32_t padding = 0;           // tokens behind the last request
};

/// The sizes of a recurrent layer. One head for each group and neighbour.
struct StateSizes {
  int64_t keys;
  int64_t values;
  int64_t groups = 1;
  int64_t heads = 2;
};

enum class Family : uint8_t { delta_net, mamba_2 };

class CudaStates : public CudaOpsOf<std::tuple<Family, DType>> {
 protected:
  [[nodiscard]] Family family() const { return std::get<0>(GetParam()); }
  [[nodiscard]] DType dtype() const override { return std::get<1>(GetParam()); }
  [[nodiscard]] bool is_delta() const { return family() == Family::delta_net; }

  /// The operands of a layer for tokens in a row; rows of q, k and v lie in one tensor, as behind a
  /// convolution.
  struct Layer {
    StateSizes sizes;
    Tensor rows;  // [tokens, q | k | v]
    Tensor beta;
    Tensor dt;
    Tensor a_log;
    Tensor dt_bias;
    Tensor skip;

    [[nodiscard]] int64_t shared() const { return sizes.groups * sizes.keys; }
    [[nodiscard]] int64_t values() const { return sizes.heads * sizes.values; }
    [[nodiscard]] Tensor part(int64_t first, int64_t count, int64_t begin, int64_t columns) const {
      return rows.with_layout({count, columns}, {rows.size(1), 1}, first * rows.size(1) + begin);
    }
    [[nodiscard]] static Tensor slice(const Tensor& x, int64_t first, int64_t count) {
      return x.with_layout({count, x.size(1)}, {x.size(1), 1}, first * x.size(1));
    }
  };

  Tensor floats(Shape shape, double deviation) {
    Tensor tensor = make(shape, DType::f32);
    fill(tensor, deviation);
    return tensor;
  }

  Layer make_layer(const StateSizes& sizes, int64_t tokens) {
    Layer layer{.sizes = sizes};
    layer.rows = random({tokens, 2 * layer.shared() + layer.values()});
    layer.beta = random({tokens, sizes.heads});
    layer.dt = random({tokens, sizes.heads}, 2.0);
    layer.a_log = floats({sizes.heads}, 0.7);
    layer.dt_bias = floats({sizes.heads}, 1.0);
    layer.skip = floats({sizes.heads}, 1.0);
    return layer;
  }

  Tensor make_state(const StateSizes& sizes, int64_t slots) {
    const Shape shape = is_delta() ? Shape{slots, sizes.heads, sizes.keys, sizes.values}
                                   : Shape{slots, sizes.heads, sizes.values, sizes.keys};
    return floats(shape, 1.0);
  }
  Tensor copy_of(const Tensor& tensor) {
    Tensor copy = make(tensor.shape(), tensor.dtype());
    std::memcpy(copy.data(), tensor.data(), tensor.type().bytes());
    return copy;
  }

  struct Batch {
    Tensor slots, starts, lengths;
  };
  Batch batch_of(const StateStep& step) {
    std::vector<int32_t> starts{0};
    for (int32_t count : step.tokens) starts.push_back(starts.back() + count);
    const auto requests = static_cast<int64_t>(step.tokens.size());
    const auto per_request = static_cast<int64_t>(step.slots.size()) / requests;
    return {ints({requests, per_request}, step.slots),
            ints({requests + 1}, starts),
            ints({requests}, step.lengths)};
  }

  /// Runs a step whose first token is row `first` of the layer; the results are rows of `out`.
  void run_step(CudaExecutor& executor,
                const Layer& layer,
                int64_t first,
                const StateStep& step,
                const Tensor& state,
                const Tensor& out) {
    const int64_t count =
        std::accumulate(step.tokens.begin(), step.tokens.end(), int64_t{step.padding});
    const Batch batch = batch_of(step);
    const Tensor q = layer.part(first, count, 0, layer.shared());
    const Tensor k = layer.part(first, count, layer.shared(), layer.shared());
    const Tensor v = layer.part(first, count, 2 * layer.shared(), layer.values());
    const Tensor dt = Layer::slice(layer.dt, first, count);
    const Tensor results = Layer::slice(out, first, count);
    std::vector<Tensor> inputs;
    OpAttributes attributes;
    if (is_delta()) {
      attributes.length = layer.sizes.heads / layer.sizes.groups;
      const Tensor beta = Layer::slice(layer.beta, first, count);
      inputs = {q, k, v, beta, dt, layer.a_log, layer.dt_bias, state};
    } else {
      inputs = {v, dt, k, q, layer.a_log, layer.skip, layer.dt_bias, state};
    }
    inputs.insert(inputs.end(), {batch.slots, batch.starts, batch.lengths, results});
    executor.execute(
        {.code = is_delta() ? OpCode::gated_delta_rule : OpCode::selective_state_update,
         .attributes = attributes},
        inputs,
        {});
    stream_->synchronize();
  }
  void run_step(const Layer& layer,
                int64_t first,
                const StateStep& step,
                const Tensor& state,
                const Tensor& out) {
    run_step(executor_, layer, first, step, state, out);
  }

  void run_oracle(const Layer& layer,
                  const StateStep& step,
                  const Tensor& state,
                  const Tensor& out) {
    const int64_t count = out.size(0);
    const Batch batch = batch_of(step);
    const StateOperands states{state, batch.slots, batch.starts, batch.lengths};
    const Tensor q = layer.part(0, count, 0, layer.shared());
    const Tensor k = layer.part(0, count, layer.shared(), layer.shared());
    const Tensor v = layer.part(0, count, 2 * layer.shared(), layer.values());
    if (is_delta()) {
      const int64_t neighbours = layer.sizes.heads / layer.sizes.groups;
      gated_delta_rule_ref(
          {q, k, v, layer.beta, layer.dt, layer.a_log, layer.dt_bias, neighbours}, states, out);
    } else {
      selective_state_update_ref(
          {v, layer.dt, k, q, layer.a_log, layer.skip, layer.dt_bias}, states, out);
    }
  }

  /// Products of two terms are exact to 2^-16 of each term, and terms of sums may be much larger
  /// than a sum: 3e-5 of the largest result. Results are rounded to their type, too.
  static constexpr double kRelativeError = 3e-5;
  static double largest(const Tensor& tensor) {
    double most = 0;
    for (const RowIndex& row : all_rows(tensor)) {
      for (int64_t i = 0; i < tensor.size(-1); ++i) {
        most = std::max(most, std::abs(row_element(tensor, row, i)));
      }
    }
    return most;
  }
  void expect_as_oracle(const Layer& layer, const StateStep& step, int64_t num_slots) {
    const Tensor state = make_state(layer.sizes, num_slots);
    const Tensor want_state = copy_of(state);
    const Tensor out = make({layer.rows.size(0), layer.values()});
    const Tensor want = make(out.shape(), DType::f32);
    run_step(layer, 0, step, state, out);
    run_oracle(layer, step, want_state, want);
    expect_close(out, want, kRelativeError * largest(want));
    const double error = kRelativeError * largest(want_state);
    for (const RowIndex& row : all_rows(want_state)) {
      for (int64_t i = 0; i < want_state.size(-1); ++i) {
        ASSERT_NEAR(row_element(state, row, i), row_element(want_state, row, i), error);
      }
    }
  }

  static void expect_same_bits(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.type(), want.type());
    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.type().bytes()), 0);
  }

  /// A prompt of which earlier steps have computed `begin` tokens.
  struct Prompt {
    int32_t begin;
    std::vector<int32_t> ends;  // of steps
    int32_t decoded = 0;        // tokens behind it
  };
  void run_prompt(CudaExecutor& executor,
                  const Layer& layer,
                  const Prompt& prompt,
                  const Tensor& state,
                  const Tensor& out) {
    int32_t position = prompt.begin;
    const auto step_to = [&](int32_t end) {
      run_step(executor,
               layer,
               position - prompt.begin,
               {.tokens = {end - position}, .lengths = {end}, .slots = {1}},
               state,
               out);
      position = end;
    };
    for (int32_t end : prompt.ends) step_to(end);
    for (int32_t i = 0; i < prompt.decoded; ++i) step_to(position + 1);
  }

  /// Computes a prompt in one step and in every division into whole chunks, and decodes after it.
  void expect_same_bits_in_every_division(int32_t begin, int32_t end) {
    constexpr int32_t kDecoded = 2;
    const Layer layer = make_layer({.keys = 32, .values = 24}, end - begin + kDecoded);
    const Tensor first_state = make_state(layer.sizes, 2);
    const Tensor whole_state = copy_of(first_state);
    const Tensor whole = make({end - begin + kDecoded, layer.values()});
    run_prompt(executor_, layer, {begin, {end}, kDecoded}, whole_state, whole);
    std::vector<int32_t> cuts;
    for (int32_t cut = (begin / kStateChunkTokens + 1) * kStateChunkTokens; cut < end;
         cut += kStateChunkTokens) {
      cuts.push_back(cut);
    }
    for (int32_t chosen = 1; chosen < 1 << cuts.size(); ++chosen) {
      SCOPED_TRACE(testing::Message() << begin << " to " << end << ", cuts " << chosen);
      std::vector<int32_t> ends;
      for (size_t i = 0; i < cuts.size(); ++i) {
        if ((chosen >> i & 1) != 0) ends.push_back(cuts[i]);
      }
      ends.push_back(end);
      const Tensor state = copy_of(first_state);
      const Tensor out = make(whole.shape());
      run_prompt(executor_, layer, {begin, ends, kDecoded}, state, out);
      expect_same_bits(out, whole);
      expect_same_bits(state, whole_state);
      if (HasFatalFailure()) return;
    }
  }

  /// The first request verifies drafts, so each of its tokens has a slot. The last one is a prompt
  /// of as many tokens.
  void expect_states_after_drafts(const StateSizes& sizes) {
    constexpr int32_t kSlots = 3;
    const Layer layer = make_layer(sizes, 6);
    const Tensor state = make_state(layer.sizes, 6);
    const Tensor apart_state = copy_of(state);
    const Tensor out = make({6, layer.values()});
    run_step(
        layer, 0, {.tokens = {3, 3}, .lengths = {70, 3}, .slots = {1, 2, 3, 4, 4, 4}}, state, out);
    const Tensor apart = make(out.shape());
    const size_t bytes_per_slot = state.type().bytes() / 6;
    const auto slot_of = [&](const Tensor& states, int32_t slot) {
      return states.data_as<std::byte>() + static_cast<size_t>(slot) * bytes_per_slot;
    };
    // The fifth slot goes on from the first one.
    std::memcpy(slot_of(apart_state, 5), slot_of(apart_state, 1), bytes_per_slot);
    for (int32_t t = 0; t < kSlots; ++t) {
      run_step(layer, t, {.tokens = {1}, .lengths = {68 + t}, .slots = {5}}, apart_state, apart);
      EXPECT_EQ(std::memcmp(slot_of(state, 1 + t), slot_of(apart_state, 5), bytes_per_slot), 0)
          << "slot " << 1 + t;
    }
    run_step(layer, 3, {.tokens = {3}, .lengths = {3}, .slots = {4}}, apart_state, apart);
    expect_same_bits(out, apart);
  }

  void expect_bits_of_decoding(const StateSizes& sizes) {
    CudaExecutor invariant(
        *stream_, *pool_, {.num_multiprocessors = 4, .invariance = BatchInvariance::required});
    const Layer layer = make_layer(sizes, 70);
    const Tensor state = make_state(layer.sizes, 2);
    const Tensor decoded_state = copy_of(state);
    const Tensor out = make({70, layer.values()});
    const Tensor decoded = make(out.shape());
    run_prompt(invariant, layer, {.begin = 0, .ends = {70}}, state, out);
    run_prompt(invariant, layer, {.begin = 0, .ends = {1}, .decoded = 69}, decoded_state, decoded);
    expect_same_bits(out, decoded);
    expect_same_bits(state, decoded_state);
  }
};

// Prompts that are new, that continue inside of a chunk, at the end of one and behind it; single
// tokens, a request without tokens, one in the null slot, and padding.
TEST_P(CudaStates, of_mixed_batches_agree_with_the_oracle) {
  const StateStep step = {.tokens = {1, 150, 40, 64, 2, 0, 3, 65, 1},
                          .lengths = {9, 150, 77, 128, 130, 5, 3, 65, 1},
                          .slots = {3, 1, 2, 4, 9, 5, 0, 6, 7},
                          .padding = 2};
  for (const StateSizes& sizes : {StateSizes{.keys = 8, .values = 8},
                                  StateSizes{.keys = 33, .values = 37, .groups = 2, .heads = 4},
                                  StateSizes{.keys = 64, .values = 16},
                                  StateSizes{.keys = 100, .values = 130, .heads = 1},
                                  StateSizes{.keys = 128, .values = 64}}) {
    SCOPED_TRACE(testing::Message() << sizes.keys << " keys, " << sizes.values << " values");
    expect_as_oracle(make_layer(sizes, 328), step, 10);
    if (HasFatalFailure()) return;
  }
}

// Gated delta nets with keys of more than 128 elements, and Mamba-2 with rows of more than 256, are
// computed token after token.
TEST_P(CudaStates, of_long_rows_agree_with_the_oracle) {
  for (const int64_t keys : {200, 256, 300}) {
    SCOPED_TRACE(keys);
    expect_as_oracle(make_layer({.keys = keys, .values = 64, .heads = 1}, 130),
                     {.tokens = {130}, .lengths = {140}, .slots = {1}},
                     2);
    if (HasFatalFailure()) return;
  }
}

// Keys that all have nearly the same direction, of which each is learned nearly whole and nothing
// is forgotten: then the 64 equations depend on each other most.
TEST_P(CudaStates, of_similar_keys_agree_with_the_oracle) {
  Layer layer = make_layer({.keys = 64, .values = 32, .heads = 1}, 192);
  for (int64_t t = 0; t < 192; ++t) {
    for (int64_t i = 0; i < 128; ++i) {
      set_element(
          layer.rows, element(layer.rows, 0, i % 64) + 0.05 * element(layer.rows, t, i), t, i);
    }
    set_element(layer.beta, 4.0, t, 0);
    if (is_delta()) set_element(layer.dt, -6.0, t, 0);
  }
  expect_as_oracle(layer, {.tokens = {192}, .lengths = {192}, .slots = {1}}, 2);
}

// Every tenth token forgets everything: the logarithm of its decay is around -10,000.
TEST_P(CudaStates, after_strong_decays_agree_with_the_oracle) {
  Layer layer = make_layer({.keys = 32, .values = 16, .heads = 1}, 128);
  set_element(layer.a_log, 4.0, 0);
  set_element(layer.dt_bias, 0.0, 0);
  for (int64_t t = 0; t < 128; ++t) set_element(layer.dt, t % 10 == 3 ? 200.0 : -8.0, t, 0);
  expect_as_oracle(layer, {.tokens = {128}, .lengths = {150}, .slots = {1}}, 2);
}

TEST_P(CudaStates, have_the_same_bits_in_every_division_of_a_prompt_into_whole_chunks) {
  for (const int32_t end : {63, 64, 65, 66, 128, 200, 257}) {
    expect_same_bits_in_every_division(0, end);
    if (HasFatalFailure()) return;
  }
}

// Such a prompt goes on from a snapshot that an answer left.
TEST_P(CudaStates, have_the_same_bits_in_every_division_of_a_prompt_that_begins_inside_of_a_chunk) {
  for (const int32_t begin : {1, 16, 62, 112}) {
    expect_same_bits_in_every_division(begin, begin + 145);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaStates, of_a_prompt_have_the_same_bits_beside_other_requests) {
  const Layer layer = make_layer({.keys = 64, .values = 40, .heads = 4}, 300);
  const Tensor state = make_state(layer.sizes, 5);
  const Tensor alone = copy_of(state);
  const Tensor together = make({300, layer.values()});
  run_step(layer,
           0,
           {.tokens = {130, 1, 100, 69}, .lengths = {130, 44, 200, 69}, .slots = {4, 3, 2, 1}},
           state,
           together);
  const Tensor apart = make(together.shape());
  run_step(layer, 231, {.tokens = {69}, .lengths = {69}, .slots = {1}}, alone, apart);
  run_step(layer, 131, {.tokens = {100}, .lengths = {200}, .slots = {2}}, alone, apart);
  run_step(layer, 130, {.tokens = {1}, .lengths = {44}, .slots = {3}}, alone, apart);
  run_step(layer, 0, {.tokens = {130}, .lengths = {130}, .slots = {4}}, alone, apart);
  expect_same_bits(together, apart);
  expect_same_bits(state, alone);
}

// States of 128 rows stay in registers.
TEST_P(CudaStates, after_drafts_are_those_of_decoding) {
  expect_states_after_drafts({.keys = 16, .values = 24});
  expect_states_after_drafts({.keys = 128, .values = 40});
}

TEST_P(CudaStates, of_prompts_have_the_bits_of_decoding_with_batch_invariance) {
  expect_bits_of_decoding({.keys = 16, .values = 24});
  expect_bits_of_decoding({.keys = 128, .values = 40});
}

// A thread has a column of a state with 128 rows in registers if the block has a thread for each of
// its columns: 256, but not 300.
TEST_P(CudaStates, of_128_rows_have_the_same_bits_in_registers_and_in_memory) {
  if (!is_delta()) GTEST_SKIP() << "only gated delta nets have such a kernel";
  constexpr int64_t kTokens = 3;
  const Layer large = make_layer({.keys = 128, .values = 300, .heads = 1}, kTokens);
  Layer small = large;
  small.sizes.values = 256;
  small.rows = make({kTokens, 2 * 128 + 256});
  const Tensor large_state = make_state(large.sizes, 2);
  const Tensor small_state = make_state(small.sizes, 2);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < 512; ++i) set_element(small.rows, element(large.rows, t, i), t, i);
  }
  // Copies 256 of the 300 columns of a row.
  const auto copy_columns = [](const Tensor& from, const Tensor& to, int64_t row) {
    const auto size = static_cast<int64_t>(dtype_bytes(to.dtype()));
    std::memcpy(to.data_as<std::byte>() + row * 256 * size,
                from.data_as<std::byte>() + row * 300 * size,
                static_cast<size_t>(256 * size));
  };
  for (int64_t row = 0; row < int64_t{2} * 128; ++row) copy_columns(large_state, small_state, row);
  CudaExecutor invariant(
      *stream_, *pool_, {.num_multiprocessors = 4, .invariance = BatchInvariance::required});
  const StateStep step = {.tokens = {kTokens}, .lengths = {9}, .slots = {1}};
  const Tensor large_out = make({kTokens, 300});
  const Tensor small_out = make({kTokens, 256});
  run_step(invariant, large, 0, step, large_state, large_out);
  run_step(invariant, small, 0, step, small_state, small_out);
  const Tensor want_out = make(small_out.shape());
  for (int64_t t = 0; t < kTokens; ++t) copy_columns(large_out, want_out, t);
  expect_same_bits(small_out, want_out);
  const Tensor want_state = copy_of(small_state);
  for (int64_t row = 0; row < int64_t{2} * 128; ++row) copy_columns(large_state, want_state, row);
  expect_same_bits(small_state, want_state);
}

// Two launches: chunks, then single tokens. Without prompts, with float32 and with batch invariance
// there is one.
TEST_P(CudaStates, of_prompts_need_two_launches) {
  const Layer layer = make_layer({.keys = 16, .values = 24}, 70);
  const Tensor state = make_state(layer.sizes, 3);
  const Tensor out = make({70, layer.values()});
  const auto launches_of = [&](const StateStep& step) {
    const uint64_t before = stream_->counters().kernel_launches;
    run_step(layer, 0, step, state, out);
    return stream_->counters().kernel_launches - before;
  };
  const uint64_t of_prompt = dtype() == DType::f32 ? 1 : 2;
  EXPECT_EQ(launches_of({.tokens = {70}, .lengths = {70}, .slots = {1}}), of_prompt);
  EXPECT_EQ(launches_of({.tokens = {1, 2}, .lengths = {70, 2}, .slots = {1, 2}}), of_prompt);
  EXPECT_EQ(launches_of({.tokens = {1, 1}, .lengths = {70, 2}, .slots = {1, 2}}), 1);
}

INSTANTIATE_TEST_SUITE_P(All,
                         CudaStates,
                         testing::Combine(testing::Values(Family::delta_net, Family::mamba_2),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == Family::delta_net
                                                  ? "delta_net_"
                                                  : "mamba_2_") +
                                  std::string(dtype_name(std::get<1>(test.param)));
                         });

class CudaConvolutions : public CudaOps {
 protected:
  struct Operands {
    Tensor x, weight, bias;
  };
  void convolve(OpCode op,
                const Operands& in,
                const Tensor& state,
                const std::array<Tensor, 3>& batch,
                const Tensor& out) {
    const std::array inputs = {in.x, in.weight, in.bias, state, batch[0], batch[1], batch[2], out};
    executor_.execute({.code = op}, inputs, {});
    stream_->synchronize();
  }
  /// Convolves the tokens of a new request one by one.
  void expect_bits_of_single_tokens(OpCode op,
                                    const Operands& in,
                                    const Tensor& state,
                                    const Tensor& out,
                                    int32_t begin,
                                    int32_t end) {
    const auto row = [](const Tensor& rows, int64_t index) {
      return rows.with_layout({1, rows.size(1)}, {rows.size(1), 1}, index * rows.size(1));
    };
    for (int32_t t = begin; t < end; ++t) {
      const Tensor single = make({1, out.size(1)});
      const std::array batch = {ints({1, 1}, {2}), ints({2}, {0, 1}), ints({1}, {t - begin + 1})};
      convolve(op, {row(in.x, t), in.weight, in.bias}, state, batch, single);
      ASSERT_EQ(std::memcmp(single.data(), row(out, t).data(), single.type().bytes()), 0)
          << "token " << t - begin;
    }
  }
};

// Tiles of 64 tokens begin inside of requests, and requests inside of tiles.
TEST_P(CudaConvolutions, of_prompts_agree_with_the_oracle_and_with_single_tokens) {
  constexpr int64_t kChannels = 300;
  const std::vector<int32_t> lens = {3, 1, 130, 64, 2, 70};
  const std::vector<int32_t> totals = {3, 8, 130, 100, 9, 71};
  std::vector<int32_t> starts{0};
  for (int32_t len : lens) starts.push_back(starts.back() + len);
  const int64_t tokens = starts.back() + 3;  // padding
  for (const OpCode op : {OpCode::causal_conv1d, OpCode::short_conv}) {
    for (const int64_t kernel : {2, 3, 4, 7}) {
      SCOPED_TRACE(testing::Message() << "kernel of " << kernel);
      const bool is_short = op == OpCode::short_conv;
      const Operands in = {random({tokens, kChannels * (is_short ? 3 : 1)}),
                           random({kChannels, 1, kernel}),
                           random({kChannels})};
      const Tensor state = make({8, kernel - 1, kChannels}, DType::f32);
      fill(state, 1.0);
      const Tensor want_state = make(state.shape(), DType::f32);
      const Tensor alone_state = make(state.shape(), DType::f32);
      std::memcpy(want_state.data(), state.data(), state.type().bytes());
      std::memcpy(alone_state.data(), state.data(), state.type().bytes());
      const Tensor slots = ints({6, 1}, {3, 1, 2, 7, 0, 5});
      const std::array batch = {slots, ints({7}, starts), ints({6}, totals)};
      const Tensor out = make({tokens, kChannels});
      convolve(op, in, state, batch, out);
      const Tensor want = make(out.shape(), DType::f32);
      const auto oracle = is_short ? &short_conv_ref : &causal_conv1d_ref;
      oracle(in.x, in.weight, in.bias, {want_state, slots, batch[1], batch[2]}, want);
      expect_close(out, want, 1e-5);
      EXPECT_EQ(std::memcmp(state.data(), want_state.data(), state.type().bytes()), 0);
      expect_bits_of_single_tokens(op, in, alone_state, out, starts[2], starts[3]);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         CudaConvolutions,
                         testing::Values(DType::f32, DType::bf16, DType::f16));

}  // namespace
}  // namespace reprise::kernels::cuda
