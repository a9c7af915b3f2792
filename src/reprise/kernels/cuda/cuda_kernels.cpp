#include "reprise/kernels/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/head_product_arguments.h"
#include "reprise/kernels/cuda/kernel_list.inl"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/cuda/rank_arguments.h"
#include "reprise/kernels/cuda/state_arguments.h"

// Machine code of kernels.cu.
extern "C" const unsigned char reprise_cuda_kernels[];

namespace reprise::kernels::cuda {
namespace {

using device::Kernel;

using Start = device::CudaKernelCode::Start;

#define REPRISE_CUDA_DECLARE(when, kernel, threads, shared)        \
  constexpr Kernel kernel{.name = #kernel "_cuda",                 \
                          .cuda = {.image = reprise_cuda_kernels,  \
                                   .function = "reprise_" #kernel, \
                                   .threads_per_block = (threads), \
                                   .shared_bytes = (shared),       \
                                   .start = (when)}};
#define REPRISE_CUDA_DECLARE_USUAL(kernel, Arguments, threads, shared, ...) \
  REPRISE_CUDA_DECLARE(Start::early_if_asked, kernel, threads, shared)
REPRISE_CUDA_LATE_KERNELS(REPRISE_CUDA_DECLARE_USUAL)
REPRISE_CUDA_LARGE_KERNELS(REPRISE_CUDA_DECLARE_USUAL)
REPRISE_CUDA_EARLY_KERNELS(REPRISE_CUDA_DECLARE_USUAL)
#undef REPRISE_CUDA_DECLARE_USUAL
#define REPRISE_CUDA_DECLARE_STREAMED(kernel, Arguments, threads, shared, ...) \
  REPRISE_CUDA_DECLARE(Start::early, kernel, threads, shared)
REPRISE_CUDA_STREAMED_KERNELS(REPRISE_CUDA_DECLARE_STREAMED)
#undef REPRISE_CUDA_DECLARE_STREAMED
#undef REPRISE_CUDA_DECLARE

#define REPRISE_CUDA_LIST(kernel, Arguments, threads, shared, ...) &kernel,
constexpr const Kernel* kUsual[] = {REPRISE_CUDA_LATE_KERNELS(REPRISE_CUDA_LIST)
                                        REPRISE_CUDA_EARLY_KERNELS(REPRISE_CUDA_LIST)};
constexpr const Kernel* kLarge[] = {REPRISE_CUDA_LARGE_KERNELS(REPRISE_CUDA_LIST)};
constexpr const Kernel* kStreamed[] = {REPRISE_CUDA_STREAMED_KERNELS(REPRISE_CUDA_LIST)};
#undef REPRISE_CUDA_LIST

#define REPRISE_QUANT_KERNEL(name)                             \
  {                                                            \
    {name##_i8_f32, name##_i8_bf16, name##_i8_f16}, {          \
      name##_f8e4m3_f32, name##_f8e4m3_bf16, name##_f8e4m3_f16 \
    }                                                          \
  }
constinit const KernelTable kRowKernels{
    .isa = Isa::scalar,
#define REPRISE_ROW_KERNEL(context, name, ...) .name = {name##_f32, name##_bf16, name##_f16},
    REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, )
        // In the order of the table's members.
        .kv_write_quant = {kv_write_quant_f32, kv_write_quant_bf16, kv_write_quant_f16},
    .sparse_attention = {sparse_attention_f32, sparse_attention_bf16, sparse_attention_f16},
    .int8_embedding = {int8_embedding_f32, int8_embedding_bf16, int8_embedding_f16},
    .quantize_blocks = {quantize_blocks_f32, quantize_blocks_bf16, quantize_blocks_f16},
    .rms_norm_quantize_blocks = {rms_norm_quantize_blocks_f32,
                                 rms_norm_quantize_blocks_bf16,
                                 rms_norm_quantize_blocks_f16},
    .block_embedding = {block_embedding_f32, block_embedding_bf16, block_embedding_f16},
    REPRISE_MODEL_KERNELS(REPRISE_ROW_KERNEL, )
#undef REPRISE_ROW_KERNEL
        .quantize_per_token = REPRISE_QUANT_KERNEL(quantize_per_token),
    .quantize_static = REPRISE_QUANT_KERNEL(quantize_static),
    .rms_norm_quant = REPRISE_QUANT_KERNEL(rms_norm_quant),
    .fused_add_rms_norm_quant = REPRISE_QUANT_KERNEL(fused_add_rms_norm_quant),
    .silu_and_mul_quant = REPRISE_QUANT_KERNEL(silu_and_mul_quant),
#undef REPRISE_QUANT_KERNEL
    .gather_rows = gather_rows,
    .kv_write = kv_write,
};

template <typename Kernels>
Kernels pick(DType dtype, const Kernels& f32, const Kernels& bf16, const Kernels& f16) {
  switch (dtype) {
    case DType::f32:
      return f32;
    case DType::bf16:
      return bf16;
    case DType::f16:
      return f16;
    default:
      throw InvalidArgument(fmt::format("no CUDA kernel multiplies {}", dtype_name(dtype)));
  }
}

}  // namespace

const KernelTable& row_kernels() { return kRowKernels; }

LinearKernels linear_kernels(DType dtype) {
  return pick<LinearKernels>(dtype,
                             {.dots = &linear_dots_f32},
                             {.of_8_columns = {&linear_8x8_bf16, &linear_8x32_bf16},
                              .of_16_columns = {&linear_16x8_bf16, &linear_16x32_bf16},
                              .of_32_columns = {nullptr, &linear_32x32_staged_bf16},
                              .dots = &linear_dots_bf16,
                              .streamed = {&linear_8_streamed_bf16, &linear_16_streamed_bf16}},
                             {.of_8_columns = {&linear_8x8_f16, &linear_8x32_f16},
                              .of_16_columns = {&linear_16x8_f16, &linear_16x32_f16},
                              .of_32_columns = {nullptr, &linear_32x32_staged_f16},
                              .dots = &linear_dots_f16,
                              .streamed = {&linear_8_streamed_f16, &linear_16_streamed_f16}});
}

LinearKernels lm_head_kernels(DType dtype) {
  return pick<LinearKernels>(dtype,
                             {.dots = &lm_head_dots_f32},
                             {.of_16_columns = {&lm_head_16x8_bf16, nullptr},
                              .of_32_columns = {nullptr, &lm_head_32x32_staged_bf16},
                              .dots = &lm_head_dots_bf16,
                              .streamed = {&lm_head_8_streamed_bf16, &lm_head_16_streamed_bf16}},
                             {.of_16_columns = {&lm_head_16x8_f16, nullptr},
                              .of_32_columns = {nullptr, &lm_head_32x32_staged_f16},
                              .dots = &lm_head_dots_f16,
                              .streamed = {&lm_head_8_streamed_f16, &lm_head_16_streamed_f16}});
}

LinearKernels linear_silu_and_mul_kernels(DType dtype) {
  return pick<LinearKernels>(
      dtype,
      {.dots = &linear_silu_and_mul_dots_f32},
      {.of_16_columns = {&linear_silu_and_mul_16x8_bf16, &linear_silu_and_mul_16x32_staged_bf16},
       .dots = &linear_silu_and_mul_dots_bf16,
       .streamed = {&linear_silu_and_mul_8_streamed_bf16, &linear_silu_and_mul_16_streamed_bf16}},
      {.of_16_columns = {&linear_silu_and_mul_16x8_f16, &linear_silu_and_mul_16x32_staged_f16},
       .dots = &linear_silu_and_mul_dots_f16,
       .streamed = {&linear_silu_and_mul_8_streamed_f16, &linear_silu_and_mul_16_streamed_f16}});
}

LinearKernels linear_rope_kv_write_kernels(DType dtype) {
  return pick<LinearKernels>(
      dtype,
      {},
      {.of_8_columns = {&linear_rope_kv_write_8x8_bf16, &linear_rope_kv_write_8x32_bf16},
       .of_16_columns = {&linear_rope_kv_write_16x8_bf16, &linear_rope_kv_write_16x32_bf16},
       .of_32_columns = {nullptr, &linear_rope_kv_write_32x32_staged_bf16},
       .streamed = {&linear_rope_kv_write_8_streamed_bf16, &linear_rope_kv_write_16_streamed_bf16}},
      {.of_8_columns = {&linear_rope_kv_write_8x8_f16, &linear_rope_kv_write_8x32_f16},
       .of_16_columns = {&linear_rope_kv_write_16x8_f16, &linear_rope_kv_write_16x32_f16},
       .of_32_columns = {nullptr, &linear_rope_kv_write_32x32_staged_f16},
       .streamed = {&linear_rope_kv_write_8_streamed_f16, &linear_rope_kv_write_16_streamed_f16}});
}

// NOLINTNEXTLINE(bugprone-macro-parentheses): the arguments are parts of names.
#define REPRISE_STREAMED_KERNELS(codes, rows) \
  {&codes##_streamed_linear_##rows, &codes##_streamed_linear_silu_and_mul_##rows}
// NOLINTNEXTLINE(bugprone-macro-parentheses): the arguments are parts of names.
#define REPRISE_FLOAT_PANEL_KERNELS(codes, type)                              \
  {.for_8_rows = &codes##_##type##_linear_8,                                  \
   .for_16_rows = &codes##_##type##_linear_16,                                \
   .silu_and_mul = &codes##_##type##_linear_silu_and_mul_8,                   \
   .streamed_few = REPRISE_STREAMED_KERNELS(codes##_##type, eight),           \
   .streamed_eight = REPRISE_STREAMED_KERNELS(codes##_##type, eight),         \
   .own_rows = REPRISE_STREAMED_KERNELS(codes##_##type##_own_rows, eight),    \
   .own_rows_rope_kv_write =                                                  \
       &codes##_##type##_own_rows_streamed_linear_rope_kv_write_eight_##type, \
   .streamed_experts = &codes##_##type##_streamed_expert_linear,              \
   .experts_of_8_rows = &codes##_##type##_expert_linear_8,                    \
   .experts_of_16_rows = &codes##_##type##_expert_linear_16,                  \
   .experts_of_64_rows = &codes##_##type##_expert_linear_64,                  \
   .dots = &float_dots_##type,                                                \
   .silu_and_mul_dots = &float_silu_and_mul_dots_##type,                      \
   .expert_dots = &float_expert_dots_##type}
// NOLINTNEXTLINE(bugprone-macro-parentheses): the arguments are parts of names.
#define REPRISE_HEADS_KERNEL(codes, rows)                                            \
  pick<const Kernel*>(dtype,                                                         \
                      nullptr,                                                       \
                      &codes##_own_rows_streamed_linear_rope_kv_write_##rows##_bf16, \
                      &codes##_own_rows_streamed_linear_rope_kv_write_##rows##_f16)
PackedKernels packed_kernels(const WeightLayout& layout, DType dtype) {
  if (layout.family == WeightFamily::block_panels) {
    return {.for_8_rows = &packed_linear_8,
            .for_16_rows = &packed_linear_16,
            .silu_and_mul = &packed_linear_silu_and_mul_8,
            .streamed_few = REPRISE_STREAMED_KERNELS(packed, few),
            .streamed_eight = REPRISE_STREAMED_KERNELS(packed, eight),
            .own_rows = REPRISE_STREAMED_KERNELS(packed_own_rows, few),
            .own_rows_rope_kv_write = REPRISE_HEADS_KERNEL(packed, few),
            .streamed_experts = &packed_streamed_expert_linear,
            .experts_of_8_rows = &packed_expert_linear_8,
            .experts_of_16_rows = &packed_expert_linear_16,
            .experts_of_64_rows = &packed_expert_linear_64};
  }
  if (layout.is_rows()) {
    return pick<PackedKernels>(dtype,
                               {},
                               {.streamed_experts = &rows_bf16_streamed_expert_linear,
                                .experts_of_8_rows = &rows_bf16_expert_linear_8,
                                .experts_of_16_rows = &rows_bf16_expert_linear_16,
                                .experts_of_64_rows = &rows_bf16_expert_linear_64},
                               {.streamed_experts = &rows_f16_streamed_expert_linear,
                                .experts_of_8_rows = &rows_f16_expert_linear_8,
                                .experts_of_16_rows = &rows_f16_expert_linear_16,
                                .experts_of_64_rows = &rows_f16_expert_linear_64});
  }
  if (layout.family == WeightFamily::int8_panels) {
    return {.for_8_rows = &int8_linear_8,
            .for_16_rows = &int8_linear_16,
            .silu_and_mul = &int8_linear_silu_and_mul_8,
            .streamed_few = REPRISE_STREAMED_KERNELS(int8, eight),
            .streamed_eight = REPRISE_STREAMED_KERNELS(int8, eight),
            .own_rows = REPRISE_STREAMED_KERNELS(int8_own_rows, eight),
            .own_rows_rope_kv_write = REPRISE_HEADS_KERNEL(int8, eight)};
  }
  const PackedKernels of_float32 = {.dots = &float_dots_f32,
                                    .silu_and_mul_dots = &float_silu_and_mul_dots_f32,
                                    .expert_dots = &float_expert_dots_f32};
  if (layout.codec == PanelFormat::f4_g64) {
    return pick<PackedKernels>(dtype,
                               of_float32,
                               REPRISE_FLOAT_PANEL_KERNELS(float4, bf16),
                               REPRISE_FLOAT_PANEL_KERNELS(float4, f16));
  }
  return pick<PackedKernels>(dtype,
                             of_float32,
                             REPRISE_FLOAT_PANEL_KERNELS(float8, bf16),
                             REPRISE_FLOAT_PANEL_KERNELS(float8, f16));
}
#undef REPRISE_FLOAT_PANEL_KERNELS
#undef REPRISE_HEADS_KERNEL
#undef REPRISE_STREAMED_KERNELS

#define REPRISE_EXPAND_KERNELS(type) \
  {&expand_panels_##type, &expand_floats_##type, &dequantize_rows_##type}
ExpandKernels expand_kernels(DType dtype) {
  return pick<ExpandKernels>(dtype,
                             REPRISE_EXPAND_KERNELS(f32),
                             REPRISE_EXPAND_KERNELS(bf16),
                             REPRISE_EXPAND_KERNELS(f16));
}
#undef REPRISE_EXPAND_KERNELS

const Kernel& group_rows_kernel() { return group_rows; }

const Kernel& panel_codes_kernel() { return panel_codes; }

const Kernel& quantize_groups_kernel(DType dtype) {
  return *pick<const Kernel*>(
      dtype, &quantize_groups_f32, &quantize_groups_bf16, &quantize_groups_f16);
}

const Kernel& finish_sums_kernel() { return finish_sums; }

std::span<const ChunkStateKernel> delta_chunk_kernels(DType dtype) {
  static constexpr ChunkStateKernel kBf16[] = {{&delta_chunks_64_bf16, 64},
                                               {&delta_chunks_128_bf16, 128}};
  static constexpr ChunkStateKernel kF16[] = {{&delta_chunks_64_f16, 64},
                                              {&delta_chunks_128_f16, 128}};
  using Kernels = std::span<const ChunkStateKernel>;
  return pick<Kernels>(dtype, {}, kBf16, kF16);
}

std::span<const ChunkStateKernel> selective_chunk_kernels(DType dtype) {
  static constexpr ChunkStateKernel kBf16[] = {{&selective_chunks_64_bf16, 64},
                                               {&selective_chunks_128_bf16, 128},
                                               {&selective_chunks_256_bf16, 256}};
  static constexpr ChunkStateKernel kF16[] = {{&selective_chunks_64_f16, 64},
                                              {&selective_chunks_128_f16, 128},
                                              {&selective_chunks_256_f16, 256}};
  using Kernels = std::span<const ChunkStateKernel>;
  return pick<Kernels>(dtype, {}, kBf16, kF16);
}

#define REPRISE_HEAD_KERNEL(prefix, type, unused, head) &prefix##_##head##_##type,
#define REPRISE_HEAD_KERNELS(prefix, type) \
  {REPRISE_CUDA_FOR_HEADS(REPRISE_HEAD_KERNEL, prefix, type, )}
#define REPRISE_ATTENTION_KERNELS(type)                                            \
  {.any_batch = {.of_heads = REPRISE_HEAD_KERNELS(attention, type),                \
                 .of_codes = REPRISE_HEAD_KERNELS(attention_of_codes, type),       \
                 .by_rows = &attention_by_rows_##type},                            \
   .uniform = {.of_heads = {&attention_32_##type,                                  \
                            &uniform_attention_64_##type,                          \
                            &attention_80_##type,                                  \
                            &attention_96_##type,                                  \
                            &uniform_attention_128_##type,                         \
                            &attention_256_##type},                                \
               .of_codes = REPRISE_HEAD_KERNELS(attention_of_codes, type),         \
               .by_rows = &uniform_attention_by_rows_##type},                      \
   .planned = {.of_heads = REPRISE_HEAD_KERNELS(planned_attention, type),          \
               .of_codes = REPRISE_HEAD_KERNELS(planned_attention_of_codes, type), \
               .by_rows = &planned_attention_by_rows_##type},                      \
   .prefill = {.of_heads = {nullptr,                                               \
                            &prefill_attention_64_##type,                          \
                            nullptr,                                               \
                            nullptr,                                               \
                            &prefill_attention_128_##type,                         \
                            nullptr}},                                             \
   .fixed = {.of_heads = {nullptr,                                                 \
                          &fixed_attention_64_##type,                              \
                          nullptr,                                                 \
                          nullptr,                                                 \
                          &fixed_attention_128_##type,                             \
                          nullptr}},                                               \
   .merge = &merge_attention_##type}

AttentionPathKernels attention_kernels(DType dtype) {
  return pick<AttentionPathKernels>(dtype,
                                    {.any_batch = {.by_rows = &attention_by_rows_f32},
                                     .uniform = {.by_rows = &uniform_attention_by_rows_f32},
                                     .planned = {.by_rows = &planned_attention_by_rows_f32},
                                     .merge = &merge_attention_f32},
                                    REPRISE_ATTENTION_KERNELS(bf16),
                                    REPRISE_ATTENTION_KERNELS(f16));
}
#undef REPRISE_ATTENTION_KERNELS
#undef REPRISE_HEAD_KERNELS
#undef REPRISE_HEAD_KERNEL

HeadProductKernels head_product_kernels(DType dtype) {
  return pick<HeadProductKernels>(dtype,
                                  {},
                                  {&head_product_narrow_bf16, &head_product_wide_bf16},
                                  {&head_product_narrow_f16, &head_product_wide_f16});
}

// In the order of kLatentSizes.
#define REPRISE_LATENT_KERNELS(type)                                       \
  {                                                                        \
    {                                                                      \
      {&latent_attention_512_##type, &wide_latent_attention_512_##type}, { \
        &latent_attention_256_##type, &wide_latent_attention_256_##type    \
      }                                                                    \
    }                                                                      \
  }
LatentKernels latent_kernels(DType dtype) {
  return pick<LatentKernels>(dtype, {}, REPRISE_LATENT_KERNELS(bf16), REPRISE_LATENT_KERNELS(f16));
}
#undef REPRISE_LATENT_KERNELS

SamplingKernels sampling_kernels() {
  return {.largest = &sample_largest,
          .weights = &sample_weights,
          .candidates = &sample_candidates,
          .write_tokens = &write_tokens,
          .count_tokens = &count_tokens,
          .weigh_logprobs = &weigh_logprobs,
          .list_likeliest = &list_likeliest};
}

const Kernel& expert_counter() { return count_experts; }

const Kernel& rank_sum_kernel(DType dtype) {
  return *pick<const Kernel*>(dtype, &sum_of_ranks_f32, &sum_of_ranks_bf16, &sum_of_ranks_f16);
}

const Kernel& rank_sum_and_norm_kernel(DType dtype) {
  return *pick<const Kernel*>(
      dtype, &sum_of_ranks_and_norm_f32, &sum_of_ranks_and_norm_bf16, &sum_of_ranks_and_norm_f16);
}

const Kernel& rank_experts_kernel() { return experts_of_rank; }

const Kernel& rank_columns_kernel() { return columns_of_ranks; }

std::span<const Kernel* const> usual_kernels() { return kUsual; }

std::span<const Kernel* const> large_kernels() { return kLarge; }

std::span<const Kernel* const> streamed_kernels() { return kStreamed; }

}  // namespace reprise::kernels::cuda
