#include <array>
#include <utility>

#include "reprise/models/bart.h"
#include "reprise/models/bert.h"
#include "reprise/models/causal_lm.h"
#include "reprise/models/decoder.h"
#include "reprise/models/encoder_decoder.h"
#include "reprise/models/falcon_h1.h"
#include "reprise/models/gemma.h"
#include "reprise/models/gpt_neox.h"
#include "reprise/models/granite.h"
#include "reprise/models/llama.h"
#include "reprise/models/mamba.h"
#include "reprise/models/olmo2.h"

namespace reprise::models {
namespace {

template <typename Layer>
std::unique_ptr<DecoderLayer> make(const LayerParts& parts) {
  return std::make_unique<Layer>(parts);
}

// One line per architecture: the layer that it is made of, in the order of
// weights/families/family_list.inl. Everything else about an architecture is in its config
// (weights/families) and in the names of its tensors (weights/decoder_tensors.cpp).
struct Row {
  weights::Architecture architecture;
  MakeDecoderLayer make_layer;
};
constexpr std::array kRows = {
    Row{weights::Architecture::llama, make<LlamaLayer>},
    Row{weights::Architecture::mistral, make<LlamaLayer>},
    Row{weights::Architecture::ministral3, make<LlamaLayer>},
    Row{weights::Architecture::qwen2, make<LlamaLayer>},
    Row{weights::Architecture::qwen3, make<LlamaLayer>},
    Row{weights::Architecture::phi3, make<LlamaLayer>},
    Row{weights::Architecture::smollm3, make<LlamaLayer>},
    Row{weights::Architecture::seed_oss, make<LlamaLayer>},
    Row{weights::Architecture::ernie4_5, make<LlamaLayer>},
    Row{weights::Architecture::granite, make<GraniteLayer>},
    Row{weights::Architecture::minicpm, make<GraniteLayer>},
    Row{weights::Architecture::gemma, make<LlamaLayer>},
    Row{weights::Architecture::gemma2, make<GemmaLayer>},
    Row{weights::Architecture::gemma3, make<GemmaLayer>},
    Row{weights::Architecture::glm, make<LlamaLayer>},
    Row{weights::Architecture::glm4, make<GemmaLayer>},
    Row{weights::Architecture::olmo2, make<Olmo2Layer>},
    Row{weights::Architecture::olmo3, make<Olmo2Layer>},
    Row{weights::Architecture::gpt2, make<LlamaLayer>},
    Row{weights::Architecture::gpt_bigcode, make<LlamaLayer>},
    Row{weights::Architecture::opt, make<LlamaLayer>},
    Row{weights::Architecture::starcoder2, make<LlamaLayer>},
    Row{weights::Architecture::gpt_neox, make_gpt_neox_layer},
    Row{weights::Architecture::falcon, make_gpt_neox_layer},
    Row{weights::Architecture::stablelm, make_gpt_neox_layer},
    Row{weights::Architecture::cohere, make_gpt_neox_layer},
    Row{weights::Architecture::cohere2, make_gpt_neox_layer},
    Row{weights::Architecture::gpt_oss, make<LlamaLayer>},
    Row{weights::Architecture::llama4, make<LlamaLayer>},
    Row{weights::Architecture::deepseek_v2, make<LlamaLayer>},
    Row{weights::Architecture::deepseek_v3, make<LlamaLayer>},
    Row{weights::Architecture::mixtral, make<LlamaLayer>},
    Row{weights::Architecture::qwen2_moe, make<LlamaLayer>},
    Row{weights::Architecture::qwen3_moe, make<LlamaLayer>},
    Row{weights::Architecture::olmoe, make<LlamaLayer>},
    Row{weights::Architecture::granite_moe, make<GraniteLayer>},
    Row{weights::Architecture::mamba, make<MambaLayer>},
    Row{weights::Architecture::mamba2, make<MambaLayer>},
    Row{weights::Architecture::bamba, make<LlamaLayer>},
    Row{weights::Architecture::falcon_h1, make<FalconH1Layer>},
    Row{weights::Architecture::granite_moe_hybrid, make<GraniteLayer>},
    Row{weights::Architecture::qwen3_next, make<LlamaLayer>},
    Row{weights::Architecture::qwen3_5, make<LlamaLayer>},
    Row{weights::Architecture::qwen3_5_moe, make<LlamaLayer>},
    Row{weights::Architecture::lfm2, make<LlamaLayer>},
    Row{weights::Architecture::bert, make<BertLayer>},
    Row{weights::Architecture::roberta, make<BertLayer>},
    Row{weights::Architecture::xlm_roberta, make<BertLayer>},
    Row{weights::Architecture::camembert, make<BertLayer>},
    Row{weights::Architecture::xlm_roberta_xl, make<LlamaLayer>},
    Row{weights::Architecture::distilbert, make<BertLayer>},
    Row{weights::Architecture::modernbert, make<LlamaLayer>},
    Row{weights::Architecture::nomic_bert, make<BertLayer>},
    Row{weights::Architecture::bart, make<BartLayer>},
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
