#pragma once

#include "reprise/kernels/cuda/state_chunk.cuh"

// Prompts of recurrent layers in chunks, on the tensor cores. A block has one head of a request and
// keeps its state in registers from the first chunk to the last. Mamba-2: Dao, Gu, "Transformers
// are SSMs" (2024), section 6. Gated delta nets: Yang, Kautz, Hatamizadeh, "Gated Delta Networks"
// (2024), section 3.3. Both differ here in that they keep the sum of float32 products.
//
// With the state S before a chunk, decays g_t (the product up to token t), changes u and keys k,
// the state after token t is g_t S + the sum over j <= t of g_t / g_j u_j k_j. A token of a gated
// delta net changes the state by u_t = beta_t (v_t - the answer of the decayed state to k_t). These
// are 64 equations with a triangle of numbers, and the inverse of the triangle solves them for all
// values at once. A token of Mamba-2 changes the state by u_t = step_t x_t.
namespace reprise::kernels::cuda {

/// The parts of shared memory.
template <int kDim, int kValues, bool kIsDelta>
struct ChunkMemory {
  static constexpr int kKeyBytes = kStateChunkTokens * kDim * 2;
  static constexpr int kValueBytes = kStateChunkTokens * kValues * 2;
  static constexpr int kTriangleBytes = kStateChunkTokens * kTriangleStride * 4;

  SharedRows<kDim> keys{shared_memory()};
  SharedRows<kDim> queries{shared_memory() + kKeyBytes};
  SharedRows<kValues> values{shared_memory() + 2 * kKeyBytes};
  /// How much a query sees of the change by an earlier token.
  Triangle scores{reinterpret_cast<float*>(shared_memory() + 2 * kKeyBytes + kValueBytes)};
  /// How much a key sees of it; then the inverse.
  Triangle solution{scores.numbers + kStateChunkTokens * kTriangleStride};
  ChunkFactors factors{scores.numbers + (kIsDelta ? 2 : 1) * kStateChunkTokens * kTriangleStride};

  template <typename T>
  REPRISE_DEVICE ChunkHead<T>& head() const {
    static_assert(sizeof(ChunkHead<T>) <= kChunkHeadBytes);
    return *reinterpret_cast<ChunkHead<T>*>(factors.array(kChunkFactors));
  }
};

/// Sixteen values of a state, in the registers of a warp: state[value, key], and what a chunk does
/// with it. Tokens are columns of the tiles.
template <typename T, int kDim, int kValues, bool kIsDelta>
class ChunkScan {
 public:
  using Memory = ChunkMemory<kDim, kValues, kIsDelta>;

  REPRISE_DEVICE explicit ChunkScan(const ChunkHead<T>& head) : head_(head) {}

  [[nodiscard]] REPRISE_DEVICE bool has_values() const { return first_value() < head_.num_values; }

  REPRISE_DEVICE void load_state() {
    const float* from = head_.before;
    for_each_element([&](float& x, int offset, bool is_there) {
      x = is_there && from != nullptr ? from[offset] : 0.0F;
    });
  }
  REPRISE_DEVICE void store_state() {
    float* to = head_.after;
    for_each_element([&](float& x, int offset, bool is_there) {
      if (is_there) to[offset] = x;
    });
  }

  REPRISE_DEVICE void compute_chunk(const Memory& memory, int first_token, int count) {
    float sums[8][4] = {};
    float changes[8][4] = {};
    if constexpr (kIsDelta) {
      answer(sums, memory.keys);
      for_each_result(memory, [&](int tile, int i, int t, T& x) {
        float& sum = sums[tile][i];
        sum = memory.factors.weight()[t] * as_float(x) - memory.factors.key_answer()[t] * sum;
      });
      multiply_triangle(changes, sums, memory.solution);
    } else {
      for_each_result(memory, [&](int tile, int i, int t, T& x) {
        changes[tile][i] = memory.factors.weight()[t] * as_float(x);
      });
    }
    clear(sums);
    answer(sums, memory.queries);
    for_each_result(memory, [&](int tile, int i, int t, T& /*x*/) {
      sums[tile][i] *= memory.factors.query_answer()[t];
    });
    multiply_triangle(sums, changes, memory.scores);
    for_each_result(memory, [&](int tile, int i, int t, T& x) {
      // A value is not needed any more, and the result takes its place.
      put(&x, kIsDelta ? sums[tile][i] : sums[tile][i] + head_.skip * as_float(x));
      changes[tile][i] *= memory.factors.kept_change()[t];
    });
    sync_warp();
    write_results(memory.values, first_token, count);
    change_state(memory, changes);
  }

 private:
  [[nodiscard]] REPRISE_DEVICE static int first_value() { return 16 * warp_index(); }
  REPRISE_DEVICE static void clear(float (&sums)[8][4]) {
    REPRISE_UNROLL
    for (int i = 0; i < 32; ++i) sums[i / 4][i % 4] = 0;
  }

  template <typename Act>
  REPRISE_DEVICE void for_each_element(const Act& act) {
    REPRISE_UNROLL
    for (int tile = 0; tile < kDim / 8; ++tile) {
      const int lane = lane_again();
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int value = first_value() + lane / 4 + i / 2 * 8;
        const int key = tile * 8 + lane % 4 * 2 + i % 2;
        act(state_[tile][i],
            value * head_.of_next_value + key * head_.of_next_key,
            value < head_.num_values && key < head_.key_dim);
      }
    }
  }

  /// Calls act(tile, index in the tile, token, value) for the elements of tiles that this lane has.
  template <typename Act>
  REPRISE_DEVICE void for_each_result(const Memory& memory, const Act& act) {
    REPRISE_UNROLL
    for (int tile = 0; tile < 8; ++tile) {
      const int lane = lane_again();
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int value = first_value() + lane / 4 + i / 2 * 8;
        const int t = tile * 8 + lane % 4 * 2 + i % 2;
        act(tile, i, t, element_in<T>(memory.values, t, value));
      }
    }
  }

  /// sums[value, token] += the answer of the state to the token's row.
  REPRISE_DEVICE void answer(float (&sums)[8][4], const SharedRows<kDim>& rows) {
    REPRISE_UNROLL
    for (int step = 0; step < kDim / 16; ++step) {
      const RowFragment a = split_tiles(state_[2 * step], state_[2 * step + 1]);
      REPRISE_UNROLL
      for (int pair = 0; pair < 4; ++pair) {
        ColumnFragment b[2];
        load_rows_as_columns<T>(b, rows, 16 * pair, step);
        multiply_split<false, kIsOneTerm<T>>(sums[2 * pair], a, b[0]);
        multiply_split<false, kIsOneTerm<T>>(sums[2 * pair + 1], a, b[1]);
      }
    }
  }

  REPRISE_DEVICE void change_state(const Memory& memory, const float (&changes)[8][4]) {
    const float kept =
        exponential(static_cast<float>(memory.factors.total()[kStateChunkTokens - 1]));
    REPRISE_UNROLL
    for (int i = 0; i < kDim / 2; ++i) state_[i / 4][i % 4] *= kept;
    REPRISE_UNROLL
    for (int step = 0; step < 4; ++step) {
      const RowFragment a = split_tiles(changes[2 * step], changes[2 * step + 1]);
      REPRISE_UNROLL
      for (int pair = 0; pair < kDim / 16; ++pair) {
        ColumnFragment b[2];
        load_columns_as_columns<T>(b, memory.keys, 16 * step, 2 * pair);
        multiply_split<false, kIsOneTerm<T>>(state_[2 * pair], a, b[0]);
        multiply_split<false, kIsOneTerm<T>>(state_[2 * pair + 1], a, b[1]);
      }
    }
  }

  /// Two lanes write a row of sixteen results.
  REPRISE_DEVICE void write_results(const SharedRows<kValues>& results,
                                    int first_token,
                                    int count) {
    const int value = first_value() + lane_index() % 2 * 8;
    const int num_left = head_.num_values - value;
    for (int t = lane_index() / 2; t < count; t += kWarpSize / 2) {
      T* to = head_.out + (first_token + t) * head_.out_stride + value;
      if (num_left >= 8 && is_aligned(to)) {
        store_words(to, load_words(results.chunk(t, value / 8)));
        continue;
      }
      for (int i = 0; i < 8 && i < num_left; ++i) to[i] = element_in<T>(results, t, value + i);
    }
  }

  const ChunkHead<T>& head_;
  float state_[kDim / 8][4];
};

template <bool kIsDelta, typename T, int kDim, int kValues>
REPRISE_DEVICE void compute_triangles(const ChunkMemory<kDim, kValues, kIsDelta>& memory) {
  const ChunkFactors& factors = memory.factors;
  const auto seen = [&](int row, int column) {
    return exponential(factors.decay_between(column, row));
  };
  const int tile = warp_index() % 4;
  if (kIsDelta && warp_index() < 4) {
    multiply_rows<T>(memory.keys, memory.keys, tile, [&](int row, int column, float product) {
      memory.solution.at(row, column) = factors.weight()[row] * factors.of_key()[row] *
                                        factors.of_key()[column] * seen(row, column) * product;
    });
    return;
  }
  multiply_rows<T>(memory.queries, memory.keys, tile, [&](int row, int column, float product) {
    const float lengths = kIsDelta ? factors.of_query()[row] * factors.of_key()[column] : 1.0F;
    memory.scores.at(row, column) = lengths * seen(row, column) * product;
  });
}

/// Fills in what does not depend on the family.
template <typename T>
REPRISE_DEVICE void set_tokens(ChunkHead<T>& head,
                               const StateArguments& a,
                               int64_t request,
                               int64_t slot_stride,
                               int64_t first_element) {
  const StateTokens tokens = tokens_in_chunks(a, request);
  head.num_tokens = static_cast<int>(tokens.end - tokens.begin);
  head.first_position = static_cast<int>(first_position(a, request));
  float* state = a.state + tokens.slot * slot_stride + first_element;
  head.before = tokens.is_new ? nullptr : state;
  head.after = state;
}

/// Loads a chunk. Until all of it has arrived, threads compute what needs only time steps.
template <bool kIsDelta, typename T, int kDim, int kValues>
REPRISE_DEVICE void load(const ChunkMemory<kDim, kValues, kIsDelta>& memory,
                         const ChunkHead<T>& head,
                         int first,
                         int count) {
  const auto load_rows = [&](const auto& to, const T* from, int64_t stride, int columns) {
    load_chunk(to, from + first * stride, stride, count, columns);
  };
  load_rows(memory.keys, head.key, head.key_stride, head.key_dim);
  load_rows(memory.queries, head.query, head.query_stride, head.key_dim);
  load_rows(memory.values, head.value, head.value_stride, head.num_values);
  commit_copies();
  compute_decays<kIsDelta>(head, memory.factors, first, count);
  wait_for_copies<0>();
}

/// \pre thread 0 has filled in memory.head()
template <typename T, int kDim, int kValues, bool kIsDelta>
REPRISE_DEVICE void compute_in_chunks(const ChunkMemory<kDim, kValues, kIsDelta>& memory) {
  sync_block();
  const ChunkHead<T>& head = memory.template head<T>();
  if (head.num_tokens == 0) return;
  ChunkScan<T, kDim, kValues, kIsDelta> scan(head);
  scan.load_state();
  for (int first = 0; first < head.num_tokens;) {
    const int position = head.first_position + first;
    const auto count = static_cast<int>(
        min_of(head.num_tokens - first, kStateChunkTokens - position % kStateChunkTokens));
    load<kIsDelta>(memory, head, first, count);
    sync_block();
    sum_decays(memory.factors);
    if constexpr (kIsDelta) {
      measure<T>(memory.keys, memory.queries, memory.factors, head.query_scale);
    }
    sync_block();
    compute_answers<kIsDelta>(memory.factors);
    compute_triangles<kIsDelta, T>(memory);
    sync_block();
    if constexpr (kIsDelta) invert(memory.solution);
    if (scan.has_values()) scan.compute_chunk(memory, first, count);
    sync_block();  // the next chunk takes the place of this one
    first += count;
  }
  if (scan.has_values()) scan.store_state();
}

/// A block computes up to kDeltaChunkValues values of a head.
template <typename T, int kDim>
REPRISE_DEVICE void delta_chunks(const GatedDeltaRuleArguments& a) {
  const ChunkMemory<kDim, kDeltaChunkValues, true> memory;
  if (thread_index() == 0) {
    const int64_t parts = ceil_div(a.value_dim, int64_t{kDeltaChunkValues});
    const int64_t first_value = block_index() % parts * kDeltaChunkValues;
    const int64_t head = block_index() / parts % a.heads;
    const int64_t request = block_index() / parts / a.heads;
    const int64_t token = a.states.query_start_loc[request];
    const int64_t shared = head / a.neighbours % a.groups * a.key_dim;
    const int64_t value = head * a.value_dim + first_value;
    const int64_t values = a.heads * a.value_dim;
    ChunkHead<T>& h = memory.template head<T>();
    h.key = static_cast<const T*>(a.k) + token * a.k_stride + shared;
    h.key_stride = a.k_stride;
    h.query = static_cast<const T*>(a.q) + token * a.q_stride + shared;
    h.query_stride = a.q_stride;
    h.value = static_cast<const T*>(a.v) + token * a.v_stride + value;
    h.value_stride = a.v_stride;
    h.out = static_cast<T*>(a.out) + token * values + value;
    h.out_stride = values;
    h.key_dim = static_cast<int>(a.key_dim);
    h.num_values = static_cast<int>(min_of(a.value_dim - first_value, int64_t{kDeltaChunkValues}));
    h.step = static_cast<const T*>(a.dt) + token * a.dt_stride + head;
    h.step_stride = a.dt_stride;
    h.beta = static_cast<const T*>(a.beta) + token * a.beta_stride + head;
    h.beta_stride = a.beta_stride;
    h.step_bias = a.dt_bias[head];
    h.rate = exponential(a.a_log[head]);
    h.query_scale = 1.0F / square_root(static_cast<float>(a.key_dim));
    h.skip = 0;
    h.of_next_key = static_cast<int>(a.value_dim);
    h.of_next_value = 1;
    set_tokens(
        h, a.states, request, values * a.key_dim, head * a.key_dim * a.value_dim + first_value);
  }
  compute_in_chunks<T>(memory);
}

/// A block computes up to kSelectiveChunkValues values of a head of Mamba-2. B are the keys, C the
/// queries.
template <typename T, int kDim>
REPRISE_DEVICE void selective_chunks(const SelectiveStateUpdateArguments& a) {
  const ChunkMemory<kDim, kSelectiveChunkValues, false> memory;
  if (thread_index() == 0) {
    const int64_t parts = ceil_div(a.head_dim, int64_t{kSelectiveChunkValues});
    const int64_t first_value = block_index() % parts * kSelectiveChunkValues;
    const int64_t head = block_index() / parts % a.heads;
    const int64_t request = block_index() / parts / a.heads;
    const int64_t token = a.states.query_start_loc[request];
    const int64_t shared = head / a.heads_per_group * a.state_size;
    const int64_t value = head * a.head_dim + first_value;
    const int64_t values = a.heads * a.head_dim;
    ChunkHead<T>& h = memory.template head<T>();
    h.key = static_cast<const T*>(a.b) + token * a.b_stride + shared;
    h.key_stride = a.b_stride;
    h.query = static_cast<const T*>(a.c) + token * a.c_stride + shared;
    h.query_stride = a.c_stride;
    h.value = static_cast<const T*>(a.x) + token * a.x_stride + value;
    h.value_stride = a.x_stride;
    h.out = static_cast<T*>(a.out) + token * values + value;
    h.out_stride = values;
    h.key_dim = static_cast<int>(a.state_size);
    h.num_values =
        static_cast<int>(min_of(a.head_dim - first_value, int64_t{kSelectiveChunkValues}));
    h.step = static_cast<const T*>(a.dt) + token * a.dt_stride + head;
    h.step_stride = a.dt_stride;
    h.beta = nullptr;
    h.beta_stride = 0;
    h.step_bias = a.dt_bias[head];
    h.rate = exponential(a.a_log[head]);
    h.query_scale = 1;
    h.skip = a.d[head];
    h.of_next_key = 1;
    h.of_next_value = static_cast<int>(a.state_size);
    set_tokens(h, a.states, request, values * a.state_size, value * a.state_size);
  }
  compute_in_chunks<T>(memory);
}

}  // namespace reprise::kernels::cuda
