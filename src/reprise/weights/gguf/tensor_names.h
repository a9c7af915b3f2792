#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/weights/decoder_tensors.h"
#include "reprise/weights/model_config.h"

namespace reprise::weights::gguf {

/// The name that models ask for ("model.layers.3.self_attn.q_proj.weight"), by that of the file
/// ("blk.3.attn_q.weight"). A name that the format does not define stays as it is. `names`: those
/// of the family, for routers and shared experts. "ffn_up" of Phi-3 holds the gate too.
[[nodiscard]] std::string hugging_face_name(std::string_view name,
                                            const DecoderTensors& names = {},
                                            Architecture architecture = Architecture::llama);

/// The matrices of experts that one tensor holds: those of all experts of a layer
/// ("blk.3.ffn_up_exps.weight"), or of one expert as in files before 2024
/// ("blk.3.ffn_up.7.weight").
struct ExpertMatricesName {
  int64_t layer = 0;
  std::string_view module;  // of DecoderTensors: that of gate, up or down
  std::optional<int64_t> expert;

  bool operator==(const ExpertMatricesName&) const = default;
};
[[nodiscard]] std::optional<ExpertMatricesName> find_expert_matrices(std::string_view name,
                                                                     const DecoderTensors& names);

/// The number of heads whose rows the file has in the order of the pairs that rotary embedding
/// turns; 0 for a tensor whose rows are in the order of the checkpoint. Converters interleave the
/// two halves of each head of q and k, for "llama" and the architectures made after it: row 2j of
/// the file is row j of the checkpoint's head, row 2j + 1 is row head_dim / 2 + j.
[[nodiscard]] int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config);

/// The row of the checkpoint that is row `row` of the file. \pre row < num_rows, and each head has
/// an even number of rows
[[nodiscard]] int64_t checkpoint_row(int64_t row, int64_t num_rows, int64_t num_heads);
/// The inverse.
[[nodiscard]] int64_t stored_row(int64_t row, int64_t num_rows, int64_t num_heads);

}  // namespace reprise::weights::gguf
