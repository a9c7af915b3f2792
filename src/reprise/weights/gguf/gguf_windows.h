#pragma once

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/gguf_config.h"

/// Reads the keys of architectures in which layers with a window have other heads and rotations
/// than layers without one. Each function is the `read` of a line in kArchitectures, and throws as
/// config_json().
namespace reprise::weights::gguf {

void read_mimo2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_step35(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);

}  // namespace reprise::weights::gguf
