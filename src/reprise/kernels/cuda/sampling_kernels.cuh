#pragma once

#include "reprise/kernels/cuda/sampling_select.cuh"

// Several blocks sample the token of one row of logits, in three launches. In each, a row's blocks
// look at a part of the vocabulary each, and the last one to finish goes on with what they found.
//
// 1. sample_largest: adjusts and penalises the logits and finds the largest one. A greedy row is
//    done.
// 2. sample_weights: weights of tokens by their distance to the largest logit. A row without top_k
//    and top_p draws its token; for the others the last block finds how far away tokens can be and
//    still be chosen, to within a bucket.
// 3. sample_candidates: lists the tokens that are near enough, a few of the vocabulary. The last
//    block chooses among them.
namespace reprise::kernels::cuda {

/// The part of a row that this block processes.
struct RowPart {
  int64_t row;
  int part;
  int64_t first;  // token
  int64_t end;

  REPRISE_DEVICE explicit RowPart(const CudaSamplingArguments& a)
      : row(block_index() / static_cast<uint32_t>(a.num_parts)),
        part(static_cast<int>(block_index() % static_cast<uint32_t>(a.num_parts))),
        first(part * a.part_size),
        end(first + a.part_size < a.vocab_size ? first + a.part_size : a.vocab_size) {}
};

/// The logits of neighbouring tokens; -inf beyond the end.
struct FourLogits {
  float of[kTokensAtOnce];
};

REPRISE_DEVICE FourLogits load_logits(const float* logits, int64_t id, int64_t end) {
  FourLogits four;
  const float* from = logits + id;
  if (id + kTokensAtOnce <= end && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
    const Words4 words = load_words(from);
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) four.of[j] = float_of(words.word[j]);
    return four;
  }
  REPRISE_UNROLL
  for (int j = 0; j < kTokensAtOnce; ++j) four.of[j] = id + j < end ? from[j] : -__builtin_inff();
  return four;
}

/// Calls act(id, logits) for the tokens of the part, four neighbours at a time; all threads of the
/// block call it equally often, so ids may lie beyond the end. The next logits are loaded before
/// the call, because a load takes longer than it.
template <typename Act>
REPRISE_DEVICE void each_four(const RowPart& part, const float* logits, const Act& act) {
  constexpr int kStride = kBins * kTokensAtOnce;
  int64_t id = part.first + thread_index() * kTokensAtOnce;
  FourLogits now = load_logits(logits, id, part.end);
  for (int64_t first = part.first; first < part.end; first += kStride, id += kStride) {
    const FourLogits next = load_logits(logits, id + kStride, part.end);
    act(id, now);
    now = next;
  }
}

/// Whether this is the last of the row's blocks. If so, it sees what the others wrote; it must read
/// this with load_fresh(), because the first-level cache may hold older values.
REPRISE_DEVICE bool is_last_of_row(const CudaSamplingArguments& a, const RowPart& part) {
  fence();
  sync_block();
  auto* is_last = reinterpret_cast<int*>(shared_memory());
  if (thread_index() == 0) {
    int32_t* finished = &a.states[part.row].num_finished;
    *is_last = atomic_add(finished, 1) == a.num_parts - 1 ? 1 : 0;
    if (*is_last != 0) *finished = 0;  // for the next launch
  }
  sync_block();
  const bool result = *is_last != 0;
  sync_block();
  if (result) fence();
  return result;
}

/// The result of the part whose number is that of this thread; 0 if there is no such part.
REPRISE_DEVICE uint64_t result_of_part(const CudaSamplingArguments& a, int64_t row) {
  return thread_index() < a.num_parts ? load_fresh(a.parts + row * a.num_parts + thread_index())
                                      : 0;
}

/// The tokens of one row that may still be drawn.
struct Candidates {
  const float* logits;
  const int32_t* ids;  // nullptr: all tokens
  int64_t count;
  double max;
  double scale;  // exponent of 2 per unit of a logit
  double min_p_edge;
  uint64_t smallest_key;

  REPRISE_DEVICE Candidates(const CudaSamplingArguments& a,
                            const SamplingRow& row,
                            const SamplingState& state)
      : logits(a.logits + row.logits_row * a.vocab_size),
        ids(nullptr),
        count(a.vocab_size),
        max(static_cast<double>(logits[id_of(state.best)])),
        scale(state.scale),
        min_p_edge(row.min_p_edge),
        smallest_key(0) {}

  [[nodiscard]] REPRISE_DEVICE int64_t id(int64_t i) const {
    return ids == nullptr ? i : int64_t{load_fresh(ids + i)};
  }
  [[nodiscard]] REPRISE_DEVICE double distance(float logit) const {
    return static_cast<double>(logit) - max;
  }
  /// Whether token `id` with this logit may be drawn. A logit of -inf may not.
  [[nodiscard]] REPRISE_DEVICE bool has(int64_t id, float logit) const {
    return token_key(logit, id) >= smallest_key && distance(logit) >= min_p_edge &&
           distance(logit) * scale > -kWeightBits - 1;
  }
  [[nodiscard]] REPRISE_DEVICE bool has(int64_t id) const { return has(id, logits[id]); }
  [[nodiscard]] REPRISE_DEVICE uint64_t weight(int64_t id, float logit) const {
    return has(id, logit) ? weight_of(distance(logit) * scale) : 0;
  }
  [[nodiscard]] REPRISE_DEVICE uint64_t weight(int64_t id) const { return weight(id, logits[id]); }
  /// Increases with the distance to the largest logit. \pre has() of the token
  [[nodiscard]] REPRISE_DEVICE int bucket(float logit) const {
    return static_cast<int>(distance(logit) * scale *
                            (-static_cast<double>(kSamplingBuckets) / (kWeightBits + 2)));
  }
  /// The total weight of this thread's tokens.
  [[nodiscard]] REPRISE_DEVICE uint64_t weight_of_thread() const {
    uint64_t sum = 0;
    for (int64_t i = thread_index(); i < count; i += kBins) sum += weight(id(i));
    return sum;
  }
};

/// Removes the tokens that are not among the k likeliest.
REPRISE_DEVICE void keep_top_k(Candidates& candidates, int k) {
  candidates.smallest_key = select(
      candidates.count, kTokenBits + 32, static_cast<uint64_t>(k), Selected::bound, [&](int64_t i) {
        const int64_t id = candidates.id(i);
        return WeightedKey{token_key(candidates.logits[id], id),
                           candidates.has(id) ? uint64_t{1} : uint64_t{0}};
      });
}

/// The weight that the likeliest tokens must have together, of `total`.
REPRISE_DEVICE uint64_t weight_of_top_p(float top_p, uint64_t total) {
  const auto wanted =
      static_cast<uint64_t>(static_cast<double>(top_p) * static_cast<double>(total));
  if (wanted < 1) return 1;
  return wanted > total ? total : wanted;
}

/// Keeps the smallest set of likeliest tokens with at least the weight `wanted`.
REPRISE_DEVICE void keep_top_p(Candidates& candidates, uint64_t wanted) {
  const uint64_t bound =
      select(candidates.count, kTokenBits + 32, wanted, Selected::bound, [&](int64_t i) {
        const int64_t id = candidates.id(i);
        return WeightedKey{token_key(candidates.logits[id], id), candidates.weight(id)};
      });
  if (bound > candidates.smallest_key) candidates.smallest_key = bound;
}

/// The first token, in the order of ids, at which the sum of weights exceeds `target`.
REPRISE_DEVICE int64_t draw(const Candidates& candidates, uint64_t target) {
  return id_of(select(candidates.count, kTokenBits, target + 1, Selected::key, [&](int64_t i) {
    const int64_t id = candidates.id(i);
    return WeightedKey{token_key(0, id) & ((uint64_t{1} << kTokenBits) - 1), candidates.weight(id)};
  }));
}

/// Converts the row's uniform random number to a weight below `total`.
REPRISE_DEVICE uint64_t target_of(const SamplingRow& row, uint64_t total) {
  const auto bits = philox_block(row.seed, row.position, kTokenStream);
  const auto target =
      static_cast<uint64_t>(uniform_from_bits(bits[0], bits[1]) * static_cast<double>(total));
  return target >= total ? total - 1 : target;
}

/// `total`: the sum of the weights of the whole row.
REPRISE_DEVICE int64_t choose(Candidates& candidates, const SamplingRow& row, uint64_t total) {
  if (row.top_k > 0 && row.top_k < candidates.count) keep_top_k(candidates, row.top_k);
  if (row.top_k > 0) total = sum_of_block(candidates.weight_of_thread());
  if (row.top_p < 1) {
    keep_top_p(candidates, weight_of_top_p(row.top_p, total));
    total = sum_of_block(candidates.weight_of_thread());
  }
  return draw(candidates, target_of(row, total));
}

/// Adds the adjustments to the logits of the part. One thread adds all adjustments of a token, in
/// the order of the list.
REPRISE_DEVICE void adjust(const CudaSamplingArguments& a,
                           const SamplingRow& row,
                           const RowPart& part,
                           float* logits) {
  for (int i = 0; i < row.num_adjustments; ++i) {
    const LogitAdjustment& adjustment = a.adjustments[row.first_adjustment + i];
    const int64_t id = adjustment.token_id;
    if (id >= part.first && id < part.end && id % kBins == thread_index()) {
      logits[id] += adjustment.value;
    }
  }
}

/// The logit of a token that occurred, `num_chosen` times in the output. The operations are those
/// of sampling::LogitAdjuster, so both give the same bits. A logit of +inf stays: it ends the
/// request.
REPRISE_DEVICE float penalised(const SamplingRow& row, float logit, uint32_t num_chosen) {
  constexpr float kLargest = 3.4028235e38F;
  if (logit > 0.0F && logit <= kLargest) {
    const float divided = logit / row.repetition_penalty;
    logit = divided < kLargest ? divided : kLargest;
  } else if (!(logit > 0.0F)) {
    logit *= row.repetition_penalty;
  }
  if (num_chosen == 0) return logit;
  logit -= row.frequency_penalty * static_cast<float>(num_chosen);
  return logit - row.presence_penalty;
}

/// Penalises the part's tokens that occurred.
REPRISE_DEVICE void penalise(const CudaSamplingArguments& a,
                             const SamplingRow& row,
                             const RowPart& part,
                             float* logits) {
  const uint32_t* counts = a.counts + row.count_slot * a.count_stride;
  // Counts beyond the vocabulary are 0.
  for (int64_t id = part.first + thread_index() * kTokensAtOnce; id < part.end;
       id += kBins * kTokensAtOnce) {
    const Words4 four = load_words(counts + id);
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) {
      if (four.word[j] == 0) continue;
      logits[id + j] = penalised(row, logits[id + j], four.word[j] & ~kSeenToken);
    }
  }
}

/// Writes the token of a row, and counts it. One thread of the row does this, once in all launches.
REPRISE_DEVICE void finish_row(const CudaSamplingArguments& a,
                               const SamplingRow& row,
                               int64_t part_row,
                               int64_t token) {
  a.tokens[part_row] = static_cast<int32_t>(token);
  if (row.count_slot >= 0 && token >= 0) a.counts[row.count_slot * a.count_stride + token] += 1;
}

REPRISE_DEVICE bool has_candidates(const SamplingRow& row) {
  return row.top_k > 0 || row.top_p < 1;
}

/// Whether a later launch chooses the token of this row.
REPRISE_DEVICE bool is_drawn(const SamplingRow& row, uint64_t best) {
  return row.temperature > 0 && best != kBrokenLogit;
}

REPRISE_DEVICE void sample_largest(const CudaSamplingArguments& a) {
  const RowPart part(a);
  const SamplingRow row = a.rows[part.row];
  float* logits = a.logits + row.logits_row * a.vocab_size;
  if (row.num_adjustments > 0) {
    adjust(a, row, part, logits);
    sync_block();
  }
  if (row.count_slot >= 0) {
    penalise(a, row, part, logits);
    sync_block();
  }
  uint64_t largest = 0;
  each_four(part, logits, [&](int64_t first, const FourLogits& four) {
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) {
      if (first + j >= part.end) continue;
      // A comparison with NaN is false, so a NaN counts as not finite, like +inf.
      const uint64_t key =
          four.of[j] <= 3.4028235e38F ? token_key(four.of[j], first + j) : kBrokenLogit;
      if (key > largest) largest = key;
    }
  });
  if (has_candidates(row) || row.num_logprobs > 0) {
    for (int i = part.part * kBins + thread_index(); i < kSamplingBuckets;
         i += a.num_parts * kBins) {
      a.histograms[part.row * kSamplingBuckets + i] = 0;
    }
  }
  largest = largest_of_block(largest);
  if (thread_index() == 0) a.parts[part.row * a.num_parts + part.part] = largest;
  if (!is_last_of_row(a, part)) return;
  uint64_t best = largest_of_block(result_of_part(a, part.row));
  if (thread_index() != 0) return;
  int64_t token = id_of(best);
  if (best == kBrokenLogit) {
    token = kNonFiniteLogits;
  } else if (load_fresh(logits + token) < -3.4028235e38F) {
    token = kNoAllowedToken;
    best = kBrokenLogit;
  }
  SamplingState& state = a.states[part.row];
  state.best = best;
  // A division is a call that saves registers, so it is at a place where few registers are in use.
  if (is_drawn(row, best)) {
    state.scale = 1.4426950408889634 / static_cast<double>(row.temperature);
  } else {
    finish_row(a, row, part.row, token);
  }
  state.last_bucket = kNoBucket;
  state.num_candidates = 0;
  state.num_likeliest = 0;
}

/// Adds the weights of the part's tokens to the row's histogram: their number, or with top_p alone
/// their weights.
REPRISE_DEVICE void add_to_histogram(const CudaSamplingArguments& a,
                                     const RowPart& part,
                                     const Candidates& candidates,
                                     bool counts_tokens) {
  auto* buckets = reinterpret_cast<uint64_t*>(shared_memory()) + kSelectWords;
  for (int i = thread_index(); i < kSamplingBuckets; i += kBins) buckets[i] = 0;
  sync_block();
  each_four(part, candidates.logits, [&](int64_t first, const FourLogits& four) {
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) {
      const float logit = four.of[j];
      const bool is_one = candidates.has(first + j, logit);
      const uint64_t weight =
          !is_one ? 0 : (counts_tokens ? uint64_t{1} : candidates.weight(first + j, logit));
      add_to_bin(buckets, is_one ? candidates.bucket(logit) : 0, weight);
    }
  });
  sync_block();
  uint64_t* histogram = a.histograms + part.row * kSamplingBuckets;
  for (int i = thread_index(); i < kSamplingBuckets; i += kBins) {
    if (buckets[i] != 0) atomic_add(histogram + i, buckets[i]);
  }
}

/// The result of find_last_bucket(); only thread 0 of the block has it.
struct LastBucket {
  uint64_t total;  // of the histogram
  int bucket;
  bool is_reached;  // the buckets up to this one have the wanted sum
};

/// Finds the first bucket of the row's histogram up to which the sum is wanted_of(total), and
/// empties the histogram.
template <typename WantedOf>
REPRISE_DEVICE LastBucket find_last_bucket(const CudaSamplingArguments& a,
                                           const RowPart& part,
                                           const WantedOf& wanted_of) {
  constexpr int kPerThread = kSamplingBuckets / kBins;
  auto* bins = reinterpret_cast<uint64_t*>(shared_memory());
  uint64_t* histogram = a.histograms + part.row * kSamplingBuckets;
  // The nearest tokens are in the highest bin.
  const int first = (kBins - 1 - thread_index()) * kPerThread;
  uint64_t sum = 0;
  for (int i = 0; i < kPerThread; ++i) sum += load_fresh(histogram + first + i);
  const uint64_t total = sum_of_block(sum);
  sync_block();
  bins[thread_index()] = sum;
  const FoundBin found = find_bin(bins, wanted_of(total));
  LastBucket last{total, kSamplingBuckets - 1, found.bin >= 0};
  if (thread_index() == 0 && last.is_reached) {
    last.bucket = (kBins - 1 - found.bin) * kPerThread;
    for (uint64_t seen = load_fresh(histogram + last.bucket); seen < found.wanted;) {
      seen += load_fresh(histogram + ++last.bucket);
    }
  }
  sync_block();
  // The log-probabilities of the row need it again.
  for (int i = 0; i < kPerThread; ++i) histogram[first + i] = 0;
  return last;
}

/// Finds the bucket that has the least likely token which may be drawn.
REPRISE_DEVICE void bound_candidates(const CudaSamplingArguments& a,
                                     const RowPart& part,
                                     const SamplingRow& row) {
  const LastBucket last = find_last_bucket(a, part, [&](uint64_t total) {
    return row.top_k > 0 ? static_cast<uint64_t>(row.top_k) : weight_of_top_p(row.top_p, total);
  });
  if (thread_index() != 0) return;
  SamplingState& state = a.states[part.row];
  state.total = last.total;
  state.last_bucket = last.bucket;  // the last of all, if fewer than top_k tokens have any weight
}

/// Sums the weights of the part's tokens, segment by segment.
REPRISE_DEVICE void sum_segments(const CudaSamplingArguments& a,
                                 const RowPart& part,
                                 const Candidates& candidates) {
  uint64_t* sums = a.segments + part.row * a.num_segments;
  each_four(part, candidates.logits, [&](int64_t first, const FourLogits& four) {
    uint64_t sum = 0;
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) sum += candidates.weight(first + j, four.of[j]);
    for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (lane_index() == 0 && first < part.end) sums[first / kSegmentTokens] = sum;
  });
}

/// One warp draws a token of the segment that begins at token `first`: the one at which the sum of
/// weights reaches `wanted`. \pre the segment has this weight
REPRISE_DEVICE void draw_from_segment(const CudaSamplingArguments& a,
                                      const RowPart& part,
                                      const Candidates& candidates,
                                      int64_t first,
                                      uint64_t wanted) {
  const int64_t mine = first + lane_index() * kTokensAtOnce;
  const FourLogits four = load_logits(candidates.logits, mine, a.vocab_size);
  uint64_t weights[kTokensAtOnce];
  uint64_t all = 0;
  REPRISE_UNROLL
  for (int j = 0; j < kTokensAtOnce; ++j) {
    weights[j] = candidates.weight(mine + j, four.of[j]);
    all += weights[j];
  }
  const uint64_t own = all;
  uint64_t before = 0;  // of the lanes before this one
  for (int mask = 1; mask < kWarpSize; mask *= 2) {
    const uint64_t other = shuffle_xor(all, mask);
    if ((lane_index() & mask) != 0) before += other;
    all += other;
  }
  if (wanted <= before || wanted > before + own) return;
  int chosen = 0;
  REPRISE_UNROLL
  for (int j = 0; j + 1 < kTokensAtOnce; ++j) {
    before += weights[j];
    if (wanted > before) chosen = j + 1;
  }
  finish_row(a, a.rows[part.row], part.row, mine + chosen);
}

/// Draws the row's token by the weights of all its tokens. The last block does this.
REPRISE_DEVICE void draw_from_segments(const CudaSamplingArguments& a,
                                       const RowPart& part,
                                       const SamplingRow& row,
                                       const Candidates& candidates) {
  auto* bins = reinterpret_cast<uint64_t*>(shared_memory());
  const uint64_t* sums = a.segments + part.row * a.num_segments;
  const int per_thread = (a.num_segments + kBins - 1) / kBins;
  uint64_t sum = 0;
  for (int i = 0; i < per_thread; ++i) {
    const int segment = thread_index() * per_thread + i;
    if (segment < a.num_segments) sum += load_fresh(sums + segment);
  }
  const uint64_t total = sum_of_block(sum);
  sync_block();
  bins[kBins - 1 - thread_index()] = sum;  // the lowest ids are in the highest bin
  const FoundBin found = find_bin(bins, target_of(row, total) + 1);
  if (warp_index() != 0) return;
  int segment = (kBins - 1 - found.bin) * per_thread;
  uint64_t wanted = found.wanted;
  for (uint64_t next = load_fresh(sums + segment); wanted > next;) {
    wanted -= next;
    next = load_fresh(sums + ++segment);
  }
  draw_from_segment(a, part, candidates, int64_t{segment} * kSegmentTokens, wanted);
}

REPRISE_DEVICE void sample_weights(const CudaSamplingArguments& a) {
  const RowPart part(a);
  const SamplingRow& row = a.rows[part.row];  // read again where it is needed, to save registers
  const SamplingState& state = a.states[part.row];
  if (!is_drawn(row, state.best)) return;
  const Candidates candidates(a, row, state);
  if (has_candidates(row)) {
    add_to_histogram(a, part, candidates, row.top_k > 0);
    if (is_last_of_row(a, part)) bound_candidates(a, part, row);
    return;
  }
  sum_segments(a, part, candidates);
  if (is_last_of_row(a, part)) draw_from_segments(a, part, row, candidates);
}

/// Lists the part's candidates in buckets up to the last one, in any order, and counts them. A list
/// that is full leaves the others out.
REPRISE_DEVICE void list_candidates(const CudaSamplingArguments& a,
                                    const RowPart& part,
                                    const Candidates& candidates,
                                    int last_bucket,
                                    int32_t* num_listed) {
  int32_t* list = a.candidates + part.row * kMostCandidates;
  each_four(part, candidates.logits, [&](int64_t first, const FourLogits& four) {
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) {
      const float logit = four.of[j];
      if (!candidates.has(first + j, logit) || candidates.bucket(logit) > last_bucket) continue;
      const int place = atomic_add(num_listed, 1);
      if (place < kMostCandidates) list[place] = static_cast<int32_t>(first + j);
    }
  });
}

REPRISE_DEVICE void sample_candidates(const CudaSamplingArguments& a) {
  const RowPart part(a);
  const SamplingRow row = a.rows[part.row];
  SamplingState& state = a.states[part.row];
  const int last_bucket = state.last_bucket;
  if (last_bucket == kNoBucket) return;
  Candidates candidates(a, row, state);
  list_candidates(a, part, candidates, last_bucket, &state.num_candidates);
  if (!is_last_of_row(a, part)) return;
  const int32_t num_candidates = load_fresh(&state.num_candidates);
  if (num_candidates <= kMostCandidates) {
    candidates.ids = a.candidates + part.row * kMostCandidates;
    candidates.count = num_candidates;
  }
  const int64_t token = choose(candidates, row, state.total);
  if (thread_index() == 0) finish_row(a, row, part.row, token);
}

REPRISE_DEVICE void count_tokens(const CountTokensArguments& a) {
  const int64_t i = int64_t{block_index()} * num_threads() + thread_index();
  if (i >= a.num_tokens) return;
  uint32_t* count = a.counts + a.tokens[i];
  if (a.are_output != 0) {
    atomic_add(reinterpret_cast<int32_t*>(count), 1);
  } else {
    *count = kSeenToken;  // the output is counted later
  }
}

/// A row without a token writes token 0: its request ends, and the result of the next step is
/// dropped.
REPRISE_DEVICE void write_tokens(const WriteTokensArguments& a) {
  const int64_t i = int64_t{block_index()} * num_threads() + thread_index();
  if (i >= a.num_places) return;
  const TokenPlace place = a.places[i];
  const int32_t token = a.tokens[place.row];
  a.ids[place.index] = token < 0 ? 0 : token;
}

}  // namespace reprise::kernels::cuda
