#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/models/expert_counting.h"
#include "reprise/models/parameters.h"
#include "reprise/tensor/compile_support.h"
#include "reprise/tensor/tensor.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// The hidden states of a forward that a draft head reads.
struct AuxiliaryStates {
  /// The inputs of these layers, side by side. The number of layers, as an index, stands for the
  /// result of the last layer. Ascending.
  std::vector<int64_t> layers;
  bool last_hidden = false;  // true: instead of `layers`, the hidden states after the last norm

  friend bool operator==(const AuxiliaryStates&, const AuxiliaryStates&) = default;
};

/// The weights of a model that a draft head may use too.
struct SharedTensors {
  Tensor embedding;
  Tensor lm_head;
};

/// A decoder that predicts the next token, or a model that makes a vector of each text. Its
/// functions that compute have no effects except the cache writes of attention, allocate only
/// results, and do not branch on token counts: a function that runs eagerly can also be captured.
class CausalLM {
 public:
  virtual ~CausalLM() = default;

  /// Hidden states after the last norm.
  [[nodiscard]] virtual Tensor forward(cudagraph::ForwardContext& context,
                                       const Tensor& input_ids,       // int32[num_tokens]
                                       const Tensor& positions) = 0;  // int32[num_tokens]

  /// Makes the keys and values of a text to which the decoder attends, and writes them to the slots
  /// of the text. \pre has_encoder()
  virtual void encode(cudagraph::ForwardContext& /*context*/,
                      const Tensor& /*input_ids*/,
                      const Tensor& /*positions*/) {}
  [[nodiscard]] virtual bool has_encoder() const { return false; }

  /// Logits of the rows `logits_indices`; only the first num_logits[0] of them are computed. If the
  /// config has `pooling`: the vectors, in float32, of the texts whose last tokens these rows are.
  [[nodiscard]] virtual Tensor compute_logits(const Tensor& hidden,          // [num_tokens, hidden]
                                              const Tensor& logits_indices,  // int32[max_rows]
                                              const Tensor& num_logits) = 0;  // int32[1]

  [[nodiscard]] virtual std::span<attention::AttentionLayer* const> attention_layers() = 0;

  /// Undefined if the model has no such weights.
  [[nodiscard]] virtual SharedTensors shared_tensors() const { return {}; }
  /// Makes each later forward() store these hidden states in ForwardContext::auxiliary. \pre the
  /// layers exist
  /// NOLINTNEXTLINE(performance-unnecessary-value-param): models with layers keep the value.
  virtual void set_auxiliary(AuxiliaryStates /*states*/) {}
  /// Columns of the hidden states that forward() reads (ForwardContext::hidden_states); 0: none.
  [[nodiscard]] virtual int64_t hidden_input_size() const { return 0; }

  /// Whether and how levels 1 to 3 may trace these functions. dynamic_arg_dims names dimensions of
  /// `input_ids`, of `positions` and, for draft heads, of `hidden_states`. Levels 2 and 3 need all
  /// dimensions that change with the batch; level 1 traces each number of tokens separately if one
  /// is left out.
  [[nodiscard]] virtual CompileSupport compile_support() const { return {}; }
};

/// Loads the model of `config.architecture`. `parameters` keeps the weights and must outlive the
/// model. The model will use positions below `max_positions`. `adapters` gets a layer for each
/// projection that adapters may change; nullptr: the model has no adapters. `expert_counting`:
/// where layers with experts count their tokens; borrowed while the model is made; nullptr:
/// nowhere.
/// \throws FileError for tensors that are missing or misshapen
[[nodiscard]] std::unique_ptr<CausalLM> create_model(
    const weights::ModelConfig& config,
    int64_t max_positions,
    Parameters& parameters,
    lora::AdapterSlots* adapters = nullptr,
    const ExpertCounting* expert_counting = nullptr);

}  // namespace reprise::models
