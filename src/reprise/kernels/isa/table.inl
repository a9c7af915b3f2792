// The KernelTable of one instruction set: one line per op. REPRISE_ISA is its name, unquoted.
#define REPRISE_TEXT_OF(text) #text
#define REPRISE_TEXT(text) REPRISE_TEXT_OF(text)
#define REPRISE_KERNEL(name, suffix, ...) {name suffix "_" REPRISE_TEXT(REPRISE_ISA), __VA_ARGS__}
#define REPRISE_FLOAT_KERNELS(name, function)         \
  {REPRISE_KERNEL(name, "_f32", function<float>),     \
   REPRISE_KERNEL(name, "_bf16", function<BFloat16>), \
   REPRISE_KERNEL(name, "_f16", function<Float16>)}
#define REPRISE_QUANT_KERNELS(name, function)                                   \
  {                                                                             \
    {REPRISE_KERNEL(name, "_i8_f32", function<float, int8_t>),                  \
     REPRISE_KERNEL(name, "_i8_bf16", function<BFloat16, int8_t>),              \
     REPRISE_KERNEL(name, "_i8_f16", function<Float16, int8_t>)},               \
    {                                                                           \
      REPRISE_KERNEL(name, "_f8e4m3_f32", function<float, Float8E4M3>),         \
          REPRISE_KERNEL(name, "_f8e4m3_bf16", function<BFloat16, Float8E4M3>), \
          REPRISE_KERNEL(name, "_f8e4m3_f16", function<Float16, Float8E4M3>)    \
    }                                                                           \
  }

constexpr KernelTable kTable = {
    .isa = Isa::REPRISE_ISA,
    .rms_norm = REPRISE_FLOAT_KERNELS("rms_norm", run_rms_norm),
    .add = REPRISE_FLOAT_KERNELS("add", run_add),
    .fused_add_rms_norm = REPRISE_FLOAT_KERNELS("fused_add_rms_norm", run_fused_add_rms_norm),
    .silu_and_mul = REPRISE_FLOAT_KERNELS("silu_and_mul", run_silu_and_mul),
    .linear = {REPRISE_KERNEL("linear", "_f32", run_linear<float, float>),
               REPRISE_KERNEL("linear", "_bf16", run_linear<BFloat16, BFloat16>),
               REPRISE_KERNEL("linear", "_f16", run_linear<Float16, Float16>)},
    .lm_head = {REPRISE_KERNEL("lm_head", "_f32", run_linear<float, float>),
                REPRISE_KERNEL("lm_head", "_bf16", run_linear<BFloat16, float>),
                REPRISE_KERNEL("lm_head", "_f16", run_linear<Float16, float>)},
    .rope = REPRISE_FLOAT_KERNELS("rope", run_rope),
    .attention = REPRISE_FLOAT_KERNELS("attention", run_attention),
    .uniform_attention = REPRISE_FLOAT_KERNELS("uniform_attention", run_uniform_attention),
    .planned_attention = REPRISE_FLOAT_KERNELS("planned_attention", run_planned_attention),
    .merge_attention = REPRISE_FLOAT_KERNELS("merge_attention", run_merge_attention),
    .linear_add = REPRISE_FLOAT_KERNELS("linear_add", run_linear_add),
    .linear_silu_and_mul = REPRISE_FLOAT_KERNELS("linear_silu_and_mul", run_linear_silu_and_mul),
    .rope_kv_write = REPRISE_FLOAT_KERNELS("rope_kv_write", run_rope_kv_write),
    .linear_rope_kv_write = REPRISE_FLOAT_KERNELS("linear_rope_kv_write", run_linear_rope_kv_write),
    .quantize_per_token = REPRISE_QUANT_KERNELS("quantize_per_token", run_quantize_per_token),
    .quantize_static = REPRISE_QUANT_KERNELS("quantize_static", run_quantize_static),
    .rms_norm_quant = REPRISE_QUANT_KERNELS("rms_norm_quant", run_rms_norm_quant),
    .fused_add_rms_norm_quant =
        REPRISE_QUANT_KERNELS("fused_add_rms_norm_quant", run_fused_add_rms_norm_quant),
    .silu_and_mul_quant = REPRISE_QUANT_KERNELS("silu_and_mul_quant", run_silu_and_mul_quant),
    .scaled_linear = REPRISE_QUANT_KERNELS("scaled_linear", run_scaled_linear),
    .gather_rows = REPRISE_KERNEL("gather_rows", "", run_gather_rows),
    .kv_write = REPRISE_KERNEL("kv_write", "", run_kv_write),
    .exp = REPRISE_KERNEL("exp", "_f32", run_exp),
};
