// libFuzzer target for config.json and generation_config.json.
// Oracle besides "no crash": an accepted configuration is consistent and its tensors can be sized.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/weights/expected_tensors.h"
#include "reprise/weights/generation_config.h"
#include "reprise/weights/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace reprise;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    (void)weights::parse_generation_config(text, "g");
  } catch (const FileError&) {
  }
  try {
    const weights::ModelConfig config = weights::parse_model_config(text, "c").config;
    const bool is_consistent =
        config.num_attention_heads % config.num_key_value_heads == 0 && config.head_dim % 2 == 0 &&
        config.layer_types.size() == static_cast<size_t>(config.num_hidden_layers) &&
        config.rope.theta >= 1.0 && config.rope.factor >= 1.0 && num_parameters(config) > 0;
    if (!is_consistent) std::abort();
  } catch (const FileError&) {
  }
  return 0;
}
