#include "reprise/models/causal_lm.h"
#include "reprise/models/llama.h"

namespace reprise::models {

std::unique_ptr<CausalLM> create_model(const weights::ModelConfig& config,
                                       int64_t max_positions,
                                       Parameters& parameters) {
  // One line per architecture. Architectures share a file as long as flags of the configuration are
  // their only difference.
  switch (config.architecture) {
    case weights::Architecture::llama:
    case weights::Architecture::mistral:
    case weights::Architecture::qwen2:
    case weights::Architecture::qwen3:
      return std::make_unique<LlamaForCausalLM>(config, max_positions, parameters);
  }
  REPRISE_ASSERT(false, "architecture {} is not registered", static_cast<int>(config.architecture));
  return nullptr;
}

}  // namespace reprise::models
