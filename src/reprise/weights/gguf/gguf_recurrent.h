#pragma once

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/gguf_config.h"

/// Reads the keys that only files of models with recurrent layers have. Each function is the `read`
/// of a line in kArchitectures, and throws as config_json().
namespace reprise::weights::gguf {

void read_falcon_h1(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
/// Does not read the factors, because all models of Granite have them.
void read_granite_hybrid_layers(const ArchitectureKeys& keys,
                                const GgufConfigTraits& traits,
                                Json& config);
void read_lfm2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_lfm2_moe(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_mamba(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_mamba2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_qwen3_next(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_qwen35(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);

/// Writes `layer_types`: a layer without key/value heads is a recurrent layer.
void write_layer_types(const ArchitectureKeys& keys, Json& config);

}  // namespace reprise::weights::gguf
