#pragma once

#include <memory>

#include "reprise/models/decoder.h"
#include "reprise/models/layer_parts.h"

/// The layers of which decoders and encoders are made.
namespace reprise::models {

/// The layer of Llama, and of all decoders with a norm before attention and a norm before the MLP:
/// Mistral (sliding window), Qwen2 (bias on q, k and v), Qwen3 (norms of q and k), Phi-3 (fused
/// projections), SmolLM3 (layers without rotation), GPT-2 and OPT (LayerNorm, no gate, learned
/// positions), mixtures of experts (another feed-forward part), DeepSeek (latent attention), and
/// encoders such as ModernBERT.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_llama_layer(const LayerParts& parts);

/// The layer of Granite, Granite 4 and MiniCPM: the results of attention and MLP are scaled before
/// they are added to the residual, so that the depth of the model does not change the size of the
/// sums.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_granite_layer(const LayerParts& parts);

/// The layer of Gemma 2, Gemma 3 and GLM-4: a norm before and a norm after each of attention and
/// MLP.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_gemma_layer(const LayerParts& parts);

/// The layer of Gemma 4: like Gemma 3, and then the layer's own embedding of the token is added.
/// The residual is multiplied by a number at the end.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_gemma4_layer(const LayerParts& parts);

/// The layer of OLMo 2: attention and MLP read the residual itself, and norms come after them.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_olmo2_layer(const LayerParts& parts);

/// The layer of GPT-NeoX, Falcon and some StableLM: attention and MLP read the same residual, and
/// both add to it. The MLP has a norm of its own, or reads the result of the norm before attention.
/// If the config turns the parallel residual off, this is the layer of Llama.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_gpt_neox_layer(const LayerParts& parts);

/// The layer of Mamba and Mamba-2: the recurrence does the work of attention and MLP.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_mamba_layer(const LayerParts& parts);

/// The layer of Falcon-H1: attention and a recurrence of Mamba-2 read the same norm, and the sum of
/// their results is added to the residual. Every input and every result of a part of the layer has
/// a multiplier. Source: Zuo et al., "Falcon-H1" (2025), sections 2 and 3.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_falcon_h1_layer(const LayerParts& parts);

/// The layer of Nemotron-H: one norm, and then one of four parts: attention, a recurrence of
/// Mamba-2, an MLP or experts.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_nemotron_h_layer(const LayerParts& parts);

/// The layer of BERT: attention in both directions and an MLP, each with a norm after its sum.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_bert_layer(const LayerParts& parts);

/// The layer of OPT: like Llama; or, with norms after the sums, like BERT, but its attention sees
/// no later tokens.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_opt_layer(const LayerParts& parts);

/// The layer of BART's decoder: attention to the answer, attention to the encoder's text and an
/// MLP, each with a norm after its sum.
[[nodiscard]] std::unique_ptr<DecoderLayer> make_bart_layer(const LayerParts& parts);

}  // namespace reprise::models
