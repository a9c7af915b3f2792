REPRISE_INLINE float scalar_of(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  return lanes[0];
}
// log(1 + exp(x)), which is x in float32 from 20 on.
REPRISE_INLINE float softplus(float x) {
  return x > 20.0F ? x : __builtin_log1pf(scalar_of(exp(broadcast(x))));
}

// Computes one head over the tokens of a request. The order of each sum depends only on state_size,
// and a token changes the state by the same operations in a prompt and in decode.
template <typename T>
inline void update_head(const SelectiveStateUpdateArguments& a,
                        const RequestTokens& tokens,
                        int64_t head) {
  const int64_t size = a.state_size;
  const int64_t values = a.heads * a.head_dim;
  const int64_t shared = head / a.heads_per_group * size;
  const auto state_in = [&](int64_t slot) {
    return a.states.state + (slot * a.heads + head) * a.head_dim * size;
  };
  float* before = state_in(tokens.slot);
  if (tokens.is_new) clear_columns(before, size, a.head_dim, size);
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
    float* state = state_in(tokens.slot_after(token));
    for (int64_t p = 0; p < a.head_dim; ++p) {
      const float input = to_float(x[p]);
      const float* row_before = before + p * size;
      float* row = state + p * size;
      Vec sums = zero();
      for (int64_t n = 0; n < size; n += kLanes) {
        const int count = lanes_at(n, size);
        const Vec added = mul(load_some(step_b + n, count), broadcast(input));
        const Vec h = fma(load_some(row_before + n, count), load_some(decay + n, count), added);
        store_some(row + n, h, count);
        sums = fma(h, load_some(of_c + n, count), sums);
      }
      store_element(out + p, sum(sums) + a.d[head] * input);
    }
    before = state;
  }
}

template <typename T>
void run_selective_state_update(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SelectiveStateUpdateArguments*>(args);
  for_each_state_block(a.states,
                       static_cast<T*>(a.out),
                       a.heads * a.head_dim,
                       a.heads_per_block * a.head_dim,
                       blocks,
                       [&](const RequestTokens& tokens, int64_t first, int64_t last) {
                         for (int64_t value = first; value < last; value += a.head_dim) {
                           update_head<T>(a, tokens, value / a.head_dim);
                         }
                       });
}
