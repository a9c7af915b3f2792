#include "reprise/weights/config/model_config.h"

#include "reprise/base/error.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/generation_config.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void model_config(std::string_view input) {
  try {
    (void)weights::parse_generation_config(input, "g");
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
  try {
    const weights::ModelConfig config = weights::parse_model_config(input, "c").config;
    // Only a model with nothing but recurrent layers has no heads.
    require(config.num_key_value_heads == 0 ||
                config.num_attention_heads % config.num_key_value_heads == 0,
            "accepted heads can be shared out");
    require(config.layer_types.size() == static_cast<size_t>(config.num_hidden_layers),
            "every layer has a type");
    require(config.rope.theta >= 1.0 && config.rope.factor >= 1.0, "accepted angles are defined");
    require(num_parameters(config) > 0, "an accepted model has weights");
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
}

}  // namespace reprise::fuzz
