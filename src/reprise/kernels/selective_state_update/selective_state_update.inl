REPRISE_INLINE float scalar_of(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  return lanes[0];
}
// log(1 + exp(x)), which is x in float32 from 20 on.
REPRISE_INLINE float softplus(float x) {
  return x > 20.0F ? x : __builtin_log1pf(scalar_of(exp(broadcast(x))));
}

// One head over the tokens of a request. The order of each sum depends on state_size alone, and a
// token changes the state by the same steps in a prompt as in decode.
template <typename T>
inline void update_head(const SelectiveStateUpdateArguments& a,
                        const RequestTokens& tokens,
                        int64_t head) {
  const int64_t size = a.state_size;
  const int64_t values = a.heads * a.head_dim;
  const int64_t shared = head / a.heads_per_group * size;
  float* state = a.ssm_state + (tokens.slot * a.heads + head) * a.head_dim * size;
  if (tokens.is_new) clear_columns(state, size, a.head_dim, size);
  float step_b[kMaxStateSize];  // time step * B
  float decay[kMaxStateSize];
  float of_c[kMaxStateSize];
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    const float step = softplus(to_float(static_cast<const T*>(a.dt)[token * a.dt_stride + head]) +
                                a.dt_bias[head]);
    const T* b = static_cast<const T*>(a.b) + token * a.b_stride + shared;
    const T* c = static_cast<const T*>(a.c) + token * a.c_stride + shared;
    for (int64_t n = 0; n < size; n += kLanes) {
      const int count = lanes_at(n, size);
      store_some(step_b + n, mul(broadcast(step), load_some(b + n, count)), count);
      store_some(of_c + n, load_some(c + n, count), count);
      const Vec a_log = a.decays == 1 ? broadcast(a.a_log[head])
                                      : load_some(a.a_log + head * a.decays + n, count);
      store_some(decay + n, exp(sub(zero(), mul(exp(a_log), broadcast(step)))), count);
    }
    const T* x = static_cast<const T*>(a.x) + token * a.x_stride + head * a.head_dim;
    T* out = static_cast<T*>(a.out) + token * values + head * a.head_dim;
    for (int64_t p = 0; p < a.head_dim; ++p) {
      const float input = to_float(x[p]);
      float* row = state + p * size;
      Vec sums = zero();
      for (int64_t n = 0; n < size; n += kLanes) {
        const int count = lanes_at(n, size);
        const Vec added = mul(load_some(step_b + n, count), broadcast(input));
        const Vec h = fma(load_some(row + n, count), load_some(decay + n, count), added);
        store_some(row + n, h, count);
        sums = fma(h, load_some(of_c + n, count), sums);
      }
      store_element(out + p, sum(sums) + a.d[head] * input);
    }
  }
}

template <typename T>
void run_selective_state_update(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SelectiveStateUpdateArguments*>(args);
  const int64_t head_blocks = ceil_div(a.heads, a.heads_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RequestTokens tokens = request_tokens(a.query_start_loc,
                                                a.seq_lens,
                                                a.state_indices,
                                                block / head_blocks,
                                                a.num_tokens,
                                                a.num_slots);
    const int64_t first = block % head_blocks * a.heads_per_block;
    const int64_t last = min_of(first + a.heads_per_block, a.heads);
    const int64_t values = a.heads * a.head_dim;
    clear_padding(a,
                  block / head_blocks,
                  static_cast<T*>(a.out),
                  values,
                  first * a.head_dim,
                  (last - first) * a.head_dim);
    if (tokens.begin >= tokens.end) continue;
    if (tokens.slot == 0) {
      clear_columns(static_cast<T*>(a.out) + tokens.begin * values + first * a.head_dim,
                    values,
                    tokens.end - tokens.begin,
                    (last - first) * a.head_dim);
      continue;
    }
    for (int64_t head = first; head < last; ++head) update_head<T>(a, tokens, head);
  }
}
