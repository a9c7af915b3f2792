// The KernelTable of one instruction set, made from the lists of kernel_table.inl.
#include "reprise/kernels/isa/table_entries.inl"

#define REPRISE_ROW_KERNEL(context, name, ...) .name = REPRISE_FLOAT_ENTRY(#name, run_##name),
#define REPRISE_CPU_KERNEL(name) .name = REPRISE_FLOAT_ENTRY(#name, run_##name),
#define REPRISE_QUANT_KERNEL(name) .name = REPRISE_QUANT_ENTRY(#name, run_##name),

constexpr KernelTable kTable = {
    .isa = Isa::REPRISE_ISA,
    REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, ) REPRISE_CPU_KERNELS(REPRISE_CPU_KERNEL)
        REPRISE_QUANT_KERNELS(REPRISE_QUANT_KERNEL)
            .linear = REPRISE_LINEAR_ENTRY,
    .lm_head = REPRISE_LM_HEAD_ENTRY,
    .gather_rows = REPRISE_KERNEL("gather_rows", "", run_gather_rows),
    .panel_embedding = REPRISE_KERNEL("panel_embedding", "_bf16", run_panel_embedding),
    .kv_write = REPRISE_KERNEL("kv_write", "", run_kv_write),
    .exp = REPRISE_KERNEL("exp", "_f32", run_exp),
    .logit_maxima = REPRISE_KERNEL("logit_maxima", "_f32", run_logit_maxima),
    .logit_weights = REPRISE_KERNEL("logit_weights", "_f32", run_logit_weights),
    .logit_mass = REPRISE_KERNEL("logit_mass", "_f32", run_logit_mass),
};
