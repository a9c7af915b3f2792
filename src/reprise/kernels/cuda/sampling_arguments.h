#pragma once

#include <cstdint>

#include "reprise/kernels/sampling_row.h"

namespace reprise::kernels::cuda {

/// The state of one row's choice, which the three launches of the sampler pass on.
struct SamplingState {
  uint64_t best = 0;         // the largest key
  double scale = 0;          // exponent of 2 per unit of a logit
  uint64_t total = 0;        // sum of the weights of all tokens; set only for rows with candidates
  int32_t num_finished = 0;  // number of blocks of the row that have finished; 0 between launches
  int32_t last_bucket = 0;   // candidates are in this bucket or an earlier one; kNoBucket: none
  int32_t num_candidates = 0;
  int32_t num_likeliest = 0;  // in the list for log-probabilities
};

/// Each row has `num_parts` blocks. Each block processes a part of the vocabulary.
struct alignas(16) CudaSamplingArguments {
  float* logits;            // [num_rows, vocab_size], dense
  const SamplingRow* rows;  // [blocks / num_parts]
  const LogitAdjustment* adjustments;
  int32_t* tokens;        // [rows]
  SamplingState* states;  // [rows]
  uint64_t* parts;        // [rows, num_parts], of each block's tokens
  uint64_t* segments;     // [rows, num_segments]: weights of kSegmentTokens neighbours together
  uint64_t* histograms;   // [rows, kSamplingBuckets]
  int32_t* candidates;    // [rows, kMostCandidates]
  uint32_t* counts;       // [count slots, count_stride]; see kSeenToken
  RowLogprobs* logprobs;  // [rows]
  int64_t count_stride;   // the size of the vocabulary, rounded up to kTokensAtOnce
  int64_t vocab_size;
  int64_t part_size;     // tokens of a part, a multiple of kSegmentTokens
  int32_t num_parts;     // at most kMostSamplingParts
  int32_t num_segments;  // of a row
};

/// One thread for each place.
struct alignas(16) WriteTokensArguments {
  int32_t* ids;
  const int32_t* tokens;  // of a launch of the sampler
  const TokenPlace* places;
  int32_t num_places;
};

/// Adds tokens to the counts of one slot. One thread for each token.
struct alignas(16) CountTokensArguments {
  uint32_t* counts;  // of the slot
  const int32_t* tokens;
  int32_t num_tokens;
  int32_t are_output;  // 0: the tokens are of the prompt
};

/// The bit of a count that is set if the prompt has the token. The other bits are the number of
/// times that it was chosen.
inline constexpr uint32_t kSeenToken = uint32_t{1} << 31;

/// The lower bits of a key are the token id.
inline constexpr int kTokenBits = 24;

/// Neighbouring tokens that a thread looks at together. One load brings their logits.
inline constexpr int kTokensAtOnce = 4;
/// Tokens that a warp looks at together.
inline constexpr int kSegmentTokens = 32 * kTokensAtOnce;

/// The last block of a row reads the results of all its parts at once, one with each thread.
inline constexpr int kMostSamplingParts = 256;
/// A bucket has the tokens whose weights are within a factor of 2^(46/1024), 3 %: a few of the
/// likeliest tokens, or some hundreds of the others.
inline constexpr int kSamplingBuckets = 1024;
/// If a row has more candidates, which happens if many logits are equal, one block processes all
/// tokens.
inline constexpr int kMostCandidates = 4096;
inline constexpr int kNoBucket = -1;

}  // namespace reprise::kernels::cuda
