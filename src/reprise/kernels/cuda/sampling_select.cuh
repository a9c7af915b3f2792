#pragma once

#include "reprise/base/philox.h"
#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/sampling_arguments.h"

// The choice of a token without sorting: keys, weights, and the search for the key at which a sum
// of weights is reached.
//
// Tokens are ordered by key: by logit, and tokens with equal logits by id, the lower one first.
// Weights are integers, so their sums do not depend on the order of addition, and a row's token is
// the same in every run and batch. select() finds the k-th largest key, the key at which a share of
// the weight is reached, and the id at which a uniform number falls.
namespace reprise::kernels::cuda {

inline constexpr int kBins = 256;  // equals the number of threads
/// Words of shared memory that select() uses: bins, sums of groups of them, and what was found.
inline constexpr int kSelectWords = kBins + kBins / 16 + 3;
// The sum does not overflow even if all tokens of the largest vocabulary (row_sampler.h) have the
// largest weight.
inline constexpr int kWeightBits = 44;
inline constexpr uint64_t kBrokenLogit = ~uint64_t{0};  // larger than every key

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

/// bins[bin] += weight, for all lanes of a warp. If all lanes have the same bin, one lane adds the
/// sum of all.
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

struct FoundBin {
  int bin;  // -1: all bins together have less than the wanted weight
  // The part of the wanted weight that this bin must supply: the bins above it supply the rest.
  uint64_t wanted;
  uint64_t weight;  // of this bin
};

/// The highest bin such that this bin and the bins above it together have at least the weight
/// `wanted`. All threads of the block call this; it waits for their writes to the bins.
REPRISE_DEVICE FoundBin find_bin(uint64_t* bins, uint64_t wanted) {
  constexpr int kGroup = 16;
  uint64_t* groups = bins + kBins;  // sums of as many neighbouring bins
  uint64_t* found = groups + kBins / kGroup;
  const int mine = thread_index();
  sync_block();
  if (mine == 0) found[0] = kBins;
  if (mine < kBins / kGroup) {
    uint64_t sum = 0;
    for (int i = 0; i < kGroup; ++i) sum += bins[mine * kGroup + i];
    groups[mine] = sum;
  }
  sync_block();
  uint64_t above = 0;
  for (int group = kBins / kGroup - 1; group > mine / kGroup; --group) above += groups[group];
  for (int i = mine / kGroup * kGroup + kGroup - 1; i > mine; --i) above += bins[i];
  if (above < wanted && above + bins[mine] >= wanted) {
    found[0] = static_cast<uint64_t>(mine);
    found[1] = wanted - above;
    found[2] = bins[mine];
  }
  sync_block();
  if (found[0] == kBins) return {-1, 0, 0};
  return {static_cast<int>(found[0]), found[1], found[2]};
}

struct WeightedKey {
  uint64_t key;
  uint64_t weight;  // 0: the item is left out
};

enum class Selected : int {
  key,    // the key of an item
  bound,  // any value up to that key and above all smaller items, which is found sooner
};

/// The largest key such that the items with this or a larger key have at least the weight `wanted`;
/// 0 if all items together have less. The search goes by digits of eight bits, the highest first:
/// each pass sums the weights for every digit and keeps the digit at which the weight is reached.
template <typename Item>
REPRISE_DEVICE uint64_t
select(int64_t count, int num_bits, uint64_t wanted, Selected what, const Item& item) {
  auto* bins = reinterpret_cast<uint64_t*>(shared_memory());
  const int digit = thread_index();
  uint64_t prefix = 0;
  for (int shift = num_bits - 8; shift >= 0; shift -= 8) {
    sync_block();
    bins[digit] = 0;
    sync_block();
    for (int64_t first = 0; first < count; first += kBins) {
      WeightedKey one{0, 0};
      if (first + digit < count) one = item(first + digit);
      const bool is_candidate = (one.key >> shift >> 8) == prefix;
      add_to_bin(
          bins, static_cast<int>(one.key >> shift & (kBins - 1)), is_candidate ? one.weight : 0);
    }
    const FoundBin found = find_bin(bins, wanted);
    if (found.bin < 0) return 0;
    prefix = prefix << 8 | static_cast<uint64_t>(found.bin);
    wanted = found.wanted;
    if (what == Selected::bound && wanted == found.weight) return prefix << shift;
  }
  return prefix;
}

}  // namespace reprise::kernels::cuda
