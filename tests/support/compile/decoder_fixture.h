#pragma once

#include <cstdint>

#include "reprise/program/program.h"

/// For tests of passes only.
namespace reprise::compile {

/// Options of a float32 decoder. Each rank has `num_heads` heads of q and one head of k and of v,
/// each with 16 elements.
struct DecoderOptions {
  int num_layers = 2;
  int64_t ranks = 1;         // more than 1: sums over ranks follow embedding, o_proj and down_proj
  int64_t num_heads = 2;     // heads of q
  bool has_qk_norm = false;  // like Qwen3
  bool has_experts = false;  // a custom op replaces gate_up_proj, silu_and_mul and down_proj
  // Int8 matrix products: scales of activations per token, but static ones after attention.
  bool is_quantized = false;
};

/// Makes the program that tracing would make of a decoder, with the inputs of a forward (input_ids,
/// positions, slot_mapping, query_start_loc, seq_lens, block_table, logits_indices, num_logits).
/// Each rank has its part of the weights. The program returns logits.
[[nodiscard]] program::Program make_decoder(const DecoderOptions& options);

}  // namespace reprise::compile
