#pragma once

#include "reprise/base/philox.h"
#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/sampling_arguments.h"

// One block samples the token of one row of logits without sorting them.
//
// Tokens are ordered by key: the logit, then the lower id. Weights are integers, so their sums do
// not depend on the order of addition, and a row's token is the same in every run and batch.
// select() answers every question: the k-th largest key, the key at which a share of the weight is
// reached, and the id at which a uniform number falls.
namespace reprise::kernels::cuda {

inline constexpr int kBins = 256;  // equals the number of threads
// The sum does not overflow even if all tokens of the largest vocabulary (row_sampler.h) have the
// largest weight.
inline constexpr int kWeightBits = 44;
inline constexpr uint64_t kBrokenLogit = ~uint64_t{0};  // larger than every key

/// Increases with x, and is the same for both zeros.
REPRISE_DEVICE uint32_t ordered_bits(float x) {
  const uint32_t bits = bits_of(x + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

REPRISE_DEVICE uint64_t token_key(float logit, int64_t id) {
  constexpr uint64_t kLargestId = (uint64_t{1} << kTokenBits) - 1;
  return (uint64_t{ordered_bits(logit)} << kTokenBits) | (kLargestId - static_cast<uint64_t>(id));
}

REPRISE_DEVICE int64_t id_of(uint64_t key) {
  constexpr uint64_t kLargestId = (uint64_t{1} << kTokenBits) - 1;
  return static_cast<int64_t>(kLargestId - (key & kLargestId));
}

/// 2^kWeightBits 2^exponent with 24 significant bits. \pre exponent <= 0, or -inf
REPRISE_DEVICE uint64_t weight_of(double exponent) {
  if (!(exponent > -kWeightBits - 1)) return 0;
  const int whole = static_cast<int>(exponent) - 1;
  const float fraction = static_cast<float>(exponent - whole);  // (0, 1]
  const auto mantissa = static_cast<uint64_t>(exponential_2(fraction) * 0x1.0p23F);
  const int shift = kWeightBits - 23 + whole;
  return shift >= 0 ? mantissa << shift : mantissa >> -shift;
}

/// Combines one value of each thread; all threads get the result. Uses the bins.
template <typename Combine>
REPRISE_DEVICE uint64_t reduce_block(uint64_t value, const Combine& combine) {
  auto* values = reinterpret_cast<uint64_t*>(shared_memory());
  sync_block();
  values[thread_index()] = value;
  sync_block();
  for (int half = kBins / 2; half > 0; half /= 2) {
    if (thread_index() < half) {
      values[thread_index()] = combine(values[thread_index()], values[thread_index() + half]);
    }
    sync_block();
  }
  return values[0];
}

REPRISE_DEVICE uint64_t largest_of_block(uint64_t value) {
  return reduce_block(value, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}
REPRISE_DEVICE uint64_t sum_of_block(uint64_t value) {
  return reduce_block(value, [](uint64_t a, uint64_t b) { return a + b; });
}

/// bins[bin] += weight, for all lanes of a warp. If all lanes have the same bin, one lane adds for
/// all.
REPRISE_DEVICE void add_to_bin(uint64_t* bins, int bin, uint64_t weight) {
  if (warp_all(weight == 0)) return;
  const bool is_common = bin == shuffle_from(bin, 0);
  if (warp_all(weight == 0 || is_common)) {
    for (int mask = 16; mask > 0; mask /= 2) weight += shuffle_xor(weight, mask);
    if (lane_index() == 0) atomic_add(bins + bin, weight);
  } else if (weight != 0) {
    atomic_add(bins + bin, weight);
  }
}

struct WeightedKey {
  uint64_t key;
  uint64_t weight;  // 0: the item is left out
};

enum class Selected : int {
  key,    // the key of an item
  bound,  // any value up to that key and above all smaller items: found sooner
};

/// The largest key such that the items with this or a larger key have at least the weight `wanted`;
/// 0 if all items together have less. The search goes by digits of eight bits, the highest first:
/// each pass sums the weights for every digit and keeps the digit at which the weight is reached.
/// digit and keeps the one at which the weight is reached.
template <typename Item>
REPRISE_DEVICE uint64_t
select(int64_t count, int num_bits, uint64_t wanted, Selected what, const Item& item) {
  auto* bins = reinterpret_cast<uint64_t*>(shared_memory());
  uint64_t* found = bins + kBins;  // the digit, the weight still wanted from it, its weight
  const int digit = thread_index();
  uint64_t prefix = 0;
  for (int shift = num_bits - 8; shift >= 0; shift -= 8) {
    sync_block();
    bins[digit] = 0;
    if (digit == 0) found[0] = kBins;
    sync_block();
    for (int64_t first = 0; first < count; first += kBins) {
      WeightedKey one{0, 0};
      if (first + digit < count) one = item(first + digit);
      const bool is_candidate = (one.key >> shift >> 8) == prefix;
      add_to_bin(
          bins, static_cast<int>(one.key >> shift & (kBins - 1)), is_candidate ? one.weight : 0);
    }
    sync_block();
    uint64_t above = 0;
    for (int other = kBins - 1; other > digit; --other) above += bins[other];
    if (above < wanted && above + bins[digit] >= wanted) {
      found[0] = static_cast<uint64_t>(digit);
      found[1] = wanted - above;
      found[2] = bins[digit];
    }
    sync_block();
    if (found[0] == kBins) return 0;
    prefix = prefix << 8 | found[0];
    wanted = found[1];
    if (what == Selected::bound && wanted == found[2]) return prefix << shift;
  }
  return prefix;
}

/// A lower bound of the k-th largest key: the k-th largest among each thread's largest key, or 0 if
/// k is larger than the number of threads.
REPRISE_DEVICE uint64_t floor_of_top_k(uint64_t largest_of_thread, int k) {
  auto* keys = reinterpret_cast<uint64_t*>(shared_memory());
  uint64_t* floor = keys + kBins;
  sync_block();
  keys[thread_index()] = largest_of_thread;
  if (thread_index() == 0) *floor = 0;
  sync_block();
  int rank = 0;
  for (int other = 0; other < kBins; ++other) rank += keys[other] > largest_of_thread ? 1 : 0;
  if (rank == k - 1) *floor = largest_of_thread;  // keys differ, except zeros
  sync_block();
  return *floor;
}

/// The tokens of one row that may still be drawn.
struct Candidates {
  const float* logits;
  int64_t count;
  double max;
  double scale;  // exponent of 2 per unit of a logit
  double min_p_edge;
  uint64_t smallest_key;
  uint64_t smallest_weight;

  [[nodiscard]] REPRISE_DEVICE bool has(int64_t id) const {
    const double distance = static_cast<double>(logits[id]) - max;
    return token_key(logits[id], id) >= smallest_key && distance >= min_p_edge &&
           distance * scale > -kWeightBits - 1;
  }
  [[nodiscard]] REPRISE_DEVICE uint64_t weight(int64_t id) const {
    if (!has(id)) return 0;
    const uint64_t weight = weight_of((static_cast<double>(logits[id]) - max) * scale);
    return weight >= smallest_weight ? weight : 0;
  }
  [[nodiscard]] REPRISE_DEVICE uint64_t total() const {
    uint64_t sum = 0;
    for (int64_t id = thread_index(); id < count; id += kBins) sum += weight(id);
    return sum_of_block(sum);
  }
};

/// Removes the tokens that are not among the k likeliest.
REPRISE_DEVICE void keep_top_k(Candidates& candidates, int k, uint64_t floor) {
  const uint64_t bound = select(
      candidates.count,
      kTokenBits + 32,
      static_cast<uint64_t>(k),
      Selected::bound,
      [&](int64_t id) {
        const uint64_t key = token_key(candidates.logits[id], id);
        return WeightedKey{key, key >= floor && candidates.has(id) ? uint64_t{1} : uint64_t{0}};
      });
  candidates.smallest_key = bound > floor ? bound : floor;
}

/// Keeps the smallest set of likeliest tokens whose share of the weight is at least top_p.
REPRISE_DEVICE void keep_top_p(Candidates& candidates, double top_p) {
  const uint64_t total = candidates.total();
  uint64_t wanted = static_cast<uint64_t>(top_p * static_cast<double>(total));
  if (wanted < 1) wanted = 1;
  if (wanted > total) wanted = total;
  // All tokens below this weight together have less weight than may be left out.
  candidates.smallest_weight = (total - wanted) / static_cast<uint64_t>(candidates.count);
  const uint64_t bound =
      select(candidates.count, kTokenBits + 32, wanted, Selected::bound, [&](int64_t id) {
        return WeightedKey{token_key(candidates.logits[id], id), candidates.weight(id)};
      });
  if (bound > candidates.smallest_key) candidates.smallest_key = bound;
}

/// Adds up the weights in the order of ids and returns the first token at which the sum exceeds
/// `uniform` times the total weight.
REPRISE_DEVICE int64_t draw(const Candidates& candidates, double uniform) {
  const uint64_t total = candidates.total();
  uint64_t target = static_cast<uint64_t>(uniform * static_cast<double>(total));
  if (target >= total) target = total - 1;
  return id_of(select(candidates.count, kTokenBits, target + 1, Selected::key, [&](int64_t id) {
    return WeightedKey{token_key(0, id) & ((uint64_t{1} << kTokenBits) - 1), candidates.weight(id)};
  }));
}

REPRISE_DEVICE int64_t choose_randomly(const SamplingRow& row,
                                       const float* logits,
                                       int64_t count,
                                       float max,
                                       uint64_t largest_of_thread) {
  constexpr double kLog2OfE = 1.4426950408889634;
  Candidates candidates{.logits = logits,
                        .count = count,
                        .max = static_cast<double>(max),
                        .scale = kLog2OfE / static_cast<double>(row.temperature),
                        .min_p_edge = row.min_p_edge,
                        .smallest_key = 0,
                        .smallest_weight = 0};
  if (row.top_k > 0 && row.top_k < count) {
    keep_top_k(candidates, row.top_k, floor_of_top_k(largest_of_thread, row.top_k));
  }
  if (row.top_p < 1) keep_top_p(candidates, static_cast<double>(row.top_p));
  const auto bits = philox_block(row.seed, row.position, kTokenStream);
  return draw(candidates, uniform_from_bits(bits[0], bits[1]));
}

REPRISE_DEVICE void sample_rows(const CudaSamplingArguments& a) {
  const SamplingRow row = a.rows[block_index()];
  float* logits = a.logits + row.logits_row * a.vocab_size;
  for (int i = thread_index(); i < row.num_adjustments; i += kBins) {
    const LogitAdjustment& adjustment = a.adjustments[row.first_adjustment + i];
    logits[adjustment.token_id] += adjustment.value;
  }
  sync_block();
  uint64_t largest = 0;
  for (int64_t id = thread_index(); id < a.vocab_size; id += kBins) {
    const float logit = logits[id];
    // A comparison with NaN is false, so NaN counts as broken.
    const uint64_t key = logit <= 3.4028235e38F ? token_key(logit, id) : kBrokenLogit;
    if (key > largest) largest = key;
  }
  const uint64_t best = largest_of_block(largest);
  int64_t token = id_of(best);
  if (best == kBrokenLogit) {
    token = kNonFiniteLogits;
  } else if (logits[token] < -3.4028235e38F) {
    token = kNoAllowedToken;
  } else if (row.temperature > 0) {
    token = choose_randomly(row, logits, a.vocab_size, logits[token], largest);
  }
  if (thread_index() == 0) a.tokens[block_index()] = static_cast<int32_t>(token);
}

}  // namespace reprise::kernels::cuda
