#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/base/assert.h"
#include "reprise/sampling/sampler.h"

namespace reprise::speculative {

/// Verifies the drafts of one request: samples row after row until a row's token is not its draft.
///
/// Row i has the logits after draft i - 1, and draft i is a guess of its token. Each row is sampled
/// as in plain decoding, from the model's distribution p. A draft is one fixed token d, so "accept
/// d if the sampled token is d, else keep the sampled token" is exact rejection sampling: d is
/// accepted with probability p(d), and otherwise the kept token has the distribution p without d.
/// The rows also use the same random numbers as plain decoding, so even a random answer has the
/// same tokens with and without drafts.
///
/// `tokens`: the drafts, and room for one more token; gets the sampled tokens. `sampled`: one
/// result per row. Rows after the first rejected draft get the status not_reached.
/// `sample_row(i, sampled[i])` is called for one row after the other, in order.
/// \return the number of rows with a result
template <typename SampleRow>
size_t verify_drafts(std::span<int32_t> tokens,
                     std::span<sampling::SampledToken> sampled,
                     const SampleRow& sample_row) {
  REPRISE_ASSERT(tokens.size() == sampled.size(), "{} rows", sampled.size());
  size_t row = 0;
  bool is_accepted = true;
  while (is_accepted && row < sampled.size()) {
    sample_row(row, sampled[row]);
    is_accepted = sampled[row].status == sampling::SamplingStatus::ok && row + 1 < tokens.size() &&
                  sampled[row].token_id == tokens[row];
    if (sampled[row].status == sampling::SamplingStatus::ok) tokens[row] = sampled[row].token_id;
    ++row;
  }
  for (sampling::SampledToken& rest : sampled.subspan(row)) {
    rest.status = sampling::SamplingStatus::not_reached;
  }
  return row;
}

}  // namespace reprise::speculative
