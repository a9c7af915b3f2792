#include <array>
#include <utility>

#include "reprise/models/causal_lm.h"
#include "reprise/models/decoder.h"
#include "reprise/models/encoder_decoder.h"
#include "reprise/models/layers.h"

namespace reprise::models {
namespace {

// One line per architecture: the layer that it is made of, in the order of
// weights/families/family_list.inl. Everything else about an architecture is in its config
// (weights/families) and in the names of its tensors (weights/config/decoder_tensors.cpp).
struct Row {
  weights::Architecture architecture;
  MakeDecoderLayer make_layer;
};
constexpr std::array kRows = {
    Row{weights::Architecture::llama, make_llama_layer},
    Row{weights::Architecture::mistral, make_llama_layer},
    Row{weights::Architecture::ministral3, make_llama_layer},
    Row{weights::Architecture::qwen2, make_llama_layer},
    Row{weights::Architecture::qwen3, make_llama_layer},
    Row{weights::Architecture::phi3, make_llama_layer},
    Row{weights::Architecture::smollm3, make_llama_layer},
    Row{weights::Architecture::seed_oss, make_llama_layer},
    Row{weights::Architecture::ernie4_5, make_llama_layer},
    Row{weights::Architecture::hunyuan_dense, make_llama_layer},
    Row{weights::Architecture::exaone4, make_olmo2_layer},
    Row{weights::Architecture::granite, make_granite_layer},
    Row{weights::Architecture::minicpm, make_granite_layer},
    Row{weights::Architecture::gemma, make_llama_layer},
    Row{weights::Architecture::gemma2, make_gemma_layer},
    Row{weights::Architecture::gemma3, make_gemma_layer},
    Row{weights::Architecture::gemma4, make_gemma4_layer},
    Row{weights::Architecture::gemma4_unified, make_gemma4_layer},
    Row{weights::Architecture::glm, make_llama_layer},
    Row{weights::Architecture::glm4, make_gemma_layer},
    Row{weights::Architecture::olmo2, make_olmo2_layer},
    Row{weights::Architecture::olmo3, make_olmo2_layer},
    Row{weights::Architecture::gpt2, make_llama_layer},
    Row{weights::Architecture::gpt_bigcode, make_llama_layer},
    Row{weights::Architecture::opt, make_opt_layer},
    Row{weights::Architecture::starcoder2, make_llama_layer},
    Row{weights::Architecture::gpt_neox, make_gpt_neox_layer},
    Row{weights::Architecture::falcon, make_gpt_neox_layer},
    Row{weights::Architecture::stablelm, make_gpt_neox_layer},
    Row{weights::Architecture::cohere, make_gpt_neox_layer},
    Row{weights::Architecture::cohere2, make_gpt_neox_layer},
    Row{weights::Architecture::gpt_oss, make_llama_layer},
    Row{weights::Architecture::llama4, make_llama_layer},
    Row{weights::Architecture::deepseek_v2, make_llama_layer},
    Row{weights::Architecture::deepseek_v3, make_llama_layer},
    Row{weights::Architecture::deepseek_v32, make_llama_layer},
    Row{weights::Architecture::glm_moe_dsa, make_llama_layer},
    Row{weights::Architecture::mistral4, make_llama_layer},
    Row{weights::Architecture::glm4_moe, make_llama_layer},
    Row{weights::Architecture::glm4_moe_lite, make_llama_layer},
    Row{weights::Architecture::solar_open, make_llama_layer},
    Row{weights::Architecture::dots1, make_llama_layer},
    Row{weights::Architecture::minimax_m2, make_llama_layer},
    Row{weights::Architecture::step3p5, make_llama_layer},
    Row{weights::Architecture::mimo_v2, make_llama_layer},
    Row{weights::Architecture::ernie4_5_moe, make_llama_layer},
    Row{weights::Architecture::hunyuan_moe, make_llama_layer},
    Row{weights::Architecture::mixtral, make_llama_layer},
    Row{weights::Architecture::qwen2_moe, make_llama_layer},
    Row{weights::Architecture::qwen3_moe, make_llama_layer},
    Row{weights::Architecture::olmoe, make_llama_layer},
    Row{weights::Architecture::granite_moe, make_granite_layer},
    Row{weights::Architecture::mamba, make_mamba_layer},
    Row{weights::Architecture::mamba2, make_mamba_layer},
    Row{weights::Architecture::bamba, make_llama_layer},
    Row{weights::Architecture::falcon_h1, make_falcon_h1_layer},
    Row{weights::Architecture::granite_moe_hybrid, make_granite_layer},
    Row{weights::Architecture::nemotron_h, make_nemotron_h_layer},
    Row{weights::Architecture::qwen3_next, make_llama_layer},
    Row{weights::Architecture::qwen3_5, make_llama_layer},
    Row{weights::Architecture::qwen3_5_moe, make_llama_layer},
    Row{weights::Architecture::kimi_linear, make_llama_layer},
    Row{weights::Architecture::lfm2, make_llama_layer},
    Row{weights::Architecture::lfm2_moe, make_llama_layer},
    Row{weights::Architecture::bert, make_bert_layer},
    Row{weights::Architecture::roberta, make_bert_layer},
    Row{weights::Architecture::xlm_roberta, make_bert_layer},
    Row{weights::Architecture::camembert, make_bert_layer},
    Row{weights::Architecture::xlm_roberta_xl, make_llama_layer},
    Row{weights::Architecture::distilbert, make_bert_layer},
    Row{weights::Architecture::modernbert, make_llama_layer},
    Row{weights::Architecture::nomic_bert, make_bert_layer},
    Row{weights::Architecture::bart, make_bart_layer},
};

constexpr bool has_every_architecture_in_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].architecture) != i) return false;
  }
  return kRows.size() == weights::kAllArchitectures.size();
}
static_assert(has_every_architecture_in_order());

}  // namespace

std::unique_ptr<CausalLM> create_model(const weights::ModelConfig& config,
                                       int64_t max_positions,
                                       Parameters& parameters,
                                       lora::AdapterSlots* adapters,
                                       const ExpertCounting* expert_counting) {
  const Row& row = kRows[static_cast<size_t>(config.architecture)];
  auto decoder = std::make_unique<Decoder>(
      config, max_positions, parameters, row.make_layer, adapters, expert_counting);
  if (!config.encoder) return decoder;
  return std::make_unique<EncoderDecoder>(config, parameters, std::move(decoder));
}

}  // namespace reprise::models
