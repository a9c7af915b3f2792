// One entry of a KernelTable. REPRISE_ISA is the name of the instruction set, unquoted.
#define REPRISE_TEXT_OF(text) #text
#define REPRISE_TEXT(text) REPRISE_TEXT_OF(text)
#define REPRISE_KERNEL(name, suffix, ...) {name suffix "_" REPRISE_TEXT(REPRISE_ISA), __VA_ARGS__}
#define REPRISE_FLOAT_ENTRY(name, function)           \
  {REPRISE_KERNEL(name, "_f32", function<float>),     \
   REPRISE_KERNEL(name, "_bf16", function<BFloat16>), \
   REPRISE_KERNEL(name, "_f16", function<Float16>)}
#define REPRISE_QUANT_ENTRY(name, function)                                     \
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
#define REPRISE_LINEAR_ENTRY                                          \
  {REPRISE_KERNEL("linear", "_f32", run_linear<float, float>),        \
   REPRISE_KERNEL("linear", "_bf16", run_linear<BFloat16, BFloat16>), \
   REPRISE_KERNEL("linear", "_f16", run_linear<Float16, Float16>)}
#define REPRISE_LM_HEAD_ENTRY                                       \
  {REPRISE_KERNEL("lm_head", "_f32", run_linear<float, float>),     \
   REPRISE_KERNEL("lm_head", "_bf16", run_linear<BFloat16, float>), \
   REPRISE_KERNEL("lm_head", "_f16", run_linear<Float16, float>)}
