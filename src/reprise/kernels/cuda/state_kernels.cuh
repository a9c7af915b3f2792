#pragma once

#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/cuda/state_arguments.h"
#include "reprise/kernels/gated_delta_rule/gated_delta_rule_arguments.h"
#include "reprise/kernels/selective_state_update/selective_state_update_arguments.h"

// Recurrent layers. A request keeps its state in a slot, and a block computes a part of the state
// of one request. One thread or warp changes an element of the state for one token after the other.
// chunked_state_kernels.cuh computes prompts, where a launch before this one can. A convolution
// needs no state but its last inputs, so its tokens are independent of each other.
namespace reprise::kernels::cuda {

/// The tokens of one request that a step computes, and the slots with its states.
struct StateTokens {
  int64_t begin;
  int64_t end;
  int64_t slot;          // the slot with the state before the tokens
  bool is_new;           // no earlier step has left a state
  const int32_t* slots;  // slots for the states after the first tokens
  int64_t last_slot;     // index in `slots`: the slot for the state after every further token

  REPRISE_DEVICE int64_t slot_after(int64_t token) const {
    return slots[min_of(token - begin, last_slot)];
  }
};

template <typename T>
REPRISE_DEVICE void clear_columns(T* out, int64_t stride, int64_t rows, int64_t columns) {
  for (int64_t i = thread_index(); i < rows * columns; i += num_threads()) {
    put(out + i / columns * stride + i % columns, 0.0F);
  }
}

REPRISE_DEVICE StateTokens tokens_of(const StateArguments& a, int64_t request) {
  StateTokens tokens = {a.query_start_loc[request],
                        min_of(int64_t{a.query_start_loc[request + 1]}, a.num_tokens),
                        a.state_indices[request * a.slots_per_req],
                        false,
                        a.state_indices + request * a.slots_per_req,
                        a.slots_per_req - 1};
  tokens.is_new = a.seq_lens[request] <= tokens.end - tokens.begin;
  return tokens;
}

/// Slot 0 is the null slot of requests that only pad a batch. A slot beyond the cache would be
/// other memory.
REPRISE_DEVICE bool has_slots(const StateArguments& a, const StateTokens& tokens) {
  for (int64_t i = 0; i <= tokens.last_slot; ++i) {
    if (tokens.slots[i] <= 0 || tokens.slots[i] >= a.num_slots) return false;
  }
  return true;
}

/// The tokens that a block computes; none if the request has no slot. `out` is the block's part of
/// a row of the results, `stride` the distance of rows, and `columns` the number of columns of the
/// part. Results of requests without a slot, and of tokens after the last request, become zeros.
template <typename T>
REPRISE_DEVICE StateTokens
begin_request(const StateArguments& a, int64_t request, T* out, int64_t stride, int64_t columns) {
  StateTokens tokens = tokens_of(a, request);
  if (request + 1 == a.num_reqs) {
    const int64_t end = min_of(int64_t{a.query_start_loc[a.num_reqs]}, a.num_tokens);
    clear_columns(out + end * stride, stride, a.num_tokens - end, columns);
  }
  if (!has_slots(a, tokens)) {
    clear_columns(
        out + tokens.begin * stride, stride, max_of(0, tokens.end - tokens.begin), columns);
    tokens.end = tokens.begin;
  }
  return tokens;
}

/// Whether a prompt has these tokens: several, of which none can be rejected. \pre has_slots()
REPRISE_DEVICE bool is_prompt(const StateTokens& tokens) {
  return tokens.end - tokens.begin > 1 && tokens.slots[0] == tokens.slots[tokens.last_slot];
}

/// The tokens of a request that a launch computes in chunks: those of a prompt. If the last token
/// makes a chunk of its own, it is not one of them. So it has the same bits in a step of its own.
REPRISE_DEVICE StateTokens tokens_in_chunks(const StateArguments& a, int64_t request) {
  StateTokens tokens = tokens_of(a, request);
  if (!has_slots(a, tokens) || !is_prompt(tokens)) {
    tokens.end = tokens.begin;
  } else if (a.seq_lens[request] % kStateChunkTokens == 1) {
    --tokens.end;
  }
  return tokens;
}
/// The position of the first token of the step in its request.
REPRISE_DEVICE int64_t first_position(const StateArguments& a, int64_t request) {
  return a.seq_lens[request] - (a.query_start_loc[request + 1] - a.query_start_loc[request]);
}

/// Leaves out the tokens that an earlier launch has computed in chunks. Their state is in the slot.
REPRISE_DEVICE void leave_out_chunks(const StateArguments& a,
                                     int64_t request,
                                     StateTokens& tokens) {
  if (a.has_chunks == 0 || tokens.begin >= tokens.end || !is_prompt(tokens)) return;
  tokens.begin = tokens_in_chunks(a, request).end;
  tokens.is_new = false;
}

/// The tokens of a request that the blocks of its state convolve: all, or those that need inputs of
/// earlier steps, if there are blocks for tiles of tokens.
REPRISE_DEVICE int64_t convolved_with_state(const CausalConv1dArguments& a,
                                            const StateTokens& tokens) {
  if (a.tokens_per_tile == 0) return tokens.end;
  return min_of(tokens.end, tokens.begin + a.kernel - 1);
}

/// A thread convolves one channel over the first tokens of a request, and keeps the last inputs.
/// See convolve().
template <typename T, typename Input, typename Result>
REPRISE_DEVICE void convolve_with_state(const CausalConv1dArguments& a,
                                        int64_t request,
                                        int64_t first,
                                        int64_t last,
                                        const Input& input,
                                        const Result& result) {
  T* out = static_cast<T*>(a.out);
  const StateTokens tokens =
      begin_request(a.states, request, out + first, a.channels, last - first);
  if (tokens.begin >= tokens.end) return;
  const int64_t num_earlier = a.kernel - 1;
  for (int64_t channel = first + thread_index(); channel < last; channel += num_threads()) {
    const T* weight = static_cast<const T*>(a.weight) + channel * a.kernel;
    const auto state_in = [&](int64_t slot) {
      return a.states.state + slot * num_earlier * a.channels + channel;
    };
    const float* before = state_in(tokens.slot);
    // Returns the input of a token of this step or of an earlier one.
    const auto input_at = [&](int64_t token) {
      if (token >= tokens.begin) return input(token, channel);
      return tokens.is_new ? 0.0F : before[(num_earlier + token - tokens.begin) * a.channels];
    };
    const auto keep_state_after = [&](int64_t token) {
      float* state = state_in(tokens.slot_after(token));
      // Only this entry and earlier entries read the entry, so it can be overwritten.
      for (int64_t k = 0; k < num_earlier; ++k) {
        state[k * a.channels] = input_at(token + 1 - num_earlier + k);
      }
    };
    const float bias = a.bias == nullptr ? 0.0F : as_float(static_cast<const T*>(a.bias)[channel]);
    const int64_t end = convolved_with_state(a, tokens);
    for (int64_t token = tokens.begin; token < end; ++token) {
      float sum = bias;
      for (int64_t k = 0; k <= num_earlier; ++k) {
        sum = multiply_add(input_at(token - num_earlier + k), as_float(weight[k]), sum);
      }
      put(out + token * a.channels + channel, result(token, channel, sum));
    }
    // All states are computed from the state before the tokens, whose slot the first token
    // overwrites.
    const int64_t last_token = tokens.end - 1;
    keep_state_after(last_token);
    for (int64_t token = min_of(last_token, tokens.begin + tokens.last_slot) - 1;
         token >= tokens.begin;
         --token) {
      if (tokens.slot_after(token) != tokens.slot_after(token + 1)) keep_state_after(token);
    }
  }
}

/// The last request that begins at `token` or before it.
REPRISE_DEVICE int64_t request_of(const StateArguments& a, int64_t token) {
  int64_t low = 0;
  int64_t high = a.num_reqs;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (a.query_start_loc[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// A thread convolves one channel over the tokens from `token` to `end`, whose inputs are all in
/// this step. The last inputs stay in registers.
template <int kKernel, typename T, typename Input, typename Result>
REPRISE_DEVICE void convolve_in_registers(const CausalConv1dArguments& a,
                                          int64_t token,
                                          int64_t end,
                                          int64_t channel,
                                          const Input& input,
                                          const Result& result) {
  const T* weights = static_cast<const T*>(a.weight) + channel * kKernel;
  const float bias = a.bias == nullptr ? 0.0F : as_float(static_cast<const T*>(a.bias)[channel]);
  float weight[kKernel];
  float window[kKernel];
  REPRISE_UNROLL
  for (int k = 0; k < kKernel; ++k) weight[k] = as_float(weights[k]);
  REPRISE_UNROLL
  for (int k = 1; k < kKernel; ++k) window[k] = input(token - kKernel + k, channel);
  REPRISE_UNROLL_BY_4
  for (; token < end; ++token) {
    REPRISE_UNROLL
    for (int k = 1; k < kKernel; ++k) window[k - 1] = window[k];
    window[kKernel - 1] = input(token, channel);
    float sum = bias;
    REPRISE_UNROLL
    for (int k = 0; k < kKernel; ++k) sum = multiply_add(window[k], weight[k], sum);
    put(static_cast<T*>(a.out) + token * a.channels + channel, result(token, channel, sum));
  }
}

/// The same for a convolution of any length.
template <typename T, typename Input, typename Result>
REPRISE_DEVICE void convolve_from_memory(const CausalConv1dArguments& a,
                                         int64_t token,
                                         int64_t end,
                                         int64_t channel,
                                         const Input& input,
                                         const Result& result) {
  const T* weight = static_cast<const T*>(a.weight) + channel * a.kernel;
  const float bias = a.bias == nullptr ? 0.0F : as_float(static_cast<const T*>(a.bias)[channel]);
  for (; token < end; ++token) {
    float sum = bias;
    for (int64_t k = 0; k < a.kernel; ++k) {
      sum = multiply_add(input(token - a.kernel + 1 + k, channel), as_float(weight[k]), sum);
    }
    put(static_cast<T*>(a.out) + token * a.channels + channel, result(token, channel, sum));
  }
}

/// Convolves the tokens of a tile of the batch, without those that need inputs of earlier steps.
template <typename T, typename Input, typename Result>
REPRISE_DEVICE void convolve_tile(const CausalConv1dArguments& a,
                                  int64_t tile,
                                  int64_t first,
                                  int64_t last,
                                  const Input& input,
                                  const Result& result) {
  const int64_t tile_begin = tile * a.tokens_per_tile;
  const int64_t tile_end = min_of(tile_begin + a.tokens_per_tile, a.states.num_tokens);
  for (int64_t request = request_of(a.states, tile_begin); request < a.states.num_reqs; ++request) {
    const StateTokens tokens = tokens_of(a.states, request);
    if (tokens.begin >= tile_end) return;
    const int64_t begin = max_of(tile_begin, convolved_with_state(a, tokens));
    const int64_t end = min_of(tile_end, tokens.end);
    if (begin >= end || !has_slots(a.states, tokens)) continue;
    for (int64_t channel = first + thread_index(); channel < last; channel += num_threads()) {
      if (a.kernel == 4) {
        convolve_in_registers<4, T>(a, begin, end, channel, input, result);
      } else {
        convolve_from_memory<T>(a, begin, end, channel, input, result);
      }
    }
  }
}

/// Convolves a tile of tokens, or the first tokens of a request. input(token, channel) returns the
/// input of the convolution, and result(token, channel, sum) receives the sum. Blocks of requests
/// read and write the states; blocks of tiles need none.
template <typename T, typename Input, typename Result>
REPRISE_DEVICE void convolve(const CausalConv1dArguments& a,
                             const Input& input,
                             const Result& result) {
  const int64_t channel_blocks = ceil_div(a.channels, a.channels_per_block);
  const int64_t first = block_index() % channel_blocks * a.channels_per_block;
  const int64_t last = min_of(first + a.channels_per_block, a.channels);
  const int64_t unit = block_index() / channel_blocks;
  if (unit < a.states.num_reqs) {
    convolve_with_state<T>(a, unit, first, last, input, result);
  } else {
    convolve_tile<T>(a, unit - a.states.num_reqs, first, last, input, result);
  }
}

template <typename T>
REPRISE_DEVICE void causal_conv1d(const CausalConv1dArguments& a) {
  const T* x = static_cast<const T*>(a.x);
  convolve<T>(
      a,
      [&](int64_t token, int64_t channel) { return as_float(x[token * a.x_stride + channel]); },
      [](int64_t, int64_t, float sum) { return silu(sum); });
}

/// A row of x is [B | C | values], of `channels` elements each.
template <typename T>
REPRISE_DEVICE void short_conv(const CausalConv1dArguments& a) {
  const auto part = [&](int64_t number, int64_t token, int64_t channel) {
    return as_float(static_cast<const T*>(a.x)[token * a.x_stride + number * a.channels + channel]);
  };
  convolve<T>(
      a,
      [&](int64_t token, int64_t channel) {
        return part(0, token, channel) * part(2, token, channel);
      },
      [&](int64_t token, int64_t channel, float sum) { return part(1, token, channel) * sum; });
}

/// log(1 + exp(x)), which is x in float32 from 20 on.
REPRISE_DEVICE float softplus(float x) { return x > 20.0F ? x : log_1p(exponential(x)); }

/// A warp changes one row of the state of a head, token after token; a lane has every 32nd element.
template <typename T>
REPRISE_DEVICE void selective_state_update(const SelectiveStateUpdateArguments& a) {
  const int64_t head_blocks = ceil_div(a.heads, a.heads_per_block);
  const int64_t first = block_index() % head_blocks * a.heads_per_block * a.head_dim;
  const int64_t values = a.heads * a.head_dim;
  const int64_t last = min_of(first + a.heads_per_block * a.head_dim, values);
  T* out = static_cast<T*>(a.out);
  const int64_t request = block_index() / head_blocks;
  StateTokens tokens = begin_request(a.states, request, out + first, values, last - first);
  leave_out_chunks(a.states, request, tokens);
  for (int64_t value = first + warp_index(); value < last; value += num_warps()) {
    const int64_t head = value / a.head_dim;
    const int64_t shared = head / a.heads_per_group * a.state_size;
    const auto state_in = [&](int64_t slot) {
      return a.states.state + (slot * values + value) * a.state_size;
    };
    const float* earlier = state_in(tokens.slot);
    for (int64_t token = tokens.begin; token < tokens.end; ++token) {
      float* state = state_in(tokens.slot_after(token));
      const float x = as_float(static_cast<const T*>(a.x)[token * a.x_stride + value]);
      const float step = softplus(
          as_float(static_cast<const T*>(a.dt)[token * a.dt_stride + head]) + a.dt_bias[head]);
      const T* b = static_cast<const T*>(a.b) + token * a.b_stride + shared;
      const T* c = static_cast<const T*>(a.c) + token * a.c_stride + shared;
      float sum = 0;
      for (int64_t n = lane_index(); n < a.state_size; n += kWarpSize) {
        const float rate = exponential(a.a_log[head * a.decays + (a.decays == 1 ? 0 : n)]);
        const float before = tokens.is_new && token == tokens.begin ? 0.0F : earlier[n];
        const float added = step * as_float(b[n]) * x;
        const float h = multiply_add(before, exponential(-(rate * step)), added);
        state[n] = h;
        sum = multiply_add(h, as_float(c[n]), sum);
      }
      sum = warp_sum(sum);
      if (lane_index() == 0) put(out + token * values + value, sum + a.d[head] * x);
      earlier = state;
    }
  }
}

/// x / sqrt(sum of squares + 1e-6) * scale, in shared memory; the whole block takes part.
template <typename T>
REPRISE_DEVICE void normalise_key(const T* x, float* out, int64_t size, float scale) {
  const Team team{thread_index(), num_threads()};
  const float factor = scale / square_root(team.sum(sum_of_squares(x, size, team)) + 1e-6F);
  for (int64_t i = team.rank; i < size; i += team.size) out[i] = as_float(x[i]) * factor;
}

// Shared memory: a float for each warp, then a query and a key.
inline constexpr int kDeltaShared = 64;
static_assert(kDeltaShared + 2 * kMaxStateSize * sizeof(float) == 8256);

/// Stores the elements of a column, `distance` apart. The multiples of the distance are computed
/// again each time, because the column needs the registers.
template <int kKeys>
REPRISE_DEVICE void store_column(float* column, int distance, const float (&h)[kKeys]) {
  const int of_row = same_again(distance);
  REPRISE_UNROLL
  for (int i = 0; i < kKeys; ++i) column[i * of_row] = h[i];
}

/// A block has one head of a request with kKeys rows, and a thread keeps one column of its state in
/// registers from the first token to the last: the state is read once, and written once for each
/// slot. delta_rule_in_memory() has the same bits.
template <int kKeys, typename T>
REPRISE_DEVICE void delta_rule_in_registers(const GatedDeltaRuleArguments& a,
                                            const StateTokens& tokens,
                                            int64_t head) {
  auto* q = reinterpret_cast<float*>(shared_memory() + kDeltaShared);
  float* k = q + kKeys;
  float* decays = k + kKeys;
  const int64_t shared = head / a.neighbours % a.groups * kKeys;
  const float rate = exponential(a.a_log[head]);
  const float q_scale = 1.0F / square_root(static_cast<float>(kKeys));
  const int64_t value = head * a.value_dim + thread_index();
  const bool has_column = thread_index() < a.value_dim;
  const auto column_in = [&](int64_t slot) {
    return a.states.state + (slot * a.heads + head) * kKeys * a.value_dim + thread_index();
  };
  const float* before = column_in(tokens.slot);
  const auto distance = static_cast<int>(a.value_dim);
  float h[kKeys];
  REPRISE_UNROLL
  for (int i = 0; i < kKeys; ++i) {
    h[i] = has_column && !tokens.is_new ? before[i * distance] : 0.0F;
  }
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const auto of_token = [&](const void* x, int64_t stride, int64_t column) {
      return static_cast<const T*>(x) + token * stride + column;
    };
    normalise_key(of_token(a.q, a.q_stride, shared), q, kKeys, q_scale);
    normalise_key(of_token(a.k, a.k_stride, shared), k, kKeys, 1.0F);
    for (int i = thread_index(); i < kKeys; i += num_threads()) {
      const int64_t step = head * a.steps_per_head + (a.steps_per_head == 1 ? 0 : i);
      const float x = as_float(*of_token(a.dt, a.dt_stride, step)) + a.dt_bias[step];
      decays[i] = exponential(-rate * softplus(x));
    }
    sync_block();  // the sums of the next token wait until all threads have used this one
    if (!has_column) continue;
    float remembered = 0;
    REPRISE_UNROLL
    for (int i = 0; i < kKeys; ++i) {
      h[i] *= decays[i];
      remembered = multiply_add(h[i], k[i], remembered);
    }
    const float beta = sigmoid(as_float(*of_token(a.beta, a.beta_stride, head)));
    const float change = (as_float(*of_token(a.v, a.v_stride, value)) - remembered) * beta;
    float result = 0;
    const float* key = k + same_again(0);  // loaded again: it has no registers
    REPRISE_UNROLL
    for (int i = 0; i < kKeys; ++i) {
      h[i] = multiply_add(key[i], change, h[i]);
      result = multiply_add(h[i], q[i], result);
    }
    put(static_cast<T*>(a.out) + token * a.heads * a.value_dim + value, result);
    const int64_t slot = tokens.slot_after(token);
    if (token + 1 < tokens.end && slot == tokens.slot_after(token + 1)) continue;
    store_column<kKeys>(column_in(slot), static_cast<int>(a.value_dim), h);
  }
}

/// The same for keys of any length, with the state in memory: [key_dim, value_dim].
template <typename T>
REPRISE_DEVICE void delta_rule_in_memory(const GatedDeltaRuleArguments& a,
                                         const StateTokens& tokens,
                                         int64_t head) {
  const int64_t values = a.heads * a.value_dim;
  T* out = static_cast<T*>(a.out) + head * a.value_dim;
  auto* q = reinterpret_cast<float*>(shared_memory() + kDeltaShared);
  float* k = q + kMaxStateSize;
  const int64_t shared = head / a.neighbours % a.groups * a.key_dim;
  const float rate = exponential(a.a_log[head]);
  const float q_scale = 1.0F / square_root(static_cast<float>(a.key_dim));
  const auto state_in = [&](int64_t slot) {
    return a.states.state + (slot * a.heads + head) * a.key_dim * a.value_dim;
  };
  const float* before = state_in(tokens.slot);
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    float* state = state_in(tokens.slot_after(token));
    const auto of_token = [&](const void* x, int64_t stride, int64_t column) {
      return static_cast<const T*>(x) + token * stride + column;
    };
    normalise_key(of_token(a.q, a.q_stride, shared), q, a.key_dim, q_scale);
    normalise_key(of_token(a.k, a.k_stride, shared), k, a.key_dim, 1.0F);
    sync_block();  // the next token needs no other one: its sums wait for all threads
    const auto decay_of = [&](int64_t i) {
      const int64_t step = head * a.steps_per_head + i;
      return exponential(-rate *
                         softplus(as_float(*of_token(a.dt, a.dt_stride, step)) + a.dt_bias[step]));
    };
    const bool has_one_step = a.steps_per_head == 1;
    const float of_head = has_one_step ? decay_of(0) : 0.0F;
    const float beta = sigmoid(as_float(*of_token(a.beta, a.beta_stride, head)));
    const bool is_first = tokens.is_new && token == tokens.begin;
    for (int64_t column = thread_index(); column < a.value_dim; column += num_threads()) {
      float remembered = 0;
      for (int64_t i = 0; i < a.key_dim; ++i) {
        const int64_t element = i * a.value_dim + column;
        const float kept =
            is_first ? 0.0F : before[element] * (has_one_step ? of_head : decay_of(i));
        state[element] = kept;
        remembered = multiply_add(kept, k[i], remembered);
      }
      const float v = as_float(*of_token(a.v, a.v_stride, head * a.value_dim + column));
      const float change = (v - remembered) * beta;
      float result = 0;
      for (int64_t i = 0; i < a.key_dim; ++i) {
        float& h = state[i * a.value_dim + column];
        h = multiply_add(k[i], change, h);
        result = multiply_add(h, q[i], result);
      }
      put(out + token * values + column, result);
    }
    before = state;
  }
}

/// A block has one head of a request, and a thread one column of its state.
template <typename T>
REPRISE_DEVICE void gated_delta_rule(const GatedDeltaRuleArguments& a) {
  const int64_t head = block_index() % a.heads;
  const int64_t request = block_index() / a.heads;
  StateTokens tokens = begin_request(a.states,
                                     request,
                                     static_cast<T*>(a.out) + head * a.value_dim,
                                     a.heads * a.value_dim,
                                     a.value_dim);
  leave_out_chunks(a.states, request, tokens);
  if (tokens.begin >= tokens.end) return;
  constexpr int kUsualKeys = 128;  // of all published models
  if (a.key_dim == kUsualKeys && a.value_dim <= num_threads()) {
    delta_rule_in_registers<kUsualKeys, T>(a, tokens, head);
  } else {
    delta_rule_in_memory<T>(a, tokens, head);
  }
}

}  // namespace reprise::kernels::cuda
