// The KernelTable of one instruction set, from the lists of kernel_table.inl.
#include "reprise/kernels/isa/table_entries.inl"

#define REPRISE_ROW_KERNEL(context, name, ...) .name = REPRISE_FLOAT_ENTRY(#name, run_##name),
#define REPRISE_CPU_KERNEL(name) .name = REPRISE_FLOAT_ENTRY(#name, run_##name),
#define REPRISE_QUANT_KERNEL(name) .name = REPRISE_QUANT_ENTRY(#name, run_##name),

constexpr KernelTable kTable = {
    .isa = Isa::REPRISE_ISA,
    REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, ) REPRISE_CPU_KERNELS(REPRISE_CPU_KERNEL)
        REPRISE_QUANT_KERNELS(REPRISE_QUANT_KERNEL)
            .linear = {REPRISE_KERNEL("linear", "_f32", run_linear<float, float>),
                       REPRISE_KERNEL("linear", "_bf16", run_linear<BFloat16, BFloat16>),
                       REPRISE_KERNEL("linear", "_f16", run_linear<Float16, Float16>)},
    .lm_head = {REPRISE_KERNEL("lm_head", "_f32", run_linear<float, float>),
                REPRISE_KERNEL("lm_head", "_bf16", run_linear<BFloat16, float>),
                REPRISE_KERNEL("lm_head", "_f16", run_linear<Float16, float>)},
    .gather_rows = REPRISE_KERNEL("gather_rows", "", run_gather_rows),
    .panel_embedding = REPRISE_KERNEL("panel_embedding", "_bf16", run_panel_embedding),
    .kv_write = REPRISE_KERNEL("kv_write", "", run_kv_write),
    .exp = REPRISE_KERNEL("exp", "_f32", run_exp),
    .logit_maxima = REPRISE_KERNEL("logit_maxima", "_f32", run_logit_maxima),
    .logit_weights = REPRISE_KERNEL("logit_weights", "_f32", run_logit_weights),
    .logit_mass = REPRISE_KERNEL("logit_mass", "_f32", run_logit_mass),
};

#ifdef REPRISE_ISA_HAS_TILES
#define REPRISE_BF16_ENTRY(name)                                                              \
  {REPRISE_KERNEL(#name "_in_bf16", "_f32", run_##name<float, RowBits::depend_on_batch>),     \
   REPRISE_KERNEL(#name "_in_bf16", "_bf16", run_##name<BFloat16, RowBits::depend_on_batch>), \
   REPRISE_KERNEL(#name "_in_bf16", "_f16", run_##name<Float16, RowBits::depend_on_batch>)}

// The same with products of packed weights that depend on the batch.
constexpr KernelTable table_in_bf16() {
  KernelTable table = kTable;
  table.block_linear = REPRISE_BF16_ENTRY(block_linear);
  table.block_linear_add = REPRISE_BF16_ENTRY(block_linear_add);
  table.block_linear_silu_and_mul = REPRISE_BF16_ENTRY(block_linear_silu_and_mul);
  table.block_linear_silu_and_mul_quantize_blocks =
      REPRISE_BF16_ENTRY(block_linear_silu_and_mul_quantize_blocks);
  return table;
}
#endif
