#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::weights {

/// The published layouts of draft heads.
enum class DraftHeadKind : uint8_t {
  eagle,     // reads the last hidden states of its target
  eagle3,    // reads the inputs of some of its target's layers
  mtp,       // DeepSeek's and GLM's multi-token prediction: a further layer in their checkpoints
  qwen_mtp,  // that of Qwen3-Next and Qwen3.5: the modules "mtp.*" of their checkpoints
};

/// A draft head: one layer that predicts the next token from the hidden states of another model,
/// its target. A value.
struct DraftHeadConfig {
  DraftHeadKind kind = DraftHeadKind::eagle3;
  ModelConfig model;  // the head as a model with one layer
  int64_t target_num_layers = 0;
  // Rows of the head's lm_head; in eagle3 only some tokens may have a row.
  int64_t draft_vocab_size = 0;
  /// The layers of the target whose inputs the head reads, side by side. Empty: the head reads the
  /// target's hidden states after the last norm.
  std::vector<int64_t> auxiliary_layers;
  bool norm_before_residual = false;  // the residual is the normed hidden state
  // Later steps read the hidden states after the head's last norm.
  bool norm_output = false;

  friend bool operator==(const DraftHeadConfig&, const DraftHeadConfig&) = default;

  /// Whether the head is in the checkpoint of its target.
  [[nodiscard]] bool is_mtp() const noexcept {
    return kind == DraftHeadKind::mtp || kind == DraftHeadKind::qwen_mtp;
  }
  /// The number of columns of the target's hidden states that the head reads.
  [[nodiscard]] int64_t feature_size() const noexcept {
    const auto parts = static_cast<int64_t>(auxiliary_layers.size());
    return model.hidden_size * (parts == 0 ? 1 : parts);
  }
};

/// Reads the config.json of an EAGLE head. `model`: the same file, read as that of a Llama. Source
/// of the defaults: vLLM 0.32, llama_eagle3.py and gpu_model_runner.py. \throws FileError E_CONFIG
/// for a member that is not supported, or that does not fit the target
[[nodiscard]] DraftHeadConfig parse_eagle_config(DraftHeadKind kind,
                                                 std::string_view json,
                                                 std::string_view path,
                                                 ModelConfig model,
                                                 const ModelConfig& target);

/// The MTP head in the checkpoint of a target. \throws FileError E_CONFIG if the target's family
/// has no supported head
[[nodiscard]] DraftHeadConfig mtp_config(std::string_view json,
                                         std::string_view path,
                                         const ModelConfig& target);

}  // namespace reprise::weights
