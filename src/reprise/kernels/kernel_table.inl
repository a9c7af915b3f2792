// The names of the kernels that have one function for each type of elements. The members of
// KernelTable and the entries of every instruction set's table are made from these lists.

// CUDA has the kernels of this list and of the next one, too, with the same arguments and grids.
// The lists call REPRISE_ROW_KERNEL(context, name, Arguments, shared_bytes) for each kernel.
// shared_bytes is the shared memory of a block on CUDA: a float for each warp where a block sums a
// row, the scores of all experts for each warp where it routes in groups, a query and a key where
// it updates the state of a delta net, or 0.
#define REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, context)                        \
  REPRISE_ROW_KERNEL(context, rms_norm, RmsNormArguments, 64)                   \
  REPRISE_ROW_KERNEL(context, fused_add_rms_norm, FusedAddRmsNormArguments, 64) \
  REPRISE_ROW_KERNEL(context, add, AddArguments, 0)                             \
  REPRISE_ROW_KERNEL(context, silu_and_mul, SiluAndMulArguments, 0)             \
  REPRISE_ROW_KERNEL(context, rope, RopeArguments, 0)                           \
  REPRISE_ROW_KERNEL(context, rope_kv_write, RopeKvWriteArguments, 0)

// The same for ops that only some models use.
#define REPRISE_MODEL_KERNELS(REPRISE_ROW_KERNEL, context)                              \
  REPRISE_ROW_KERNEL(context, gemma_rms_norm, RmsNormArguments, 64)                     \
  REPRISE_ROW_KERNEL(context, layer_norm, LayerNormArguments, 64)                       \
  REPRISE_ROW_KERNEL(context, activation, ElementwiseArguments, 0)                      \
  REPRISE_ROW_KERNEL(context, scale, ElementwiseArguments, 0)                           \
  REPRISE_ROW_KERNEL(context, soft_cap, ElementwiseArguments, 0)                        \
  REPRISE_ROW_KERNEL(context, clamp, ElementwiseArguments, 0)                           \
  REPRISE_ROW_KERNEL(context, activation_and_mul, SiluAndMulArguments, 0)               \
  REPRISE_ROW_KERNEL(context, swigluoai_and_mul, SwigluoaiAndMulArguments, 0)           \
  REPRISE_ROW_KERNEL(context, select_experts, SelectExpertsArguments, 32768)            \
  REPRISE_ROW_KERNEL(context, scale_experts, ScaleExpertsArguments, 0)                  \
  REPRISE_ROW_KERNEL(context, expert_linear, ExpertLinearArguments, 0)                  \
  REPRISE_ROW_KERNEL(context, combine_experts, CombineExpertsArguments, 0)              \
  REPRISE_ROW_KERNEL(context, sigmoid_gate, SigmoidGateArguments, 0)                    \
  REPRISE_ROW_KERNEL(context, concat, ConcatArguments, 0)                               \
  REPRISE_ROW_KERNEL(context, head_linear, HeadLinearArguments, 0)                      \
  REPRISE_ROW_KERNEL(context, concat_and_cache_mla, ConcatAndCacheMlaArguments, 0)      \
  REPRISE_ROW_KERNEL(context, mul_gate, MulGateArguments, 0)                            \
  REPRISE_ROW_KERNEL(context, group_norm, GroupNormArguments, 64)                       \
  REPRISE_ROW_KERNEL(context, causal_conv1d, CausalConv1dArguments, 0)                  \
  REPRISE_ROW_KERNEL(context, short_conv, CausalConv1dArguments, 0)                     \
  REPRISE_ROW_KERNEL(context, selective_state_update, SelectiveStateUpdateArguments, 0) \
  REPRISE_ROW_KERNEL(context, gated_delta_rule, GatedDeltaRuleArguments, 8256)          \
  REPRISE_ROW_KERNEL(context, lora_shrink, LoraShrinkArguments, 0)                      \
  REPRISE_ROW_KERNEL(context, lora_expand, LoraExpandArguments, 0)                      \
  REPRISE_ROW_KERNEL(context, pool_rows, PoolRowsArguments, 0)

// Products of bytes. Instruction sets multiply bytes in different ways, with the same results.
#define REPRISE_BYTE_KERNELS(X)                \
  X(int8_linear)                               \
  X(int8_linear_add)                           \
  X(int8_linear_silu_and_mul)                  \
  X(block_linear)                              \
  X(block_linear_add)                          \
  X(block_linear_silu_and_mul)                 \
  X(block_linear_silu_and_mul_quantize_blocks) \
  X(block_expert_linear)

// These kernels exist only on the CPU, or CUDA launches them in another way. Then follow the lists
// above.
#define REPRISE_CPU_KERNELS(X) \
  X(kv_write_quant)            \
  X(attention)                 \
  X(uniform_attention)         \
  X(split_attention)           \
  X(shared_prefix)             \
  X(planned_attention)         \
  X(merge_attention)           \
  X(sparse_attention)          \
  X(linear_add)                \
  X(linear_silu_and_mul)       \
  X(linear_rope_kv_write)      \
  X(int8_embedding)            \
  X(quantize_blocks)           \
  X(rms_norm_quantize_blocks)  \
  X(block_embedding)           \
  REPRISE_BYTE_KERNELS(X)      \
  REPRISE_MODEL_KERNELS(REPRISE_NAME_OF_KERNEL, X)
#define REPRISE_NAME_OF_KERNEL(X, name, ...) X(name)

// Kernels between the float types and the types of eight bits.
#define REPRISE_QUANT_KERNELS(X) \
  X(quantize_per_token)          \
  X(quantize_static)             \
  X(rms_norm_quant)              \
  X(fused_add_rms_norm_quant)    \
  X(silu_and_mul_quant)          \
  X(scaled_linear)
