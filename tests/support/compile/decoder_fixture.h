#pragma once

#include <cstdint>

#include "reprise/program/program.h"

/// For tests of passes only.
namespace reprise::compile {

/// The properties of a decoder of float32. Each rank has two heads of q and one head of k and of v,
/// each 16 wide.
struct DecoderOptions {
  int num_layers = 2;
  int64_t ranks = 1;          // more: a sum over ranks after embedding, o_proj and down_proj
  int64_t num_heads = 2;      // of q
  bool has_qk_norm = false;   // as Qwen3
  bool has_experts = false;   // a custom op instead of gate_up_proj, silu_and_mul and down_proj
  bool is_quantized = false;  // products of int8: activations per token, after attention static
};

/// A decoder with the inputs of a forward (input_ids, positions, slot_mapping, query_start_loc,
/// seq_lens, block_table, logits_indices, num_logits), as tracing would give it, each rank with its
/// part of the weights. Returns logits.
[[nodiscard]] program::Program make_decoder(const DecoderOptions& options);

}  // namespace reprise::compile
