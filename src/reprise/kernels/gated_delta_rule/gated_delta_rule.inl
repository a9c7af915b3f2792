// x / sqrt(sum of squares + 1e-6) * scale, as float32.
template <typename T>
inline void normalise_key(const T* x, float* out, int64_t size, float scale) {
  const float factor = scale / square_root(sum_of_squares(x, size) + 1e-6F);
  for (int64_t i = 0; i < size; i += kLanes) {
    const int count = lanes_at(i, size);
    store_some(out + i, mul(load_some(x + i, count), broadcast(factor)), count);
  }
}

// Computes the values of one vector, whose state changes from `before` to `state`; both may be the
// same memory. The state is [key_dim, value_dim], so that sums over keys need no reduction of
// lanes: they are added in the order of the keys.
template <typename T>
inline void update_values(const float* before,
                          float* state,
                          int64_t value_dim,
                          int64_t key_dim,
                          const float* q,
                          const float* k,
                          const T* v,
                          T* out,
                          const float* decay,
                          float beta,
                          int count) {
  Vec remembered = zero();
  for (int64_t i = 0; i < key_dim; ++i) {
    const Vec kept = mul(load_some(before + i * value_dim, count), broadcast(decay[i]));
    store_some(state + i * value_dim, kept, count);
    remembered = fma(kept, broadcast(k[i]), remembered);
  }
  const Vec change = mul(sub(load_some(v, count), remembered), broadcast(beta));
  Vec result = zero();
  for (int64_t i = 0; i < key_dim; ++i) {
    const Vec h = fma(broadcast(k[i]), change, load_some(state + i * value_dim, count));
    store_some(state + i * value_dim, h, count);
    result = fma(h, broadcast(q[i]), result);
  }
  store_some(out, result, count);
}

/// The factors of the rows of a head's state.
template <typename T>
inline void find_decays(
    const GatedDeltaRuleArguments& a, int64_t token, int64_t head, float rate, float* decays) {
  const int64_t first = head * a.steps_per_head;
  const T* dt = static_cast<const T*>(a.dt) + token * a.dt_stride + first;
  for (int64_t i = 0; i < a.steps_per_head; ++i) {
    const float step = softplus(to_float(dt[i]) + a.dt_bias[first + i]);
    decays[i] = scalar_of(exp(broadcast(-rate * step)));
  }
  for (int64_t i = a.steps_per_head; i < a.key_dim; ++i) decays[i] = decays[0];
}

template <typename T>
inline void update_delta_head(const GatedDeltaRuleArguments& a,
                              const RequestTokens& tokens,
                              int64_t head) {
  const int64_t values = a.heads * a.value_dim;
  const int64_t shared = head / a.neighbours % a.groups * a.key_dim;
  const float rate = scalar_of(exp(broadcast(a.a_log[head])));
  const float q_scale = 1.0F / square_root(static_cast<float>(a.key_dim));
  const auto state_in = [&](int64_t slot) {
    return a.states.state + (slot * a.heads + head) * a.key_dim * a.value_dim;
  };
  float* before = state_in(tokens.slot);
  if (tokens.is_new) clear_columns(before, a.value_dim, a.key_dim, a.value_dim);
  float q[kMaxStateSize];
  float k[kMaxStateSize];
  float decays[kMaxStateSize];
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    normalise_key(static_cast<const T*>(a.q) + token * a.q_stride + shared, q, a.key_dim, q_scale);
    normalise_key(static_cast<const T*>(a.k) + token * a.k_stride + shared, k, a.key_dim, 1.0F);
    find_decays<T>(a, token, head, rate, decays);
    const float raw = to_float(static_cast<const T*>(a.beta)[token * a.beta_stride + head]);
    const float beta = 1.0F / (1.0F + scalar_of(exp(broadcast(-raw))));
    const T* v = static_cast<const T*>(a.v) + token * a.v_stride + head * a.value_dim;
    T* out = static_cast<T*>(a.out) + token * values + head * a.value_dim;
    float* state = state_in(tokens.slot_after(token));
    for (int64_t i = 0; i < a.value_dim; i += kLanes) {
      update_values<T>(before + i,
                       state + i,
                       a.value_dim,
                       a.key_dim,
                       q,
                       k,
                       v + i,
                       out + i,
                       decays,
                       beta,
                       lanes_at(i, a.value_dim));
    }
    before = state;
  }
}

template <typename T>
void run_gated_delta_rule(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const GatedDeltaRuleArguments*>(args);
  for_each_state_block(a.states,
                       static_cast<T*>(a.out),
                       a.heads * a.value_dim,
                       a.value_dim,
                       blocks,
                       [&](const RequestTokens& tokens, int64_t first, int64_t) {
                         update_delta_head<T>(a, tokens, first / a.value_dim);
                       });
}
