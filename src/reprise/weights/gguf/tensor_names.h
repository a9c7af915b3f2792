#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reprise/weights/model_config.h"

namespace reprise::weights::gguf {

/// The name that models ask for ("model.layers.3.self_attn.q_proj.weight"), by that of the file
/// ("blk.3.attn_q.weight"). A name that the format does not define stays as it is. "ffn_up" of
/// Phi-3 holds the gate too.
[[nodiscard]] std::string hugging_face_name(std::string_view name,
                                            Architecture architecture = Architecture::llama);

/// The number of heads whose rows the file has in the order of the pairs that rotary embedding
/// turns; 0 for a tensor whose rows are in the order of the checkpoint. Converters interleave the
/// two halves of each head of q and k, for "llama" and what is converted like it: row 2j of the
/// file is row j of the checkpoint's head, row 2j + 1 is row head_dim / 2 + j.
[[nodiscard]] int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config);

/// The row of the checkpoint that is row `row` of the file. \pre row < num_rows, and each head has
/// an even number of rows
[[nodiscard]] int64_t checkpoint_row(int64_t row, int64_t num_rows, int64_t num_heads);
/// The inverse.
[[nodiscard]] int64_t stored_row(int64_t row, int64_t num_rows, int64_t num_heads);

}  // namespace reprise::weights::gguf
