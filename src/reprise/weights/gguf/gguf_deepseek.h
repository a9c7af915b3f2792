#pragma once

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/gguf_config.h"

/// Reads the keys that files of DeepSeek-V2 have, and of the models made after it: latent
/// attention, experts in groups, and the index of positions of sparse attention. Each function with
/// three parameters is the `read` of a line in kArchitectures, and throws as config_json().
namespace reprise::weights::gguf {

void read_deepseek2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_deepseek32(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_glm_dsa(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_kimi_linear(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);
void read_mistral4(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config);

/// Reads how tokens choose among experts in DeepSeek-V2 and in models like it: groups, shared
/// experts, dense layers in front, and the scale of the sum.
void read_experts_of_deepseek(const ArchitectureKeys& keys, Json& config);

}  // namespace reprise::weights::gguf
