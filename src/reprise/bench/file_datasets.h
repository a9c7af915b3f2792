#pragma once

#include <vector>

#include "reprise/bench/dataset.h"

namespace reprise::bench {

/// A JSON array of conversations: the first turn is the prompt, the second sets the length. A fair
/// sample of a file of any size, in bounded memory; turns too short or too long are left out.
[[nodiscard]] std::vector<SampleRequest> make_sharegpt_requests(const DatasetOptions& options,
                                                                const DatasetTools& tools,
                                                                RandomSource& random);

/// Prompts of random lines of a text file, up to the wanted length. All prompts share the first
/// lines.
[[nodiscard]] std::vector<SampleRequest> make_sonnet_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

/// JSON lines with "prompt", and "output_tokens" where --custom-output-len is -1.
[[nodiscard]] std::vector<SampleRequest> make_custom_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

}  // namespace reprise::bench
