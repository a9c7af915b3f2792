#pragma once

#include <vector>

#include "reprise/bench/dataset.h"

namespace reprise::bench {

/// The requests of a recorded trace, in the order of their times. A line has a time, lengths, and
/// an id for each chunk of the prompt; Mooncake's and Qwen's published traces have this form.
/// Chunks with the same id have the same tokens in every run, so prefixes are shared as in the
/// trace. Chunks are random tokens; a prompt that is longer than its chunks ends with tokens of its
/// own. No request is sent twice, even if the file has fewer than num_prompts. \throws FileError
/// naming the line
[[nodiscard]] std::vector<SampleRequest> make_timed_trace_requests(const DatasetOptions& options,
                                                                   const DatasetTools& tools,
                                                                   RandomSource& random);

}  // namespace reprise::bench
