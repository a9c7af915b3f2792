// The kernels with one function for each type of elements, by name: the members of KernelTable and
// the entries of every instruction set's table are made of these lists.

// Kernels that work on rows; CUDA has them too, with the same arguments and grids. Calls
// REPRISE_ROW_KERNEL(context, name, Arguments, shared_bytes) for each. shared_bytes is the shared
// memory on CUDA: one float per warp, or 0 if the kernel needs none.
#define REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, context)                        \
  REPRISE_ROW_KERNEL(context, rms_norm, RmsNormArguments, 64)                   \
  REPRISE_ROW_KERNEL(context, fused_add_rms_norm, FusedAddRmsNormArguments, 64) \
  REPRISE_ROW_KERNEL(context, add, AddArguments, 0)                             \
  REPRISE_ROW_KERNEL(context, silu_and_mul, SiluAndMulArguments, 0)             \
  REPRISE_ROW_KERNEL(context, rope, RopeArguments, 0)                           \
  REPRISE_ROW_KERNEL(context, rope_kv_write, RopeKvWriteArguments, 0)

// On the CPU only, or launched in another way on CUDA.
#define REPRISE_CPU_KERNELS(X)                 \
  X(kv_write_quant)                            \
  X(attention)                                 \
  X(uniform_attention)                         \
  X(shared_prefix)                             \
  X(planned_attention)                         \
  X(merge_attention)                           \
  X(linear_add)                                \
  X(linear_silu_and_mul)                       \
  X(linear_rope_kv_write)                      \
  X(int8_linear)                               \
  X(int8_linear_add)                           \
  X(int8_linear_silu_and_mul)                  \
  X(int8_embedding)                            \
  X(quantize_blocks)                           \
  X(rms_norm_quantize_blocks)                  \
  X(block_linear)                              \
  X(block_linear_add)                          \
  X(block_linear_silu_and_mul)                 \
  X(block_linear_silu_and_mul_quantize_blocks) \
  X(block_embedding)                           \
  X(gemma_rms_norm)                            \
  X(layer_norm)                                \
  X(gelu)                                      \
  X(gelu_tanh)                                 \
  X(relu)                                      \
  X(scale)                                     \
  X(soft_cap)                                  \
  X(gelu_and_mul)                              \
  X(gelu_tanh_and_mul)                         \
  X(swigluoai_and_mul)                         \
  X(softmax_top_k)                             \
  X(top_k_softmax)                             \
  X(grouped_softmax_top_k)                     \
  X(grouped_sigmoid_top_k)                     \
  X(expert_linear)                             \
  X(block_expert_linear)                       \
  X(combine_experts)                           \
  X(sigmoid_gate)                              \
  X(concat)                                    \
  X(head_linear)                               \
  X(concat_and_cache_mla)                      \
  X(mul_silu)                                  \
  X(mul_sigmoid)                               \
  X(group_rms_norm)                            \
  X(causal_conv1d)                             \
  X(short_conv)                                \
  X(selective_state_update)                    \
  X(gated_delta_rule)                          \
  X(lora_shrink)                               \
  X(lora_expand)                               \
  X(pool_last)                                 \
  X(pool_cls)                                  \
  X(pool_mean)

// Between the float types and the types of eight bits.
#define REPRISE_QUANT_KERNELS(X) \
  X(quantize_per_token)          \
  X(quantize_static)             \
  X(rms_norm_quant)              \
  X(fused_add_rms_norm_quant)    \
  X(silu_and_mul_quant)          \
  X(scaled_linear)
