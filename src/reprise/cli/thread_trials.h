#pragma once

#include <span>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"

namespace reprise::cli {

/// Steps of an engine on a CPU with a number of threads, in microseconds.
struct ThreadTrial {
  int num_threads = 0;
  double decode_us = 0;  // one request, one token
  double prompt_us = 0;  // one prompt
  int32_t prompt_tokens = 0;
};

/// Starts the engine with as many threads as it has by default, and with half as many, a quarter,
/// ... and one, and takes the least time of several steps each. \throws as load_engine()
[[nodiscard]] std::vector<ThreadTrial> try_numbers_of_threads(const api::EngineArgs& args,
                                                              int most_threads);

/// A table of the trials, and what follows from them: a number of threads that saves at least 3 %
/// of a step compared with the first trial and loses nothing elsewhere, or that there is nothing to
/// tune. \pre not empty
[[nodiscard]] std::string thread_trials_text(std::span<const ThreadTrial> trials);

}  // namespace reprise::cli
