#pragma once

#include <vector>

#include "reprise/bench/dataset.h"

namespace reprise::bench {

/// Ids that a prompt may contain: tokens whose text is whole characters and tokenizes to the same
/// id. \throws InvalidArgument if no token is plain text
[[nodiscard]] std::vector<int32_t> plain_token_ids(const tokenizer::Tokenizer& tokenizer);

/// Prompts of consecutive token ids; the lengths are uniformly distributed.
[[nodiscard]] std::vector<SampleRequest> make_random_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

/// A few random prefixes, each followed by many different random suffixes, in shuffled order.
[[nodiscard]] std::vector<SampleRequest> make_prefix_repetition_requests(
    const DatasetOptions& options, const DatasetTools& tools, RandomSource& random);

}  // namespace reprise::bench
