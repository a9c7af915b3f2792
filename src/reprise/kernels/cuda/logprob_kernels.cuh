#pragma once

#include "reprise/kernels/cuda/sampling_kernels.cuh"

// These kernels find the numbers that log-probabilities are computed from: the sum of the weights
// of all tokens, the rank of the chosen token, and the likeliest tokens. They need the logits of
// the model, so they serve only rows without adjustments and penalties. They follow the launches
// that chose the tokens.
//
// 1. weigh_logprobs: the sum, the rank, and the bucket that has the last of the likeliest tokens.
// 2. list_likeliest: lists the tokens down to this bucket. The last block puts them in order.
namespace reprise::kernels::cuda {

REPRISE_DEVICE bool wants_logprobs(const SamplingRow& row, int32_t token) {
  return row.num_logprobs >= 0 && token >= 0;
}

/// All tokens, with weights of a temperature of 1.
REPRISE_DEVICE Candidates all_tokens(const CudaSamplingArguments& a,
                                     const SamplingRow& row,
                                     const SamplingState& state) {
  Candidates all(a, row, state);
  all.scale = 1.4426950408889634;
  all.min_p_edge = -__builtin_inf();
  return all;
}

/// The place of the number of likelier tokens of each part. The token has been drawn, so the
/// segments are free, and there are at least as many as parts.
REPRISE_DEVICE uint64_t* likelier_of_parts(const CudaSamplingArguments& a, int64_t row) {
  return a.segments + row * a.num_segments;
}

REPRISE_DEVICE void weigh_logprobs(const CudaSamplingArguments& a) {
  const RowPart part(a);
  const SamplingRow& row = a.rows[part.row];
  const int32_t token = a.tokens[part.row];
  RowLogprobs& result = a.logprobs[part.row];
  if (!wants_logprobs(row, token)) {
    if (part.part == 0 && thread_index() == 0) result.num_top = -1;
    return;
  }
  SamplingState& state = a.states[part.row];
  const Candidates all = all_tokens(a, row, state);
  const uint64_t chosen = token_key(all.logits[token], token);
  uint64_t weight = 0;
  uint64_t likelier = 0;
  each_four(part, all.logits, [&](int64_t first, const FourLogits& four) {
    REPRISE_UNROLL
    for (int j = 0; j < kTokensAtOnce; ++j) {
      if (first + j >= part.end) continue;
      weight += all.weight(first + j, four.of[j]);
      if (token_key(four.of[j], first + j) > chosen) ++likelier;
    }
  });
  if (row.num_logprobs > 0) add_to_histogram(a, part, all, true);
  weight = sum_of_block(weight);
  likelier = sum_of_block(likelier);
  if (thread_index() == 0) {
    a.parts[part.row * a.num_parts + part.part] = weight;
    likelier_of_parts(a, part.row)[part.part] = likelier;
  }
  if (!is_last_of_row(a, part)) return;
  const uint64_t total = sum_of_block(result_of_part(a, part.row));
  const uint64_t* parts = likelier_of_parts(a, part.row);
  likelier = sum_of_block(thread_index() < a.num_parts ? load_fresh(parts + thread_index()) : 0);
  if (row.num_logprobs > 0) {
    const LastBucket last = find_last_bucket(
        a, part, [&](uint64_t) { return static_cast<uint64_t>(row.num_logprobs); });
    // Tokens beyond the last bucket have no weight, but they have a place in the list.
    if (thread_index() == 0) state.last_bucket = last.is_reached ? last.bucket : kNoBucket;
  }
  if (thread_index() != 0) return;
  result.sum = static_cast<double>(total) * (1.0 / (uint64_t{1} << kWeightBits));
  result.max = static_cast<float>(all.max);
  result.chosen = all.logits[token];
  result.rank = static_cast<int32_t>(likelier) + 1;
  result.num_top = 0;
}

/// Writes the likeliest candidates, the likeliest first. All threads of the block call this.
REPRISE_DEVICE void write_likeliest(const Candidates& candidates,
                                    int32_t wanted,
                                    RowLogprobs& result) {
  uint64_t before = ~uint64_t{0};
  for (int32_t n = 0; n < wanted; ++n) {
    uint64_t best = 0;
    for (int64_t i = thread_index(); i < candidates.count; i += kBins) {
      const int64_t id = candidates.id(i);
      const uint64_t key = token_key(candidates.logits[id], id);
      if (key < before && key > best) best = key;
    }
    best = largest_of_block(best);
    if (thread_index() == 0) {
      result.top[n] = {static_cast<int32_t>(id_of(best)), candidates.logits[id_of(best)]};
    }
    before = best;
  }
  if (thread_index() == 0) result.num_top = wanted;
}

REPRISE_DEVICE void list_likeliest(const CudaSamplingArguments& a) {
  const RowPart part(a);
  const SamplingRow& row = a.rows[part.row];
  if (row.num_logprobs == 0 || !wants_logprobs(row, a.tokens[part.row])) return;
  SamplingState& state = a.states[part.row];
  Candidates candidates = all_tokens(a, row, state);
  int32_t* list = a.candidates + part.row * kMostCandidates;
  if (state.last_bucket != kNoBucket) {
    list_candidates(a, part, candidates, state.last_bucket, &state.num_likeliest);
  }
  if (!is_last_of_row(a, part)) return;
  const int32_t num_listed = load_fresh(&state.num_likeliest);
  if (num_listed >= row.num_logprobs && num_listed <= kMostCandidates) {
    candidates.ids = list;
    candidates.count = num_listed;
  }
  const int64_t wanted = row.num_logprobs < a.vocab_size ? int64_t{row.num_logprobs} : a.vocab_size;
  write_likeliest(candidates, static_cast<int32_t>(wanted), a.logprobs[part.row]);
}

}  // namespace reprise::kernels::cuda
