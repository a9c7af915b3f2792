// The tokens of one request that a step computes, and the slots with its states.
struct RequestTokens {
  int64_t begin;
  int64_t end;
  // The slot with the state before the tokens. 0 is the null slot, which is neither read nor
  // written: the request has no slot, as in a dummy run.
  int64_t slot;
  bool is_new;           // no earlier step has left a state
  const int32_t* slots;  // slots for the states after the first tokens
  int64_t last_slot;     // index in `slots`: the slot for the state after every further token

  REPRISE_INLINE int64_t slot_after(int64_t token) const {
    return slots[min_of(token - begin, last_slot)];
  }
  // Whether the state after the token is still in its slot at the end of the step.
  REPRISE_INLINE bool keeps_state_after(int64_t token) const {
    const int64_t index = token - begin;
    return token + 1 == end || (index < last_slot && slots[index] != slots[index + 1]);
  }
};
REPRISE_INLINE RequestTokens request_tokens(const StateArguments& a, int64_t request) {
  RequestTokens tokens;
  tokens.begin = a.query_start_loc[request];
  tokens.end = min_of(static_cast<int64_t>(a.query_start_loc[request + 1]), a.num_tokens);
  tokens.slots = a.state_indices + request * a.slots_per_req;
  tokens.last_slot = a.slots_per_req - 1;
  tokens.slot = tokens.slots[0];
  // A slot beyond the cache would be memory of something else.
  for (int64_t i = 0; i < a.slots_per_req; ++i) {
    if (tokens.slots[i] <= 0 || tokens.slots[i] >= a.num_slots) tokens.slot = 0;
  }
  tokens.is_new = a.seq_lens[request] <= tokens.end - tokens.begin;
  return tokens;
}

// For requests without a slot and for tokens without a request, whose results have no meaning.
template <typename T>
inline void clear_columns(T* out, int64_t stride, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; i += kLanes) {
      store_some(out + row * stride + i, zero(), lanes_at(i, columns));
    }
  }
}

// Each block has some columns of the results of one request. `compute(tokens, first, last)`
// computes the columns of a request with tokens and a slot.
template <typename T, typename Compute>
REPRISE_INLINE void for_each_state_block(const StateArguments& a,
                                         T* out,
                                         int64_t columns,
                                         int64_t columns_per_block,
                                         device::BlockRange blocks,
                                         const Compute& compute) {
  const int64_t parts = ceil_div(columns, columns_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t request = block / parts;
    const int64_t first = block % parts * columns_per_block;
    const int64_t last = min_of(first + columns_per_block, columns);
    const RequestTokens tokens = request_tokens(a, request);
    // The blocks of the last request also clear the tokens after it, which pad the batch.
    if (request + 1 == a.num_reqs) {
      const int64_t end = min_of(a.query_start_loc[a.num_reqs], a.num_tokens);
      clear_columns(out + end * columns + first, columns, a.num_tokens - end, last - first);
    }
    if (tokens.begin >= tokens.end) continue;
    if (tokens.slot == 0) {
      clear_columns(
          out + tokens.begin * columns + first, columns, tokens.end - tokens.begin, last - first);
      continue;
    }
    compute(tokens, first, last);
  }
}

// Convolves the channels of one vector over all tokens of a request. `input(token)` returns the
// input of the convolution, `store(token, sum)` receives the sum.
template <typename T, typename Input, typename Store>
REPRISE_INLINE void convolve_channels(const CausalConv1dArguments& a,
                                      const RequestTokens& tokens,
                                      int64_t channel,
                                      int count,
                                      const Input& input,
                                      const Store& store) {
  const int64_t num_earlier = a.kernel - 1;
  Vec weight[kMaxConvKernel];
  Vec earlier[kMaxConvKernel];  // the inputs before the next token, the oldest one first
  const auto state_in = [&](int64_t slot) {
    return a.states.state + slot * num_earlier * a.channels + channel;
  };
  for (int64_t k = 0; k < a.kernel; ++k) {
    float of_lane[kLanes] = {};
    const T* row = static_cast<const T*>(a.weight) + channel * a.kernel + k;
    for (int lane = 0; lane < count; ++lane) of_lane[lane] = to_float(row[lane * a.kernel]);
    weight[k] = load(of_lane);
  }
  for (int64_t k = 0; k < num_earlier; ++k) {
    earlier[k] = tokens.is_new ? zero() : load_some(state_in(tokens.slot) + k * a.channels, count);
  }
  const Vec bias =
      a.bias == nullptr ? zero() : load_some(static_cast<const T*>(a.bias) + channel, count);
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const Vec x = input(token);
    Vec sum = bias;
    for (int64_t k = 0; k < num_earlier; ++k) {
      sum = fma(earlier[k], weight[k], sum);
      if (k > 0) earlier[k - 1] = earlier[k];
    }
    sum = fma(x, weight[num_earlier], sum);
    earlier[num_earlier - 1] = x;
    store(token, sum);
    if (!tokens.keeps_state_after(token)) continue;
    float* kept = state_in(tokens.slot_after(token));
    for (int64_t k = 0; k < num_earlier; ++k) {
      store_some(kept + k * a.channels, earlier[k], count);
    }
  }
}

// `convolve(tokens, channel, count)` computes one vector of channels of a request that has a slot.
template <typename T, typename Convolve>
REPRISE_INLINE void for_each_channel_vector(const CausalConv1dArguments& a,
                                            device::BlockRange blocks,
                                            const Convolve& convolve) {
  for_each_state_block(a.states,
                       static_cast<T*>(a.out),
                       a.channels,
                       a.channels_per_block,
                       blocks,
                       [&](const RequestTokens& tokens, int64_t first, int64_t last) {
                         for (int64_t channel = first; channel < last; channel += kLanes) {
                           convolve(tokens, channel, lanes_at(channel, last));
                         }
                       });
}

template <typename T>
void run_causal_conv1d(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const CausalConv1dArguments*>(args);
  for_each_channel_vector<T>(
      a, blocks, [&a](const RequestTokens& tokens, int64_t channel, int count) {
        const T* x = static_cast<const T*>(a.x) + channel;
        T* out = static_cast<T*>(a.out) + channel;
        convolve_channels<T>(
            a,
            tokens,
            channel,
            count,
            [&](int64_t token) { return load_some(x + token * a.x_stride, count); },
            [&](int64_t token, Vec sum) {
              store_some(out + token * a.channels, silu(sum), count);
            });
      });
}
