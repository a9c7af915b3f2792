// Attention of few tokens, where one row can be most of the work: several threads share the
// segments of a long context. The contexts are read when the work runs, so every thread computes
// the same list of work for itself, and a captured launch serves any batch of its shape.
//
// The list has units in the order job, key/value head, segment. A unit is one segment of a job that
// is divided, or a whole job that is not. Where two heads may take turns, the same unit of both
// heads follows each other in the list for most segments. A thread takes the units in its share of
// the positions of all units. For a job that is divided, the thread that finishes the last segment
// adds all segments in their order. No thread waits for another thread.

/// A job is divided if it is more than a 128th of the work. Most machines have fewer than 128
/// threads, so smaller jobs keep all threads busy without being divided.
constexpr int64_t kMostDividedUnits = 128;
/// The fixed cost of a unit, measured in positions.
constexpr int64_t kPositionsPerUnit = 64;

/// Some tokens of one request, for one key/value head or for all.
struct AttentionJob {
  int64_t first_token = 0;
  int64_t end = 0;        // of the tokens
  int64_t request = -1;   // -1: padding, or tokens that see no position
  int64_t query_end = 0;  // of the request
  int64_t begin = 0;      // the positions that some token sees
  int64_t context = 0;
  // The index of the sums of its first segment; -1: the job is not divided.
  int64_t first_part = -1;

  int64_t first_segment() const { return begin / kAttentionSegment; }
  int64_t num_segments() const { return ceil_div(context, kAttentionSegment) - first_segment(); }
  int64_t weight() const { return context > begin ? context - begin + kPositionsPerUnit : 1; }
  /// The weights of the segments of a job add up to the weight of the job.
  int64_t weight_of(int64_t segment) const {
    const int64_t from = max_of(begin, segment * kAttentionSegment);
    const int64_t to = min_of(context, (segment + 1) * kAttentionSegment);
    return to - from + (segment == first_segment() ? kPositionsPerUnit : 0);
  }
  /// Two heads take turns in twice this number of segments, the first ones of the job. So two
  /// threads that share two heads have as many of these segments each; the other segments are
  /// divided by heads.
  int64_t half_of_segments_in_turns() const {
    const int64_t segments = num_segments();
    const int64_t missing = segments * kAttentionSegment - (context - begin);
    // The second thread would have fewer positions than the first.
    const bool is_even = segments % 2 == 0 && 16 * missing <= context - begin;
    return is_even ? segments / 2 : (segments - 1) / 2;
  }
};

/// Iterates over the jobs of a launch.
class AttentionJobs {
 public:
  explicit AttentionJobs(const SplitAttentionArguments& p)
      : p_(p),
        num_scheduled_(
            p.call.num_reqs == 0
                ? 0
                : max_of(0, min_of(p.call.num_tokens, p.call.query_start_loc[p.call.num_reqs]))) {}

  bool next(AttentionJob& job) {
    const AttentionKernelArguments& a = p_.call;
    if (token_ >= a.num_tokens) return false;
    job = {};
    job.first_token = token_;
    job.end = min_of(token_ + p_.tokens_per_job, a.num_tokens);
    token_ = job.end;
    if (job.first_token >= num_scheduled_) return true;
    while (a.query_start_loc[request_ + 1] <= job.first_token) ++request_;
    job.request = request_;
    job.query_end = a.query_start_loc[request_ + 1];
    const AttentionRows rows = rows_of(a, job, 0);
    job.context = min_of(a.seq_lens[request_], rows.context(rows.num_tokens - 1));
    if (job.context > 0) job.begin = max_of(0, rows.window_begin(0));
    return true;
  }

  /// Returns the rows of a job for all heads.
  static AttentionRows rows_of(const AttentionKernelArguments& a,
                               const AttentionJob& job,
                               int64_t kv_head) {
    const int64_t later_tokens = sees_all(a) ? 0 : job.query_end - job.first_token - 1;
    return {a,
            job.request,
            kv_head,
            job.first_token,
            a.seq_lens[job.request] - later_tokens,
            static_cast<int>(job.end - job.first_token),
            static_cast<int>(kv_head * a.group_size),
            static_cast<int>(a.group_size)};
  }

 private:
  const SplitAttentionArguments& p_;
  int64_t num_scheduled_;
  int64_t token_ = 0;
  int64_t request_ = 0;
};

/// The sums, largest score and total of a segment of one row.
inline float* sums_of_segment(const SplitAttentionArguments& p,
                              const AttentionJob& job,
                              int64_t segment,
                              int64_t token,
                              int64_t head) {
  const AttentionKernelArguments& a = p.call;
  const int64_t part = job.first_part + segment - job.first_segment();
  const int64_t row = part * p.tokens_per_job + token - job.first_token;
  return p.sums + (row * a.kv_heads * a.group_size + head) * (a.value_dim + 2);
}

/// Writes the state after a segment of some rows of a job.
inline void store_segment(const SplitAttentionArguments& p,
                          const AttentionJob& job,
                          const AttentionRows& rows,
                          int64_t segment,
                          const AttentionState& state) {
  const int64_t value_dim = p.call.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    float* to = sums_of_segment(p,
                                job,
                                segment,
                                rows.first_token + r / rows.num_heads,
                                rows.first_head + r % rows.num_heads);
    __builtin_memcpy(
        to, state.sums + r * value_dim, static_cast<size_t>(value_dim) * sizeof(float));
    to[value_dim] = state.maxima[r];
    to[value_dim + 1] = state.totals[r];
  }
}

/// Computes one segment of some rows of a job.
template <typename T>
inline void attend_segment_of_rows(const SplitAttentionArguments& p,
                                   const AttentionJob& job,
                                   const AttentionRows& rows,
                                   int64_t segment,
                                   AttentionState& state) {
  const int64_t begin = max_of(segment * kAttentionSegment, rows.window_begin(0));
  const int64_t end = min_of((segment + 1) * kAttentionSegment, rows.context(rows.num_tokens - 1));
  if (begin >= end) return;
  begin_states(rows, state);
  attend_positions<T>(rows, state, begin, end);
  store_segment(p, job, rows, segment, state);
}

template <typename T>
inline void attend_segment(const SplitAttentionArguments& p,
                           const AttentionJob& job,
                           int64_t kv_head,
                           int64_t segment) {
  const AttentionKernelArguments& a = p.call;
  AttentionState state;
  const int64_t heads_at_once = min_of(a.group_size, rows_at_once<T>(a));
  const int64_t tokens_at_once = max_of(1, rows_at_once<T>(a) / a.group_size);
  for (int64_t token = job.first_token; token < job.end; token += tokens_at_once) {
    for (int64_t head = 0; head < a.group_size; head += heads_at_once) {
      AttentionRows rows = AttentionJobs::rows_of(a, job, kv_head);
      rows.first_context = rows.own_context(static_cast<int>(token - job.first_token));
      rows.first_token = token;
      rows.num_tokens = static_cast<int>(min_of(tokens_at_once, job.end - token));
      rows.first_head += static_cast<int>(head);
      rows.num_heads = static_cast<int>(min_of(heads_at_once, a.group_size - head));
      attend_segment_of_rows<T>(p, job, rows, segment, state);
    }
  }
}

/// Adds up the segments of all rows of a job and one key/value head, and writes the results.
template <typename T>
inline void add_segments_of_job(const SplitAttentionArguments& p,
                                const AttentionJob& job,
                                int64_t kv_head) {
  const AttentionKernelArguments& a = p.call;
  const AttentionRows rows = AttentionJobs::rows_of(a, job, kv_head);
  for (int row = 0; row < rows.num_tokens * rows.num_heads; ++row) {
    const int token = row / rows.num_heads;
    const int64_t head = rows.first_head + row % rows.num_heads;
    float sums[kMaxAttentionHeadDim];
    float largest = 0;
    float total = 0;
    for (int64_t i = 0; i < job.num_segments(); ++i) {
      const int64_t segment = job.first_segment() + i;
      const SegmentView view = segment_view(rows, token, segment);
      if (view == SegmentView::none) continue;
      const float* from = sums_of_segment(p, job, segment, job.first_token + token, head);
      if (view == SegmentView::later) {
        add_segment(
            sums, largest, total, from, from[a.value_dim], from[a.value_dim + 1], a.value_dim);
      } else {
        __builtin_memcpy(sums, from, static_cast<size_t>(a.value_dim) * sizeof(float));
        largest = from[a.value_dim];
        total = from[a.value_dim + 1];
      }
    }
    store_out<T>(a, sums, scale_of_sums<T>(a, head, largest, total), rows.out_offset(row));
  }
}

/// The thread that finishes the last segment of a job adds the sums of all its segments.
template <typename T>
inline void finish_segment(const SplitAttentionArguments& p,
                           const AttentionJob& job,
                           int64_t kv_head) {
  int32_t* counter = p.counters + job.first_part * p.call.kv_heads + kv_head;
  const int32_t before = __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
  if (before + 1 < job.num_segments()) return;
  __atomic_store_n(counter, 0, __ATOMIC_RELAXED);  // for the next launch
  add_segments_of_job<T>(p, job, kv_head);
}

template <typename T>
inline void attend_job(const SplitAttentionArguments& p, const AttentionJob& job, int64_t kv_head) {
  if (job.request < 0) return zero_rows<T>(p.call, kv_head, job.first_token, job.end);
  attend_request<T>(p.call, job.request, job.query_end, kv_head, job.first_token, job.end);
}

/// The units of a thread: those whose middle lies in the thread's share of the weights of all
/// units. A unit whose middle lies on the boundary of two shares belongs to the earlier one.
class ShareOfUnits {
 public:
  ShareOfUnits(int64_t total, device::BlockRange blocks, int64_t grid_size)
      : from_(kParts * total * blocks.begin),
        to_(kParts * total * blocks.end),
        grid_size_(grid_size) {}

  bool has_next(int64_t weight) {
    const int64_t middle = (kParts * start_ + kParts / 2 * weight - weight) * grid_size_;
    start_ += weight;
    return middle >= from_ && middle < to_;
  }

 private:
  static constexpr int64_t kParts = 16;  // of a weight
  int64_t from_;
  int64_t to_;
  int64_t grid_size_;
  int64_t start_ = 0;
};

/// Whether two neighbouring key/value heads take turns on a thread that has both.
template <typename T>
inline bool heads_take_turns([[maybe_unused]] const SplitAttentionArguments& p) {
#ifdef REPRISE_ATTENDS_IN_PAIRS
  if constexpr (__is_same(T, BFloat16)) {
    return p.tokens_per_job == 1 && p.call.kv_heads % 2 == 0 && PairAttention::fits_turns(p.call);
  }
#endif
  return false;
}

/// Computes positions [begin, end) for the heads kv_head and kv_head + 1, and calls `finish(rows,
/// state)` for each. \pre heads_take_turns(p)
template <typename Finish>
inline void attend_two_heads([[maybe_unused]] const SplitAttentionArguments& p,
                             [[maybe_unused]] const AttentionJob& job,
                             [[maybe_unused]] int64_t kv_head,
                             [[maybe_unused]] int64_t begin,
                             [[maybe_unused]] int64_t end,
                             [[maybe_unused]] const Finish& finish) {
#ifdef REPRISE_ATTENDS_IN_PAIRS
  AttentionState states[2];
  const AttentionRows heads[2] = {AttentionJobs::rows_of(p.call, job, kv_head),
                                  AttentionJobs::rows_of(p.call, job, kv_head + 1)};
  for (int h = 0; h < 2; ++h) begin_states(heads[h], states[h]);
  attend_in_turns(heads, states, begin, end);
  for (int h = 0; h < 2; ++h) finish(heads[h], states[h]);
#endif
}

/// Computes a job that is not divided, for one head, or for two that may take turns.
template <typename T>
inline void attend_share_of_job(const SplitAttentionArguments& p,
                                const AttentionJob& job,
                                int64_t kv_head,
                                int64_t heads,
                                ShareOfUnits& share) {
  bool has[2] = {};
  for (int64_t h = 0; h < heads; ++h) has[h] = share.has_next(job.weight());
  if (has[0] && has[1] && job.begin < job.context && job.num_segments() == 1) {
    attend_two_heads(
        p,
        job,
        kv_head,
        job.begin,
        job.context,
        [](const AttentionRows& rows, const AttentionState& state) { store_rows<T>(rows, state); });
    return;
  }
  for (int64_t h = 0; h < heads; ++h) {
    if (has[h]) attend_job<T>(p, job, kv_head + h);
  }
}

/// Computes a segment of a job that is divided, for one head, or for two that may take turns.
template <typename T>
inline void attend_share_of_segment(const SplitAttentionArguments& p,
                                    const AttentionJob& job,
                                    int64_t kv_head,
                                    int64_t heads,
                                    int64_t segment,
                                    ShareOfUnits& share) {
  bool has[2] = {};
  for (int64_t h = 0; h < heads; ++h) has[h] = share.has_next(job.weight_of(segment));
  if (has[0] && has[1]) {
    attend_two_heads(p,
                     job,
                     kv_head,
                     max_of(job.begin, segment * kAttentionSegment),
                     min_of(job.context, (segment + 1) * kAttentionSegment),
                     [&](const AttentionRows& rows, const AttentionState& state) {
                       store_segment(p, job, rows, segment, state);
                     });
  } else {
    for (int64_t h = 0; h < heads; ++h) {
      if (has[h]) attend_segment<T>(p, job, kv_head + h, segment);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    if (has[h]) finish_segment<T>(p, job, kv_head + h);
  }
}

/// Goes over all segments of a job that is divided.
template <typename T>
inline void attend_share_of_segments(const SplitAttentionArguments& p,
                                     const AttentionJob& job,
                                     int64_t kv_head,
                                     int64_t heads,
                                     ShareOfUnits& share) {
  const int64_t first = job.first_segment();
  const int64_t half = heads == 2 ? job.half_of_segments_in_turns() : 0;
  for (int64_t i = 0; i < half; ++i) {
    attend_share_of_segment<T>(p, job, kv_head, 2, first + i, share);
  }
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 2 * half; i < job.num_segments(); ++i) {
      attend_share_of_segment<T>(p, job, kv_head + h, 1, first + i, share);
    }
  }
  for (int64_t i = half; i < 2 * half; ++i) {
    attend_share_of_segment<T>(p, job, kv_head, 2, first + i, share);
  }
}

template <typename T>
void run_split_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& p = *static_cast<const SplitAttentionArguments*>(args);
  const int64_t kv_heads = p.call.kv_heads;
  int64_t total = 0;
  AttentionJob job;
  for (AttentionJobs jobs(p); jobs.next(job);) total += job.weight() * kv_heads;
  ShareOfUnits share(total, blocks, p.grid_size);
  const int64_t heads = heads_take_turns<T>(p) ? 2 : 1;
  int64_t num_parts = 0;
  for (AttentionJobs jobs(p); jobs.next(job);) {
    const int64_t segments = job.num_segments();
    const bool is_divided = segments > 1 && job.weight() * kMostDividedUnits > total &&
                            num_parts + segments <= p.most_parts;
    if (is_divided) {
      job.first_part = num_parts;
      num_parts += segments;
    }
    for (int64_t kv_head = 0; kv_head < kv_heads; kv_head += heads) {
      if (is_divided) {
        attend_share_of_segments<T>(p, job, kv_head, heads, share);
      } else {
        attend_share_of_job<T>(p, job, kv_head, heads, share);
      }
    }
  }
}
