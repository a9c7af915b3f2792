// The table of another instruction set with the kernels that multiply rows with each other, which
// alone are compiled here. Whatever calls dot_products() or a panel product is in this list. The
// table is made before main() runs, because the other one is a constant of another source.
#include "reprise/kernels/isa/table_entries.inl"

#define REPRISE_PRODUCT_KERNELS(X) \
  X(attention)                     \
  X(uniform_attention)             \
  X(split_attention)               \
  X(shared_prefix)                 \
  X(planned_attention)             \
  X(sparse_attention)              \
  X(linear_add)                    \
  X(linear_silu_and_mul)           \
  X(linear_rope_kv_write)          \
  X(expert_linear)                 \
  X(head_linear)                   \
  X(lora_shrink)                   \
  REPRISE_BYTE_KERNELS(X)

KernelTable with_products(KernelTable table) {
  table.isa = Isa::REPRISE_ISA;
#define REPRISE_PRODUCT_KERNEL(name) table.name = REPRISE_FLOAT_ENTRY(#name, run_##name);
  REPRISE_PRODUCT_KERNELS(REPRISE_PRODUCT_KERNEL)
#undef REPRISE_PRODUCT_KERNEL
  table.linear = REPRISE_LINEAR_ENTRY;
  table.lm_head = REPRISE_LM_HEAD_ENTRY;
  return table;
}

#ifdef REPRISE_ISA_HAS_TILES
#define REPRISE_BF16_ENTRY(name)                                                              \
  {REPRISE_KERNEL(#name "_in_bf16", "_f32", run_##name<float, RowBits::depend_on_batch>),     \
   REPRISE_KERNEL(#name "_in_bf16", "_bf16", run_##name<BFloat16, RowBits::depend_on_batch>), \
   REPRISE_KERNEL(#name "_in_bf16", "_f16", run_##name<Float16, RowBits::depend_on_batch>)}

// The same with products of packed weights that depend on the batch.
KernelTable in_bf16(KernelTable table) {
  table.block_linear = REPRISE_BF16_ENTRY(block_linear);
  table.block_linear_add = REPRISE_BF16_ENTRY(block_linear_add);
  table.block_linear_silu_and_mul = REPRISE_BF16_ENTRY(block_linear_silu_and_mul);
  table.block_linear_silu_and_mul_quantize_blocks =
      REPRISE_BF16_ENTRY(block_linear_silu_and_mul_quantize_blocks);
  return table;
}
#endif
