// Every op, each defined by one row: X(name, signature, properties).
//
// A signature names the operands with their shapes, then, after a semicolon, the attributes, then
// the results: "(x[T, K], weight[N, K], bias[N]?; epsilon) -> [T, N] over x".
//
// - A capital letter is a size: it has one value in all operands and results. A size may be a sum
//   of products, such as 2*I. `...` stands for any leading sizes. [>=R] accepts at least R, and
//   [T|1] accepts T or 1. The attributes `heads`, `length` and `ranks` may be used as sizes.
// - Elements have one type, that of the model, unless the shape has another in front: i32, f32, q8
//   (one type of eight bits) or `dtype` (the attribute). A result of type q8 takes the attribute
//   where no operand decides it.
// - `?` marks an operand that may be left out. `state` is memory that outlives the program, which
//   the op reads; `state!` is such memory that the op writes; `buffer` is memory that the op
//   overwrites.
// - "over x or y": the result may lie in the memory of x or of y, see aliasing.h.
//
// The properties are the fields of OpProperties (op_table.h).

// Memory of a given type; its content means nothing.
X(empty, "() -> [...]", .infer = infer_empty)

// Views: another shape and other strides over the memory of x. A view is no work.
// The `length` entries of dimension `dim` from `begin` on.
X(slice,
  "(x[...]; dim, begin, length) -> [...]",
  .infer = infer_slice,
  .is_view = true,
  .is_row_wise = true)
X(unflatten, "(x[T, heads*D]; heads) -> [T, heads, D]", .is_view = true, .is_row_wise = true)
X(flatten,
  "(x[T, H, D]) -> [T, H*D]",
  .check = check_adjacent_heads,
  .is_view = true,
  .is_row_wise = true)

// Row ids[t] of the table. The ids must be inside the table.
X(embedding, "(ids i32[T], table[V, H]) -> [T, H]", .is_row_wise = true)
// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, accumulated in float32.
X(rms_norm, "(x[..., H], weight[H]; epsilon) -> [..., H] over x", .is_row_wise = true)
X(add, "(a[...], b[...]) -> [...] over a or b", .is_row_wise = true)
// The norm of residual + x, and that sum: the bits of rms_norm(add(residual, x)) and of the sum.
X(fused_add_rms_norm,
  "(x[..., H], residual[..., H], weight[H]; epsilon) -> "
  "[..., H] over x or residual, [..., H] over x or residual",
  .is_row_wise = true,
  .parts = "add rms_norm")
// silu(gate) * up, where x is [T, gate | up].
X(silu_and_mul, "(x[T, 2*I]) -> [T, I]", .is_row_wise = true)
// The rows of x that `indices` names. The indices must be inside x.
X(gather_rows, "(x[T, H], indices i32[R]) -> [R, H]", .is_row_wise = true)

// x @ weight^T + bias, accumulated in float32.
X(linear, "(x[T, K], weight[N, K], bias[N]?) -> [T, N]")
// Logits of the rows below num_rows[0]. The number is read on the device when the work runs, so one
// graph serves any number of sampled rows up to its size.
X(lm_head, "(x[R, K], weight[V, K], num_rows i32[1]) -> f32[R, V]")

// Rotary embedding of queries and keys: the halves of a head rotate against each other, as in
// Hugging Face's Llama. A row of cos_sin holds D/2 cosines, then D/2 sines.
X(rope,
  "(q[T, G, D], k[T, N, D], positions i32[T], cos_sin f32[P, D]) -> "
  "[T, G, D] over q, [T, N, D] over k",
  .check = check_rotation,
  .is_row_wise = true)
// Writes the key and the value of token t to slot slot_mapping[t] = block * block_size + offset of
// the caches. A negative slot writes nothing.
X(kv_write,
  "(k[T, N, D], v[T, N, D], state! key_cache[B, N, S, D], state! value_cache[B, N, S, D], "
  "slot_mapping i32[T]) -> ()",
  .vllm_name = "vllm::unified_kv_cache_update")
// Causal attention of each token over the cached positions of its request. Tokens at and beyond
// query_start_loc[R] are padding: their rows of `out` become zero. A sliding_window of 0 means all
// earlier positions, any other includes the token itself.
X(attention,
  "(q[T, G*N, D], state key_cache[B, N, S, D], state value_cache[B, N, S, D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], buffer out[T, G*N, D]; "
  "scale, sliding_window) -> ()",
  .vllm_name = "vllm::unified_attention_with_output")

// Several of the ops above in one launch, with the bits that these have one after the other. The
// compiler makes them; models do not call them.
X(linear_add,
  "(x[T, K], weight[N, K], bias[N]?, residual[T, N]) -> [T, N] over residual",
  .parts = "linear add")
X(linear_silu_and_mul,
  "(x[T, K], weight[2*I, K], bias[2*I]?) -> [T, I]",
  .parts = "linear silu_and_mul")
// The norms of the heads of q and of k come first, if they are given.
X(rope_kv_write,
  "(q[T, G, D], k[T, N, D], v[T, N, D], positions i32[T], cos_sin f32[P, D], "
  "state! key_cache[B, N, S, D], state! value_cache[B, N, S, D], slot_mapping i32[T], "
  "q_norm[D]?, k_norm[D]?; epsilon) -> [T, G, D] over q",
  .check = check_rotation,
  .parts = "q_norm:rms_norm k_norm:rms_norm rope kv_write")
// The same of the q, k and v in the rows of linear(x, weight, bias).
X(linear_rope_kv_write,
  "(x[T, K], weight[heads*D+2*N*D, K], bias[heads*D+2*N*D]?, positions i32[T], cos_sin f32[P, D], "
  "state! key_cache[B, N, S, D], state! value_cache[B, N, S, D], slot_mapping i32[T], "
  "q_norm[D]?, k_norm[D]?; epsilon, heads) -> [T, heads, D]",
  .check = check_rotation,
  .parts = "linear q_norm:rms_norm k_norm:rms_norm rope kv_write")
// The same of rms_norm(x, norm). All norms of one op have one epsilon.
X(rms_norm_linear_silu_and_mul,
  "(x[T, K], weight[2*I, K], bias[2*I]?, norm[K]; epsilon) -> [T, I]",
  .after_norm = OpCode::linear_silu_and_mul,
  .parts = "rms_norm linear silu_and_mul")
X(rms_norm_linear_rope_kv_write,
  "(x[T, K], weight[heads*D+2*N*D, K], bias[heads*D+2*N*D]?, positions i32[T], cos_sin f32[P, D], "
  "state! key_cache[B, N, S, D], state! value_cache[B, N, S, D], slot_mapping i32[T], "
  "q_norm[D]?, k_norm[D]?, norm[K]; epsilon, heads) -> [T, heads, D]",
  .check = check_rotation,
  .after_norm = OpCode::linear_rope_kv_write,
  .parts = "rms_norm linear q_norm:rms_norm k_norm:rms_norm rope kv_write")
X(rms_norm_lm_head,
  "(x[R, K], weight[V, K], num_rows i32[1], norm[K]; epsilon) -> f32[R, V]",
  .after_norm = OpCode::lm_head,
  .parts = "rms_norm lm_head")

// Activations of eight bits, and a float32 scale for each token or one for all.
X(quantize_per_token, "(x[T, H]; dtype) -> q8[T, H], f32[T]", .is_row_wise = true)
X(quantize_static, "(x[...], scale f32[1]; dtype) -> q8[...]", .is_row_wise = true)
X(rms_norm_quant,
  "(x[T, H], weight[H]; epsilon, dtype) -> q8[T, H], f32[T]",
  .is_row_wise = true,
  .parts = "rms_norm quantize_per_token")
X(fused_add_rms_norm_quant,
  "(x[T, H], residual[T, H], weight[H]; epsilon, dtype) -> "
  "q8[T, H], f32[T], [T, H] over x or residual",
  .is_row_wise = true,
  .parts = "add rms_norm quantize_per_token")
X(silu_and_mul_quant,
  "(x[T, 2*I]; dtype) -> q8[T, I], f32[T]",
  .is_row_wise = true,
  .parts = "silu_and_mul quantize_per_token")
X(scaled_linear,
  "(x q8[T, K], scale f32[T|1], weight q8[N, K], weight_scale f32[N], bias dtype[N]?; dtype) -> "
  "dtype[T, N]")
// Weights that stay packed in blocks of 32 elements (block_panels.h), int8 all of them: rows of x
// become blocks of codes with a scale and sums, 40 bytes each; a packed weight has W bytes a row.
X(quantize_blocks, "(x[T, 4*8*B]; dtype) -> q8[T, 5*8*B]")
X(block_linear,
  "(x q8[T, 5*8*B], weight q8[N, W], bias dtype[N]?; dtype) -> dtype[T, N]",
  .check = check_packed_weight)
X(block_lm_head,
  "(x q8[R, 5*8*B], weight q8[V, W], num_rows i32[1]) -> f32[R, V]",
  .check = check_packed_weight)
// Rows of a packed table as numbers. The ids must be inside the table.
X(block_embedding, "(ids i32[T], weight q8[V, W]; length, dtype) -> dtype[T, length]")
X(rms_norm_quantize_blocks,
  "(x[T, 4*8*B], weight[4*8*B]; epsilon, dtype) -> q8[T, 5*8*B]",
  .parts = "rms_norm quantize_blocks")
X(block_linear_add,
  "(x q8[T, 5*8*B], weight q8[N, W], bias[N]?, residual[T, N]) -> [T, N] over residual",
  .check = check_packed_weight,
  .parts = "block_linear add")
X(block_linear_silu_and_mul,
  "(x q8[T, 5*8*B], weight q8[2*I, W], bias dtype[2*I]?; dtype) -> dtype[T, I]",
  .check = check_packed_weight,
  .parts = "block_linear silu_and_mul")
X(block_linear_silu_and_mul_quantize_blocks,
  "(x q8[T, 5*8*B], weight q8[8*8*C, W], bias dtype[8*8*C]?; dtype) -> q8[T, 5*8*C]",
  .check = check_packed_weight,
  .parts = "block_linear silu_and_mul quantize_blocks")
X(attention_quant,
  "(q[T, G*N, D], state key_cache[B, N, S, D], state value_cache[B, N, S, D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], scale f32[1], "
  "buffer out q8[T, G*N, D]; scale, sliding_window) -> ()",
  .splits_as = OpCode::attention,
  .parts = "attention quantize_static")

// Between the ranks of a group. Each rank runs the same program on its part.
X(all_reduce, "(x[...]; ranks) -> [...]")              // the sum over the ranks
X(reduce_scatter, "(x[ranks*T, H]; ranks) -> [T, H]")  // the rows of the sum that are this rank's
X(all_gather, "(x[T, H]; ranks) -> [ranks*T, H]")      // the rows of all ranks
X(fused_all_reduce_add_rms_norm,
  "(x[..., H], residual[..., H]?, weight[H]; epsilon, ranks) -> [..., H], [..., H]",
  .parts = "all_reduce add rms_norm")
X(linear_reduce_scatter,
  "(x[ranks*T, K], weight[N, K], bias[N]?; ranks) -> [T, N]",
  .parts = "linear reduce_scatter")
X(all_gather_linear,
  "(x[T, K], weight[N, K], bias[N]?; ranks) -> [ranks*T, N]",
  .parts = "all_gather linear")

// Operands and results are those of the generated code (RowGroup), or of the user's op (CustomOp).
X(row_group, "(; group) -> ()", .infer = infer_row_group)
X(custom, "() -> ()", .infer = infer_custom)
