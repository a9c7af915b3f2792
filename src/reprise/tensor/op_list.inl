// The list of all ops. Each row defines one op: X(name, signature, properties).
//
// A signature has the form "(operands; attributes) -> results", for example
//
// - A capital letter is a size: it has one value in all operands and results. A size may be a sum
//   of products, such as 2*I. `...` stands for any leading sizes. [>=R] accepts at least R, and
//   [T|1] accepts T or 1. The attributes `heads`, `length`, `top_k` and `ranks` may be used as
//   sizes.
// - The attribute `function` says which of several functions (op_function.h) the op computes. The
//   signature lists them: `function=gelu|relu`.
// - Elements have one type, that of the model, unless the shape has another in front: i32, f32, q8
//   (one type of eight bits), `packed` (that of the model in any layout of weight_layout.h), `act`
//   (that of the model, or int8 in the form that the layout of the weight asks for, whose rows have
//   another size), `cache` (that of the model, or one of eight bits) or `dtype` (the attribute). A
//   result of type q8 takes the attribute where no operand decides it.
// - `?` marks an operand that may be left out. `state` is memory that outlives the program, which
//   the op reads; `state!` is such memory that the op writes; `buffer` is memory that the op
//   overwrites.
// - "over x or y": the result may lie in the memory of x or of y, see aliasing.h.
//
// The properties are the fields of OpProperties (op_table.h).

// Memory of a given type with undefined content.
X(empty, "() -> [...]", .infer = infer_empty)

// Views: the same memory with another shape and other strides. A view launches nothing.
// slice takes the `length` entries of dimension `dim` that start at `begin`.
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

// Row t of the result is row ids[t] of the table. Every id must be a row of the table.
X(embedding, "(ids i32[T], table packed[V, H]) -> [T, H]", .is_row_wise = true)
// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, accumulated in float32.
X(rms_norm, "(x[..., H], weight[H]; epsilon) -> [..., H] over x", .is_row_wise = true)
X(add, "(a[...], b[...]) -> [...] over a or b", .is_row_wise = true)
// Two results: first rms_norm of the sum residual + x, then the sum. Both have the same bits as
// rms_norm(add(residual, x)) and add(residual, x).
X(fused_add_rms_norm,
  "(x[..., H], residual[..., H], weight[H]; epsilon) -> "
  "[..., H] over x or residual, [..., H] over x or residual",
  .is_row_wise = true,
  .parts = "add rms_norm")
// silu(gate) * up. The first I columns of x are the gate, the other I columns are up.
X(silu_and_mul, "(x[T, 2*I]) -> [T, I]", .is_row_wise = true)
// Row r of the result is row indices[r] of x. Every index must be a row of x.
X(gather_rows, "(x[T, H], indices i32[R]) -> [R, H]", .is_row_wise = true)

// x @ weight^T + bias, accumulated in float32. The layout of the weight decides the form of x: its
// elements, its blocks (quantize_blocks), or int8 rows with a scale for each (quantize_per_token)
// or one for all (quantize_static). If x is elements where blocks or int8 rows are asked for, the
// op quantises them itself. All products below are such products. If one has the operand `norm`,
// its x is rms_norm(x, norm); all norms of one op use the same epsilon.
X(linear,
  "(x act[T, K], weight packed[N, K], bias[N]?, scale f32[T|1]?) -> [T, N]",
  .check = check_product)
// Logits of the rows r < num_rows[0]. The kernel reads num_rows on the device, so one graph serves
// any number of sampled rows from 0 to R.
X(lm_head,
  "(x act[R, K], weight packed[V, K], num_rows i32[1], scale f32[R]?, norm[K]?; epsilon) -> "
  "f32[R, V]",
  .check = check_product,
  .parts = "norm:rms_norm lm_head")

// Rotary embedding of queries and keys. It rotates element i of a head against element i + D/2, as
// in Hugging Face's Llama. A row of cos_sin holds D/2 cosines, then D/2 sines.
X(rope,
  "(q[T, G, D], k[T, N, D], positions i32[T], cos_sin f32[P, D]) -> "
  "[T, G, D] over q, [T, N, D] over k",
  .check = check_rotation,
  .is_row_wise = true)
// Writes the key and the value of token t to slot slot_mapping[t] of the caches. A slot is block *
// block_size + offset. Tokens with a negative slot are not written. The caches have the model's
// element type, or eight bits: then a key is divided by k_scale and a value by v_scale before it is
// stored. Rows that are four bytes longer than a head end with a float32 scale of their own, which
// replaces k_scale and v_scale. int8 rows always have one.
X(kv_write,
  "(k[T, N, D], v[T, N, D], state! key_cache cache[B, N, S, >=D], "
  "state! value_cache cache[B, N, S, >=D], slot_mapping i32[T]; k_scale, v_scale) -> ()",
  .check = check_caches,
  .vllm_name = "vllm::unified_kv_cache_update")
// Causal attention of each token over the cached positions of its request. Tokens from
// query_start_loc[R] on are padding: their rows of `out` become zero. A token sees its own position
// and all earlier ones; with a sliding_window > 0 only the last sliding_window of these; with a
// chunk_size > 0 only those of its own chunk of chunk_size positions. A soft_cap c > 0 replaces
// each score s by c * tanh(s / c), after s was multiplied by `scale`.
X(attention,
  "(q[T, G*N, D], state key_cache cache[B, N, S, >=D], state value_cache cache[B, N, S, >=D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], buffer out[T, G*N, D]; "
  "scale, k_scale, v_scale, sliding_window, chunk_size, soft_cap) -> ()",
  .check = check_caches,
  .vllm_name = "vllm::unified_attention_with_output")

// Ops of decoders other than Llama.
//
// x / sqrt(mean(x^2) + epsilon) * (1 + weight): Gemma's checkpoints hold weights minus 1.
X(gemma_rms_norm, "(x[..., H], weight[H]; epsilon) -> [..., H] over x", .is_row_wise = true)
// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension.
X(layer_norm, "(x[..., H], weight[H], bias[H]?; epsilon) -> [..., H] over x", .is_row_wise = true)
// gelu(x) = x * (1 + erf(x / sqrt(2))) / 2; gelu_tanh is its approximation by tanh; relu2 is the
// square of relu(x).
X(activation, "(x[...]; function=gelu|gelu_tanh|relu|relu2) -> [...] over x", .is_row_wise = true)
// function(gate) * up, where x is [T, gate | up].
X(activation_and_mul, "(x[T, 2*I]; function=gelu|gelu_tanh) -> [T, I]", .is_row_wise = true)
// x * scale.
X(scale, "(x[...]; scale) -> [...] over x", .is_row_wise = true)
// soft_cap * tanh(x / soft_cap).
X(soft_cap, "(x[...]; soft_cap) -> [...] over x", .is_row_wise = true)
// x, but at least `least` and at most `limit`.
X(clamp, "(x[...]; least, limit) -> [...] over x", .is_row_wise = true)

// Mixtures of experts. All sizes follow from T and top_k, so the work is the same for every choice
// of experts.
// The top_k experts of each token, best first, with their weights, multiplied by `scale`. Of equal
// experts the lower one comes first.
// softmax_of_all, softmax_of_chosen and ones choose the experts with the largest logits, without
// groups (groups = top_groups = 0) and without a bias. Their weights are those of the softmax over
// all experts or over the chosen ones, or 1.
// The other functions choose by score plus bias, where a score is the softmax over all experts or
// the sigmoid of the logit. Experts are divided into `groups` of neighbours, and a token chooses
// from the top_groups best groups. With softmax a group counts as much as its best expert, with
// sigmoid as its two best experts. The weights are the scores of the chosen experts; the normalized
// functions divide them by their sum.
X(select_experts,
  "(logits[T, E], bias f32[E]?; "
  "function=softmax_of_all|softmax_of_chosen|ones|softmax|normalized_softmax|sigmoid|"
  "normalized_sigmoid, scale, top_k, groups, top_groups) -> f32[T, top_k], i32[T, top_k]")
// The experts of a rank are those from `begin` to begin + length. They are numbered from 0 in the
// result; other experts become -1 with the weight 0.
X(local_experts, "(weights f32[T, K], experts i32[T, K]; begin, length) -> f32[T, K], i32[T, K]")
// The weight of each chosen expert times the factor of that expert; 0 for expert -1.
X(scale_experts, "(weights f32[T, K], experts i32[T, K], scales[E]) -> f32[T, K]")
// Row r of the result is linear() with the weight of expert experts[r / K, r % K]. The row of x is
// that of the token, r / K, if x has T rows, and r if x has T * K rows. A row with expert -1 is 0.
// In blocks, N is a multiple of 16, so that no panel has outputs of two experts.
X(expert_linear,
  "(x act[R, H], weight packed[E, N, H], bias[E, N]?, experts i32[T, K]) -> [T*K, N]",
  .check = check_experts)
// The sum over k of weights[t, k] * x[t * K + k].
X(combine_experts, "(x[T*K, H], weights f32[T, K]) -> [T, H]")
// The gated function of GPT-OSS for x = [gate | up]: (u + 1) * g * sigmoid(1.702 * g), where g is
// the gate, at most `limit`, and u is up, between -limit and limit.
X(swigluoai_and_mul, "(x[T, 2*I]; limit) -> [T, I]")
// x * sigmoid(gate), with one gate for each row.
X(sigmoid_gate, "(x[..., H], gate[..., 1]) -> [..., H] over x")

// Multi-head latent attention. The cache has one row for each position, which all heads share: the
// latent, then the rotated key.
// The last dimensions of a and b side by side.
X(concat, "(a[T, H, K], b[T, H, L]) -> [T, H, K+L]")
// Row h of token t is linear() of that row of x with weight h.
X(head_linear, "(x[T, H, K], weight[H, N, K]) -> [T, H, N]")
// Writes the cache row of token t to slot slot_mapping[t], as kv_write does.
X(concat_and_cache_mla,
  "(kv_c[T, R], k_pe[T, 1, P], state! kv_cache[B, 1, S, R+P], slot_mapping i32[T]) -> ()",
  .vllm_name = "vllm::unified_mla_kv_cache_update")
// Causal attention like that of `attention`, where a cache row is the key of all heads and its
// first L elements are the value. With an index, the row ends with an index key of E elements, and
// a token sees only the top_k positions of the highest index scores: the sum over I of
// index_weights * relu(index_q . index key). Of equal scores, earlier positions come first.
X(mla_attention,
  "(q[T, H, D], state kv_cache[B, 1, S, >=D], query_start_loc i32[R+1], seq_lens i32[R], "
  "block_table i32[>=R, M], buffer out[T, H, L], index_q[T, I, E]?, index_weights[T, I]?; "
  "scale, top_k) -> ()",
  .check = check_latent,
  .vllm_name = "vllm::unified_mla_attention_with_output")

// Other kinds of `attention` over the same caches.
// The softmax of each head has one more score, sinks[head], whose value is 0.
X(attention_with_sinks,
  "(q[T, G*N, D], state key_cache cache[B, N, S, >=D], state value_cache cache[B, N, S, >=D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], sinks[G*N], "
  "buffer out[T, G*N, D]; scale, k_scale, v_scale, sliding_window) -> ()",
  .check = check_caches,
  .splits_as = OpCode::attention)
// ALiBi: biases[head, p] is added to the product of a query with the key of position p, before
// `scale` multiplies the sum. Every position of a request has a column.
X(attention_with_biases,
  "(q[T, G*N, D], state key_cache cache[B, N, S, >=D], state value_cache cache[B, N, S, >=D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], biases f32[G*N, P], "
  "buffer out[T, G*N, D]; scale, k_scale, v_scale, sliding_window) -> ()",
  .check = check_caches,
  .splits_as = OpCode::attention)
// Each token sees all positions of its request, also those after its own; with a window, those
// less than sliding_window before and after its own.
X(encoder_attention,
  "(q[T, G*N, D], state key_cache cache[B, N, S, >=D], state value_cache cache[B, N, S, >=D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], buffer out[T, G*N, D]; "
  "scale, k_scale, v_scale, sliding_window) -> ()",
  .check = check_caches,
  .splits_as = OpCode::attention)

// Layers of linear attention. A request keeps a state of fixed size in slot state_indices[request,
// 0]. The state begins with zeros if all positions of the request, seq_lens[request], are in this
// step. The state after token t of the step goes to slot state_indices[request, t], or to the last
// slot of the row if the row has fewer slots, so that rejected drafts can be undone. The slots of a
// row are either all the same or all different. Slot 0 is the null slot of requests that only pad a
// batch: it is neither read nor written. causal_conv1d: silu of the convolution of each channel
// over the last L + 1 tokens, of which the state keeps L.
X(causal_conv1d,
  "(x[T, C], weight[C, 1, L+1], bias[C]?, state! conv_state f32[S, L, C], state_indices i32[R, W], "
  "query_start_loc i32[R+1], seq_lens i32[R], buffer out[T, C]) -> ()",
  .splits_as = OpCode::selective_state_update,
  .vllm_name = "vllm::mamba_mixer")
// LFM2: x is B, C and values side by side. C * the convolution of B * values, as above but without
// silu.
X(short_conv,
  "(x[T, 3*C], weight[C, 1, L+1], bias[C]?, state! conv_state f32[S, L, C], "
  "state_indices i32[R, W], query_start_loc i32[R+1], seq_lens i32[R], buffer out[T, C]) -> ()",
  .splits_as = OpCode::selective_state_update,
  .vllm_name = "vllm::short_conv")
// The recurrence of Mamba-1 and Mamba-2. With the time step s = softplus(dt + dt_bias), a state h
// becomes h * exp(-exp(a_log) * s) + s * x * b, and the result is h * c + d * x. The H/G heads of a
// group share b and c. a_log is [H] or [H, N].
X(selective_state_update,
  "(x[T, H*P], dt[T, H], b[T, G*N], c[T, G*N], a_log f32[...], d f32[H], dt_bias f32[H], "
  "state! ssm_state f32[S, H, P, N], state_indices i32[R, W], query_start_loc i32[R+1], "
  "seq_lens i32[R], buffer out[T, H*P]) -> ()",
  .check = check_selective_state,
  .vllm_name = "vllm::mamba_mixer2")
// The recurrence of a gated delta net. A state h, of [K, V], is multiplied by exp(-exp(a_log) *
// softplus(dt + dt_bias)). Then h moves by the factor sigmoid(beta) towards the state whose answer
// to k is v; the result is the answer of h to q. Queries and keys are normalised by this op. H/G
// heads share q and k: head h has those of group h / heads modulo G, so with heads = H/G the heads
// of a group are neighbours, and with heads = 1 they are every G-th head. Kimi's delta attention
// has a time step for each element of a key instead: dt and dt_bias then have H*K elements, and
// each row of h is multiplied by its own factor.
X(gated_delta_rule,
  "(q[T, G*K], k[T, G*K], v[T, H*V], beta[T, H], dt[T, N], a_log f32[H], dt_bias f32[N], "
  "state! delta_state f32[S, H, K, V], state_indices i32[R, W], query_start_loc i32[R+1], "
  "seq_lens i32[R], buffer out[T, H*V]; heads) -> ()",
  .check = check_delta_groups,
  .splits_as = OpCode::selective_state_update,
  .vllm_name = "vllm::qwen_gdn_attention_core")
// x * function(gate).
X(mul_gate, "(x[..., H], gate[..., H]; function=silu|sigmoid) -> [..., H]")
// The norm of each of the `groups` equal parts of a row, with its part of the weight, without a
// bias.
X(group_norm, "(x[T, H], weight[H]; function=rms_norm|layer_norm, epsilon, groups) -> [T, H]")

// The vector of a text (pooling): one row for each of the first num_rows[0] requests, zeros after
// these. Request r has the rows of x from ends[r - 1] + 1 (or from 0) to ends[r], inclusive.
// The functions have vLLM's names: `last` is its last row, `cls` its first one, `mean` the mean of
// all.
X(pool_rows, "(x[T, H], ends i32[R], num_rows i32[1]; function=last|cls|mean) -> f32[R, H]")
// Low-rank adapters (LoRA); each row has its own adapter. Row t uses the adapter in slot slots[t],
// or none if the slot is negative; `slots` has at least T elements. The sizes do not depend on the
// number of adapters, so one graph serves every choice of adapters.
//
// x @ a^T with the matrix of the row's adapter, accumulated in float32; zeros without an adapter.
X(lora_shrink, "(x[T, K], a[S, Q, K], slots i32[M]) -> f32[T, Q]")
// y + shrunk @ b with the matrix of the row's adapter; y without an adapter. The columns of y
// belong to P modules: those of module p end before column ends[p], and use the p-th R columns of
// `shrunk`.
X(lora_expand,
  "(y[T, N], shrunk f32[T, P*R], b[S, R, N], ends i32[P], slots i32[M]) -> [T, N] over y")

// Fused ops: each computes several of the ops above in one launch, with the same bits as these ops
// one after the other. The compiler makes them; models do not call them.
X(linear_add,
  "(x act[T, K], weight packed[N, K], bias[N]?, residual[T, N], scale f32[T|1]?) -> "
  "[T, N] over residual",
  .check = check_product,
  .parts = "linear add")
X(linear_silu_and_mul,
  "(x act[T, K], weight packed[2*I, K], bias[2*I]?, scale f32[T|1]?, norm[K]?; epsilon) -> [T, I]",
  .check = check_product,
  .parts = "norm:rms_norm linear silu_and_mul")
// If q_norm or k_norm is given, each head of q or k is normalised before the rotation.
X(rope_kv_write,
  "(q[T, G, D], k[T, N, D], v[T, N, D], positions i32[T], cos_sin f32[P, D], "
  "state! key_cache cache[B, N, S, >=D], state! value_cache cache[B, N, S, >=D], "
  "slot_mapping i32[T], "
  "q_norm[D]?, k_norm[D]?; epsilon, k_scale, v_scale) -> [T, G, D] over q",
  .check = check_rotation,
  .parts = "q_norm:rms_norm k_norm:rms_norm rope kv_write")
// rope_kv_write for the q, k and v that linear(x, weight, bias) computes side by side.
X(linear_rope_kv_write,
  "(x[T, K], weight packed[heads*D+2*N*D, K], bias[heads*D+2*N*D]?, positions i32[T], "
  "cos_sin f32[P, D], state! key_cache cache[B, N, S, >=D], "
  "state! value_cache cache[B, N, S, >=D], slot_mapping i32[T], "
  "q_norm[D]?, k_norm[D]?, norm[K]?; epsilon, heads, k_scale, v_scale) -> [T, heads, D]",
  .check = check_heads_product,
  .parts = "norm:rms_norm linear q_norm:rms_norm k_norm:rms_norm rope kv_write")

// Quantisation of activations to eight bits. The float32 scale is computed for each token
// (quantize_per_token), or one given scale serves all tokens (quantize_static).
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
// quantize_blocks turns 32 activations (4*8) into a block of 40 bytes (5*8): 32 codes, a scale and
// sums (block_panels.h). The q8 types are int8 here.
X(quantize_blocks, "(x[T, 4*8*B]; dtype) -> q8[T, 5*8*B]")
X(rms_norm_quantize_blocks,
  "(x[T, 4*8*B], weight[4*8*B]; epsilon, dtype) -> q8[T, 5*8*B]",
  .parts = "rms_norm quantize_blocks")
X(linear_silu_and_mul_quantize_blocks,
  "(x act[T, K], weight packed[8*8*C, K], bias[8*8*C]?; dtype) -> q8[T, 5*8*C]",
  .check = check_blocks_product,
  .parts = "linear silu_and_mul quantize_blocks")
X(attention_quant,
  "(q[T, G*N, D], state key_cache cache[B, N, S, >=D], state value_cache cache[B, N, S, >=D], "
  "query_start_loc i32[R+1], seq_lens i32[R], block_table i32[>=R, M], scale f32[1], "
  "buffer out q8[T, G*N, D]; scale, k_scale, v_scale, sliding_window, chunk_size, soft_cap) -> ()",
  .check = check_caches,
  .splits_as = OpCode::attention,
  .parts = "attention quantize_static")

// Collective ops among the ranks of a group. Each rank runs the same program on its own data.
X(all_reduce, "(x[...]; ranks) -> [...]")              // the sum over the ranks
X(reduce_scatter, "(x[ranks*T, H]; ranks) -> [T, H]")  // this rank's rows of the sum
X(all_gather, "(x[T, H]; ranks) -> [ranks*T, H]")      // the rows of rank 0, rank 1, ...
// Row r is row r of x of rank 0, 1, ... side by side, cut to `length` columns. Only rows below
// num_rows[0] are written.
X(gather_columns, "(x f32[R, C], num_rows i32[1]; ranks, length) -> f32[R, length]")
X(fused_all_reduce_add_rms_norm,
  "(x[..., H], residual[..., H]?, weight[H]; epsilon, ranks) -> [..., H], [..., H]",
  .parts = "all_reduce add rms_norm")
X(linear_reduce_scatter,
  "(x[ranks*T, K], weight[N, K], bias[N]?; ranks) -> [T, N]",
  .parts = "linear reduce_scatter")
X(all_gather_linear,
  "(x[T, K], weight[N, K], bias[N]?; ranks) -> [ranks*T, N]",
  .parts = "all_gather linear")

// row_group: the generated code (RowGroup) gives the operands and results. custom: the user's op
// (CustomOp) gives them.
X(row_group, "(; group) -> ()", .infer = infer_row_group)
X(custom, "() -> ()", .infer = infer_custom)
