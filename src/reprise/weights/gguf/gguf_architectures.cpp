#include "reprise/weights/gguf/gguf_architectures.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

using enum CopiedMember::Type;

// Those of Granite. As in llama.cpp, a factor that is absent or 0 is not applied, and attention is
// then scaled as usual.
void read_granite(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  const auto factor = [&](std::string_view name, double by_default) {
    const double value = keys.number(name).value_or(0);
    return value == 0 ? by_default : value;
  };
  const double usual_scale = 1 / std::sqrt(config["head_dim"].get<double>());
  config["attention_multiplier"] = factor("attention.scale", usual_scale);
  config["embedding_multiplier"] = factor("embedding_scale", 1);
  config["residual_multiplier"] = factor("residual_scale", 1);
  config["logits_scaling"] = factor("logit_scale", 1);
}

// llama.cpp has factors of its own for files of MiniCPM that name none.
void read_minicpm(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  for (const std::string_view name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    if (!keys.number(name)) keys.fail(name, "is required; convert the model again to get it");
  }
  read_granite(keys, traits, config);
}

// The scale of scores is 1 / sqrt(query_pre_attn_scalar), which is no part of a file. As in
// llama.cpp, the largest published size has another one than the others.
void read_gemma_scale(int64_t layers_of_largest, Json& config) {
  const auto hidden_size = config["hidden_size"].get<int64_t>();
  const auto num_heads = config["num_attention_heads"].get<int64_t>();
  config["query_pre_attn_scalar"] = config["num_hidden_layers"] == layers_of_largest
                                        ? hidden_size / num_heads
                                        : config["head_dim"].get<int64_t>();
}
void read_gemma2(const ArchitectureKeys& /*keys*/,
                 const GgufConfigTraits& /*traits*/,
                 Json& config) {
  read_gemma_scale(46, config);
}
void read_gemma3(const ArchitectureKeys& /*keys*/,
                 const GgufConfigTraits& /*traits*/,
                 Json& config) {
  read_gemma_scale(62, config);
}

constexpr auto kWindow =
    std::to_array<CopiedMember>({{"attention.sliding_window", "sliding_window"}});
constexpr auto kGemmaMembers = std::to_array<CopiedMember>({
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping", number},
    {"final_logit_softcapping", "final_logit_softcapping", number},
    {"rope.freq_base_swa", "rope_local_base_freq", number},
});

// Mistral models of the kind that this engine runs are "llama". MiniCPM computes what Granite does,
// and its files have the factors under Granite's keys.
// Source: gguf-py/gguf/constants.py of https://github.com/ggml-org/llama.cpp
constexpr auto kArchitectures = std::to_array<GgufArchitecture>({
    {.name = "ernie4_5", .model_class = "Ernie4_5ForCausalLM"},
    {.name = "gemma", .model_class = "GemmaForCausalLM"},
    {.name = "gemma2",
     .model_class = "Gemma2ForCausalLM",
     .members = kGemmaMembers,
     .read = read_gemma2},
    {.name = "gemma3",
     .model_class = "Gemma3ForCausalLM",
     .members = kGemmaMembers,
     .read = read_gemma3},
    {.name = "granite",
     .model_class = "GraniteForCausalLM",
     .reads_logit_scale = true,
     .read = read_granite},
    {.name = "granitemoe",
     .model_class = "GraniteMoeForCausalLM",
     .has_experts = true,
     .reads_logit_scale = true,
     .read = read_granite},
    {.name = "llama", .model_class = "LlamaForCausalLM"},
    {.name = "llama", .model_class = "MixtralForCausalLM", .has_experts = true},
    {.name = "minicpm",
     .model_class = "GraniteForCausalLM",
     .reads_logit_scale = true,
     .read = read_minicpm},
    {.name = "olmo2", .model_class = "Olmo2ForCausalLM"},
    {.name = "olmoe", .model_class = "OlmoeForCausalLM", .has_experts = true},
    // As in Transformers, the window counts, which llama.cpp leaves out.
    {.name = "phi3",
     .model_class = "Phi3ForCausalLM",
     .rotates_part = true,
     .reads_longrope = true,
     .members = kWindow},
    {.name = "qwen2", .model_class = "Qwen2ForCausalLM"},
    {.name = "qwen2moe", .model_class = "Qwen2MoeForCausalLM", .has_experts = true},
    {.name = "qwen3", .model_class = "Qwen3ForCausalLM"},
    {.name = "qwen3moe", .model_class = "Qwen3MoeForCausalLM", .has_experts = true},
    {.name = "seed_oss", .model_class = "SeedOssForCausalLM"},
    {.name = "smollm3", .model_class = "SmolLM3ForCausalLM"},
});

}  // namespace

const GgufArchitecture& find_architecture(const ArchitectureKeys& keys, const Metadata& metadata) {
  const bool has_experts = keys.integer("expert_count").value_or(0) != 0;
  const GgufArchitecture* found = nullptr;
  std::string supported;
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.name == keys.architecture() && (found == nullptr || row.has_experts == has_experts)) {
      found = &row;
    }
    if (supported.ends_with(row.name)) continue;  // the row before
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", row.name);
  }
  if (found == nullptr) {
    metadata.fail("general.architecture",
                  fmt::format("'{}' is not supported in a GGUF file; supported: {}",
                              visible(keys.architecture()),
                              supported));
  }
  if (has_experts && !found->has_experts) {
    keys.fail("expert_count", "this architecture is supported without experts only");
  }
  return *found;
}

}  // namespace reprise::weights::gguf
