#pragma once

#include <vector>

#include "reprise/bench/dataset.h"

namespace reprise::bench {

/// Prompts of tokens that follow each other in the vocabulary, of lengths drawn evenly.
[[nodiscard]] std::vector<SampleRequest> make_random_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

/// A few random prefixes, each in front of many random suffixes, in shuffled order.
[[nodiscard]] std::vector<SampleRequest> make_prefix_repetition_requests(
    const DatasetOptions& options, const DatasetTools& tools, RandomSource& random);

}  // namespace reprise::bench
