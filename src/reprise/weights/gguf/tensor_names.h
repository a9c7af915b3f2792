#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::weights::gguf {

/// Which rows of a checkpoint's tensor form a tensor of the file. The checkpoint's tensor has
/// groups of rows, one for each head or expert: in each group, the first rows, then the last.
enum class RowsOfGroup : uint8_t { all, first, last };

/// The name under which models look up a tensor of a file.
struct CheckpointName {
  std::string name;  // "model.layers.3.self_attn.q_proj.weight"
  RowsOfGroup rows = RowsOfGroup::all;
  int64_t num_groups = 1;      // groups of rows; for a tensor of all experts, their number
  bool is_transposed = false;  // the rows of a group are the columns of a matrix in the file
  /// Parts of each group's rows: the file has the first parts of all groups, then the second parts
  /// of all groups, and so on.
  std::vector<int64_t> pieces = {};

  bool operator==(const CheckpointName&) const = default;
};

/// The name that models ask for, from the name in the file ("blk.3.attn_q.weight"). Nothing: models
/// of this configuration have no tensor with that name. `names`: those of the family.
[[nodiscard]] std::optional<CheckpointName> checkpoint_name(std::string_view name,
                                                            const ModelConfig& config,
                                                            const DecoderTensors& names);

/// The layer of a tensor ("blk.3.attn_q.weight"). Nothing: the tensor belongs to no layer.
[[nodiscard]] std::optional<int64_t> layer_of(std::string_view name);

/// The name without its layer ("attn_q.weight").
[[nodiscard]] std::string_view name_in_layer(std::string_view name);

/// Which experts' matrices a tensor holds: those of all experts of a layer
/// ("blk.3.ffn_up_exps.weight"), or of one expert, as in files before 2024
/// ("blk.3.ffn_up.7.weight").
struct ExpertMatricesName {
  int64_t layer = 0;
  std::string_view module;  // from DecoderTensors: the name of gate, up or down
  /// In each matrix the rows of this module come after those of `module` ("ffn_gate_up_exps").
  /// Empty: there are none.
  std::string_view second_module = {};
  std::optional<int64_t> expert = {};

  bool operator==(const ExpertMatricesName&) const = default;
};
[[nodiscard]] std::optional<ExpertMatricesName> find_expert_matrices(std::string_view name,
                                                                     const DecoderTensors& names);

/// How the checkpoint's values are computed from the file's.
enum class ValueChange : uint8_t {
  none,
  minus_one,        // norms that multiply by 1 + weight: the file has that sum
  log_of_negative,  // A of a recurrence: the file has -exp(A_log)
};
[[nodiscard]] ValueChange value_change(std::string_view name, const ModelConfig& config);

/// Whether the tensor is a table that the model computes itself.
[[nodiscard]] bool is_derived(std::string_view name);

/// The number of heads whose rows the file has in the order of the pairs that rotary embedding
/// turns; 0 for a tensor whose rows are in the order of the checkpoint. Converters interleave the
/// two halves of each head of q and k, for "llama" and the architectures made after it: row 2j of
/// the file is row j of the checkpoint's head, row 2j + 1 is row head_dim / 2 + j.
[[nodiscard]] int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config);

/// The row of the file that corresponds to row `row` of the checkpoint. \pre row < num_rows, and
/// each head has an even number of rows
[[nodiscard]] int64_t stored_row(int64_t row, int64_t num_rows, int64_t num_heads);

/// Changes the order of matrices in `config`, which the readers of config.json have set, to the
/// order in files: converters stack q, k and v, store matrices as [out, in], and order the heads of
/// Qwen3.5's values so that those that share a query and key are apart.
void use_order_of_files(ModelConfig& config);

}  // namespace reprise::weights::gguf
