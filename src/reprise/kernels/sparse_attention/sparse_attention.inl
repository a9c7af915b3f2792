// Attention of a token over the positions that it chooses. Source: DeepSeek-V3.2-Exp (2025),
// section 2.1. The index score of a position is the sum over heads of weight * relu(query . key).
// Where scores are equal, the earlier position is chosen.

/// The best positions so far: a heap whose first entry is the worst of these.
class ChosenPositions {
 public:
  explicit ChosenPositions(int64_t most) : most_(most) {}

  void offer(float score, int32_t position) {
    const Entry entry = {score, position};
    if (count_ < most_) {
      entries_[count_++] = entry;
      rise(count_ - 1);
    } else if (is_worse(entries_[0], entry)) {
      entries_[0] = entry;
      sink(count_);
    }
  }
  /// Writes the positions in ascending order. offer() must not be called afterwards.
  int64_t take(int32_t* positions) {
    // Ordered by position, the entries are a heap whose first entry is the largest position.
    for (int64_t i = 0; i < count_; ++i) entries_[i].score = 0;
    for (int64_t i = 1; i < count_; ++i) rise(i);
    for (int64_t size = count_; size > 0; --size) {
      positions[size - 1] = entries_[0].position;
      entries_[0] = entries_[size - 1];
      sink(size - 1);
    }
    return count_;
  }

 private:
  struct Entry {
    float score;
    int32_t position;
  };
  static bool is_worse(const Entry& a, const Entry& b) {
    return a.score < b.score || (a.score == b.score && a.position > b.position);
  }
  void swap(int64_t a, int64_t b) {
    const Entry entry = entries_[a];
    entries_[a] = entries_[b];
    entries_[b] = entry;
  }
  void rise(int64_t index) {
    while (index > 0 && is_worse(entries_[index], entries_[(index - 1) / 2])) {
      swap(index, (index - 1) / 2);
      index = (index - 1) / 2;
    }
  }
  void sink(int64_t size) {
    int64_t index = 0;
    while (2 * index + 1 < size) {
      int64_t child = 2 * index + 1;
      if (child + 1 < size && is_worse(entries_[child + 1], entries_[child])) ++child;
      if (!is_worse(entries_[child], entries_[index])) return;
      swap(index, child);
      index = child;
    }
  }

  int64_t most_;
  int64_t count_ = 0;
  Entry entries_[kMaxSparsePositions];
};

/// Computes one token with some of its heads.
template <typename T>
class SparseAttention {
 public:
  SparseAttention(const SparseAttentionArguments& a, int64_t token, int64_t first_head)
      : a_(a),
        token_(token),
        first_head_(first_head),
        num_heads_(min_of(kSparseHeads, a.heads - first_head)) {
    while (request_ < a.num_reqs && a.query_start_loc[request_ + 1] <= token) ++request_;
  }

  void run() {
    if (request_ == a_.num_reqs) return store_zeros();  // padding
    const int64_t behind = a_.query_start_loc[request_ + 1] - 1 - token_;
    const int64_t context = a_.seq_lens[request_] - behind;
    const int64_t count = choose(context);
    begin_softmax();
    for (int64_t first = 0; first < count; first += kChunk) {
      attend(positions_ + first, static_cast<int>(min_of(kChunk, count - first)));
    }
    store_results();
  }

 private:
  static constexpr int64_t kKeys = kChunk;

  const T* row(int64_t position) const {
    const int64_t block =
        a_.block_table[request_ * a_.block_table_stride + position / a_.block_size];
    return static_cast<const T*>(a_.kv_cache) +
           (block * a_.block_size + position % a_.block_size) * (a_.head_dim + a_.index_dim);
  }

  int64_t choose(int64_t context) {
    if (context <= a_.top_k) {
      for (int64_t i = 0; i < context; ++i) positions_[i] = static_cast<int32_t>(i);
      return context;
    }
    ChosenPositions chosen(a_.top_k);
    const T* queries[kMaxIndexHeads];
    for (int64_t head = 0; head < a_.index_heads; ++head) {
      queries[head] = static_cast<const T*>(a_.index_q) + token_ * a_.index_q_token_stride +
                      head * a_.index_q_head_stride;
    }
    for (int64_t first = 0; first < context; first += kKeys) {
      const int64_t count = min_of(kKeys, context - first);
      const T* keys[kKeys];
      for (int64_t i = 0; i < count; ++i) keys[i] = row(first + i) + a_.head_dim;
      float scores[kMaxIndexHeads * kKeys];
      dot_products<T>(queries, a_.index_heads, keys, count, a_.index_dim, scores, kKeys);
      for (int64_t i = 0; i < count; ++i) {
        chosen.offer(index_score(scores + i), static_cast<int32_t>(first + i));
      }
    }
    return chosen.take(positions_);
  }
  /// Returns the score of one key. Its products with the queries of all heads are kKeys apart.
  float index_score(const float* products) const {
    const T* weights = static_cast<const T*>(a_.index_weights) + token_ * a_.index_weights_stride;
    float score = 0;
    for (int64_t head = 0; head < a_.index_heads; ++head) {
      const float product = products[head * kKeys];
      score += to_float(weights[head]) * (product > 0 ? product : 0.0F);
    }
    return score;
  }

  void begin_softmax() {
    for (int64_t head = 0; head < num_heads_; ++head) {
      queries_[head] = static_cast<const T*>(a_.q) + token_ * a_.q_token_stride +
                       (first_head_ + head) * a_.q_head_stride;
      largest_[head] = -__builtin_inff();
      totals_[head] = 0;
    }
    __builtin_memset(sums_, 0, static_cast<size_t>(num_heads_ * a_.value_dim) * sizeof(float));
  }
  void attend(const int32_t* positions, int count) {
    const T* keys[kKeys];
    for (int i = 0; i < count; ++i) keys[i] = row(positions[i]);
    alignas(64) float scores[kSparseHeads * kKeys];
    dot_products<T>(queries_, num_heads_, keys, count, a_.head_dim, scores, kKeys);
    for (int64_t head = 0; head < num_heads_; ++head) {
      float* weights = scores + head * kKeys;
      const float correction = update_softmax_of(head, weights, count);
      add_values(keys, weights, count, correction, sums_ + head * a_.value_dim);
    }
  }
  /// Replaces the scores by the weights of the positions, and returns the factor of earlier sums.
  float update_softmax_of(int64_t head, float* scores, int count) {
    float largest = largest_[head];
    for (int i = 0; i < count; ++i) {
      scores[i] *= a_.scale;
      if (scores[i] > largest) largest = scores[i];
    }
    alignas(64) float correction[kLanes];
    store(correction, exp(broadcast(largest_[head] - largest)));
    for (int i = count; i < kKeys; ++i) scores[i] = -__builtin_inff();
    Vec total = zero();
    for (int i = 0; i < kKeys; i += kLanes) {
      const Vec weight = exp(sub(load(scores + i), broadcast(largest)));
      store(scores + i, weight);
      total = add(total, weight);
    }
    largest_[head] = largest;
    totals_[head] = totals_[head] * correction[0] + sum(total);
    return correction[0];
  }
  void add_values(
      const T* const* rows, const float* weights, int count, float correction, float* sums) const {
    for (int64_t i = 0; i < a_.value_dim; i += kLanes) {
      const int lanes = lanes_at(i, a_.value_dim);
      Vec total = mul(load_some(sums + i, lanes), broadcast(correction));
      for (int p = 0; p < count; ++p) {
        total = fma(load_some(rows[p] + i, lanes), broadcast(weights[p]), total);
      }
      store_some(sums + i, total, lanes);
    }
  }

  T* result(int64_t head) const {
    return static_cast<T*>(a_.out) + (token_ * a_.heads + first_head_ + head) * a_.value_dim;
  }
  void store_results() const {
    for (int64_t head = 0; head < num_heads_; ++head) {
      const Vec factor = broadcast(1.0F / totals_[head]);
      for (int64_t i = 0; i < a_.value_dim; i += kLanes) {
        const int lanes = lanes_at(i, a_.value_dim);
        store_some(result(head) + i,
                   mul(load_some(sums_ + head * a_.value_dim + i, lanes), factor),
                   lanes);
      }
    }
  }
  void store_zeros() const {
    const auto bytes = static_cast<size_t>(num_heads_ * a_.value_dim) * sizeof(T);
    __builtin_memset(result(0), 0, bytes);
  }

  const SparseAttentionArguments& a_;
  int64_t token_;
  int64_t first_head_;
  int64_t num_heads_;
  int64_t request_ = 0;
  int32_t positions_[kMaxSparsePositions];
  const T* queries_[kSparseHeads];
  float largest_[kSparseHeads];
  float totals_[kSparseHeads];
  alignas(64) float sums_[kSparseHeads * kMaxSparseValueDim];
};

template <typename T>
void run_sparse_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SparseAttentionArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t token = block / a.blocks_per_token;
    SparseAttention<T>(a, token, block % a.blocks_per_token * kSparseHeads).run();
  }
}
