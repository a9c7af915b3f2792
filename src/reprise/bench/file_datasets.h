#pragma once

#include <vector>

#include "reprise/bench/dataset.h"

namespace reprise::bench {

/// Reads a JSON array of conversations: the first turn is the prompt, the length of the second turn
/// is the output length. Takes a uniform random sample of a file of any size, in bounded memory;
/// drops turns that are too short or too long.
[[nodiscard]] std::vector<SampleRequest> make_sharegpt_requests(const DatasetOptions& options,
                                                                const DatasetTools& tools,
                                                                RandomSource& random);

/// Makes prompts of random lines of a text file, up to the wanted length. All prompts begin with
/// the same first lines of the file.
[[nodiscard]] std::vector<SampleRequest> make_sonnet_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

/// Reads JSON lines with "prompt"; if --custom-output-len is -1, also with "output_tokens".
[[nodiscard]] std::vector<SampleRequest> make_custom_requests(const DatasetOptions& options,
                                                              const DatasetTools& tools,
                                                              RandomSource& random);

}  // namespace reprise::bench
