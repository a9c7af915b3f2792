#pragma once

#include <cstdint>

#include "reprise/weights/model_directory.h"

namespace reprise::lora {

/// What adapter_config.json of a PEFT adapter says about its arithmetic: a module with weight W
/// becomes W + scale * B * A.
struct AdapterConfig {
  int64_t rank = 0;  // rows of every A
  double scale = 0;  // lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora
};

/// Reads and checks adapter_config.json.
/// \throws FileError E_CONFIG for a rank above `max_rank` and for every feature of PEFT that would
/// change the result and that is not supported (DoRA, trained biases, modules_to_save, ...)
[[nodiscard]] AdapterConfig read_adapter_config(const weights::ModelDirectory& directory,
                                                int64_t max_rank);

}  // namespace reprise::lora
