#include "reprise/weights/gguf/gguf_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "reprise/base/assert.h"

namespace reprise::weights::gguf {
namespace {

/// The names in the files of a class with experts, and the facts that llama.cpp has in its code.
struct ExpertTraits {
  std::string_view model_class;
  std::string_view count;    // the member of config.json
  std::string_view size;     // the same: rows of an expert
  bool renormalises = true;  // norm_topk_prob
  std::string_view shared_size =
      {};                          // the member for the size of the shared expert, if there is one
  bool reads_shared_size = false;  // the architecture checks it
  bool reads_more = false;         // the architecture's own function reads dense layers and scales
};
// Source: the constructors of each model in llama.cpp's src/models, which pass norm_w.
constexpr auto kExpertTraits = std::to_array<ExpertTraits>({
    {.model_class = "DeepseekV2ForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "DeepseekV32ForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "Dots1ForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "Ernie4_5_MoeForCausalLM",
     .count = "moe_num_experts",
     .size = "moe_intermediate_size",
     .reads_shared_size = true,
     .reads_more = true},
    {.model_class = "Glm4MoeForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "GlmMoeDsaForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "GraniteMoeForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size"},
    {.model_class = "GraniteMoeHybridForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size",
     .shared_size = "shared_intermediate_size"},
    {.model_class = "GptOssForCausalLM", .count = "num_local_experts", .size = "intermediate_size"},
    {.model_class = "HunYuanMoEV1ForCausalLM",
     .count = "num_experts",
     .size = "intermediate_size",
     .reads_shared_size = true},
    {.model_class = "KimiLinearForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "Lfm2MoeForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "Llama4ForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size",
     .reads_shared_size = true},
    {.model_class = "MiMoV2FlashForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "MiniMaxM2ForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size"},
    {.model_class = "Mistral4ForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_more = true},
    {.model_class = "MixtralForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size"},
    {.model_class = "OlmoeForCausalLM",
     .count = "num_experts",
     .size = "intermediate_size",
     .renormalises = false},
    {.model_class = "Qwen2MoeForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .renormalises = false,
     .shared_size = "shared_expert_intermediate_size"},
    {.model_class = "Qwen3_5MoeForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .shared_size = "shared_expert_intermediate_size"},
    {.model_class = "Qwen3NextForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .shared_size = "shared_expert_intermediate_size"},
    {.model_class = "Qwen3MoeForCausalLM", .count = "num_experts", .size = "moe_intermediate_size"},
    {.model_class = "Step3p5ForCausalLM",
     .count = "n_routed_experts",
     .size = "moe_intermediate_size",
     .reads_shared_size = true,
     .reads_more = true},
});

}  // namespace

void read_experts(const ArchitectureKeys& keys, std::string_view model_class, Json& config) {
  const auto* const found =
      std::ranges::find(kExpertTraits, model_class, &ExpertTraits::model_class);
  REPRISE_ASSERT(found != kExpertTraits.end(),
                 "{}: kExpertTraits has no entry for this architecture",
                 model_class);
  const ExpertTraits& traits = *found;
  config[std::string(traits.count)] = keys.required("expert_count");
  const int64_t top_k = keys.required("expert_used_count");
  config["num_experts_per_tok"] = top_k;
  // llama.cpp's rule for a file without a size of experts: either each expert, or all experts of a
  // token together, have the size of a dense MLP. A file with both sizes of experts needs no size
  // of dense MLPs.
  const auto size_of = [&](std::string_view key, int64_t divisor) {
    const auto stored = keys.integer(key);
    return stored ? *stored : keys.required("feed_forward_length") / divisor;
  };
  config[std::string(traits.size)] =
      size_of("expert_feed_forward_length", traits.size == "intermediate_size" ? 1 : top_k);
  config["norm_topk_prob"] = traits.renormalises;
  constexpr std::string_view kShared = "expert_shared_feed_forward_length";
  if (!traits.shared_size.empty()) {
    config[std::string(traits.shared_size)] = size_of(kShared, 1);
  } else if (!traits.reads_shared_size && keys.integer(kShared).value_or(0) != 0) {
    keys.fail(kShared, fmt::format("shared experts are not supported in {}", traits.model_class));
  }
  if (traits.reads_more) return;
  if (keys.integer("leading_dense_block_count").value_or(0) != 0) {
    keys.fail("leading_dense_block_count", "is not supported");
  }
  if (expert_scale(keys) != 1) {
    keys.fail("expert_weights_scale", "is not supported");
  }
}

double expert_scale(const ArchitectureKeys& keys) {
  const double scale = keys.number("expert_weights_scale").value_or(1);
  return scale == 0 ? 1 : scale;
}

void require_sigmoid_router(const ArchitectureKeys& keys) {
  constexpr std::string_view kKey = "expert_gating_func";
  constexpr int64_t kSigmoid = 2;
  if (const int64_t function = keys.integer(kKey).value_or(kSigmoid); function != kSigmoid) {
    keys.fail(kKey, fmt::format("is {}, only {} (sigmoid) is supported", function, kSigmoid));
  }
}

}  // namespace reprise::weights::gguf
