#pragma once

#include "reprise/sampling/sampling_params.h"

namespace reprise::cli {

class OptionTable;

/// Adds the options of SamplingParams.
void add_sampling_options(OptionTable& table, sampling::SamplingParams& params);

}  // namespace reprise::cli
