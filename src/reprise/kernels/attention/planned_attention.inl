/// A plan in memory, and whether it belongs to this batch.
struct AttentionPlan {
  const AttentionPlanHeader& header;
  const PlannedRequest* requests;

  explicit AttentionPlan(const int32_t* words)
      : header(*reinterpret_cast<const AttentionPlanHeader*>(words)),
        requests(reinterpret_cast<const PlannedRequest*>(&header + 1)) {}

  bool fits(const AttentionKernelArguments& a) const {
    return header.num_reqs <= a.num_reqs && header.num_tokens <= a.num_tokens &&
           header.num_tokens == a.query_start_loc[a.num_reqs];
  }
  bool fits(const AttentionKernelArguments& a, int64_t request) const {
    const PlannedRequest& r = requests[request];
    return r.seq_len == a.seq_lens[request] && r.first_token == a.query_start_loc[request] &&
           r.first_token + r.num_tokens == a.query_start_loc[request + 1];
  }
  /// Returns the request of an item: the last request that starts at or before the item.
  int64_t request_of(int64_t item) const {
    int64_t low = 0;
    int64_t high = header.num_reqs;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (requests[middle].first_item <= item) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// Fills rows with NaN, so that they cannot be mistaken for results.
template <typename T>
inline void poison_rows(const AttentionKernelArguments& a,
                        int64_t kv_head,
                        int64_t token,
                        int64_t end) {
  float nans[kMaxAttentionHeadDim];
  for (float& value : nans) value = __builtin_nanf("");
  for (; token < end; ++token) {
    for (int64_t head = kv_head * a.group_size; head < (kv_head + 1) * a.group_size; ++head) {
      store_out<T>(a, nans, 1.0F, token * a.out_token_stride + head * a.out_head_stride);
    }
  }
}

/// Computes one part of the positions of a request with a single token.
template <typename T>
inline void attend_part(const PlannedAttentionArguments& p,
                        const PlannedRequest& r,
                        int64_t request,
                        int64_t kv_head,
                        int64_t part) {
  const AttentionKernelArguments& a = p.call;
  const int64_t positions = AttentionPlan(p.plan).header.positions_per_part;
  AttentionState state;
  const int64_t heads_at_once = min_of(a.group_size, kMaxAttentionRows);
  for (int64_t head = 0; head < a.group_size; head += heads_at_once) {
    const AttentionRows rows{a,
                             request,
                             kv_head,
                             r.first_token,
                             r.seq_len,
                             1,
                             static_cast<int>(kv_head * a.group_size + head),
                             static_cast<int>(min_of(heads_at_once, a.group_size - head))};
    const int64_t begin = max_of(part * positions, rows.window_begin(0));
    const int64_t end = min_of((part + 1) * positions, r.seq_len);
    if (begin < end) {
      begin_states(rows, state);
      attend_positions<T>(rows, state, begin, end);
    }
    for (int row = 0; row < rows.num_heads; ++row) {
      float* partial =
          p.partials + ((r.first_part + part) * a.kv_heads * a.group_size + rows.first_head + row) *
                           (a.value_dim + 2);
      if (begin < end) {
        const auto bytes = static_cast<size_t>(a.value_dim) * sizeof(float);
        __builtin_memcpy(partial, state.sums + row * a.value_dim, bytes);
        partial[a.value_dim] = state.maxima[row];
        partial[a.value_dim + 1] = state.totals[row];
      } else {  // behind the window
        __builtin_memset(partial, 0, static_cast<size_t>(a.value_dim + 2) * sizeof(float));
        partial[a.value_dim] = -__builtin_inff();
      }
    }
  }
}

template <typename T>
inline void attend_item(const PlannedAttentionArguments& p,
                        const AttentionPlan& plan,
                        int64_t item,
                        int64_t kv_head) {
  const int64_t request = plan.request_of(item);
  const PlannedRequest& r = plan.requests[request];
  const int64_t index = item - r.first_item;
  const bool has_parts = r.first_part >= 0;
  const int64_t token = r.first_token + (has_parts ? 0 : index * plan.header.tokens_per_item);
  const int64_t query_end = r.first_token + r.num_tokens;
  const int64_t end =
      has_parts ? query_end : min_of(token + plan.header.tokens_per_item, query_end);
  if (!plan.fits(p.call, request)) {
    poison_rows<T>(p.call, kv_head, token, end);
  } else if (has_parts) {
    attend_part<T>(p, r, request, kv_head, index);
  } else {
    attend_request<T>(p.call, request, query_end, kv_head, token, end);
  }
}

template <typename T>
void run_planned_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& p = *static_cast<const PlannedAttentionArguments*>(args);
  const AttentionKernelArguments& a = p.call;
  const AttentionPlan plan(p.plan);
  const bool fits = plan.fits(a);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    if (fits) {
      for (int64_t unit = block; unit < plan.header.num_items * a.kv_heads; unit += p.grid_size) {
        attend_item<T>(p, plan, unit / a.kv_heads, unit % a.kv_heads);
      }
    }
    const int64_t first = fits ? plan.header.num_tokens : 0;
    const int64_t num_units = (a.num_tokens - first) * a.kv_heads;
    for (int64_t unit = block; unit < num_units; unit += p.grid_size) {
      const int64_t token = first + unit / a.kv_heads;
      if (fits) {
        zero_rows<T>(a, unit % a.kv_heads, token, token + 1);
      } else {
        poison_rows<T>(a, unit % a.kv_heads, token, token + 1);
      }
    }
  }
}

/// Merges the parts of one head of a request into a row of the result, in the order of the
/// positions.
template <typename T>
inline void merge_parts(const PlannedAttentionArguments& p,
                        const PlannedRequest& r,
                        int64_t head,
                        int64_t num_parts) {
  const AttentionKernelArguments& a = p.call;
  const int64_t stride = a.kv_heads * a.group_size * (a.value_dim + 2);
  const float* parts = p.partials + r.first_part * stride + head * (a.value_dim + 2);
  float largest = -__builtin_inff();
  for (int64_t part = 0; part < num_parts; ++part) {
    const float candidate = parts[part * stride + a.value_dim];
    largest = candidate > largest ? candidate : largest;
  }
  float sums[kMaxAttentionHeadDim] = {};
  float total = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    const float* partial = parts + part * stride;
    const float factor = exp_of(partial[a.value_dim] - largest);
    const Vec weight = broadcast(factor);
    total += factor * partial[a.value_dim + 1];
    int64_t i = 0;
    for (; i + kLanes <= a.value_dim; i += kLanes) {
      store(sums + i, fma(weight, load(partial + i), load(sums + i)));
    }
    if (i < a.value_dim) {
      const int rest = static_cast<int>(a.value_dim - i);
      store_first(
          sums + i, fma(weight, load_first(partial + i, rest), load_first(sums + i, rest)), rest);
    }
  }
  store_out<T>(a,
               sums,
               scale_of_sums<T>(a, head, largest, total),
               r.first_token * a.out_token_stride + head * a.out_head_stride);
}

template <typename T>
void run_merge_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& p = *static_cast<const PlannedAttentionArguments*>(args);
  const AttentionKernelArguments& a = p.call;
  const AttentionPlan plan(p.plan);
  if (plan.header.num_parts == 0 || !plan.fits(a)) return;
  const int64_t heads = a.kv_heads * a.group_size;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    for (int64_t unit = block; unit < plan.header.num_reqs * heads; unit += p.grid_size) {
      const int64_t request = unit / heads;
      const PlannedRequest& r = plan.requests[request];
      if (r.first_part < 0 || !plan.fits(a, request)) continue;
      merge_parts<T>(p, r, unit % heads, ceil_div(r.seq_len, plan.header.positions_per_part));
    }
  }
}
