// Every CUDA kernel: REPRISE_CUDA_KERNELS(X) is X(name, Arguments, threads, shared bytes, function)
// for each. The function of the image is reprise_<name>.
#include "reprise/kernels/kernel_table.inl"

// NOLINTBEGIN(bugprone-macro-parentheses): arguments are names and types, which take none.

#define REPRISE_CUDA_FLOAT_KERNELS(X, op, Arguments, threads, shared) \
  X(op##_f32, Arguments, threads, shared, op<float>)                  \
  X(op##_bf16, Arguments, threads, shared, op<BFloat16>)              \
  X(op##_f16, Arguments, threads, shared, op<Float16>)

// The kernels of a product, by the columns and rows of a block's tile.
#define REPRISE_CUDA_PRODUCT(X, name, type, T, Out, columns, rows, parts, epilogue) \
  X(name##_##columns##x##rows##_##type,                                             \
    CudaLinearArguments,                                                            \
    256,                                                                            \
    linear_shared_bytes(columns, rows, parts),                                      \
    linear_fragments<T, Out, columns / 8, rows / 8, epilogue>)
// The same for 32 rows of x that pass through shared memory.
#define REPRISE_CUDA_STAGED_PRODUCT(X, name, type, T, Out, columns, parts, epilogue) \
  X(name##_##columns##x32_staged_##type,                                             \
    CudaLinearArguments,                                                             \
    256,                                                                             \
    linear_shared_bytes(columns, 32, parts),                                         \
    staged_linear_fragments<T, Out, columns / 8, epilogue>)
#define REPRISE_CUDA_FRAGMENT_KERNELS(X, type, T)                                                  \
  REPRISE_CUDA_PRODUCT(X, linear, type, T, T, 8, 8, 1, Epilogue::none)                             \
  REPRISE_CUDA_PRODUCT(X, linear, type, T, T, 8, 32, 1, Epilogue::none)                            \
  REPRISE_CUDA_PRODUCT(X, linear, type, T, T, 16, 8, 1, Epilogue::none)                            \
  REPRISE_CUDA_PRODUCT(X, linear, type, T, T, 16, 32, 1, Epilogue::none)                           \
  REPRISE_CUDA_PRODUCT(X, lm_head, type, T, float, 16, 8, 1, Epilogue::none)                       \
  REPRISE_CUDA_STAGED_PRODUCT(X, linear, type, T, T, 32, 1, Epilogue::none)                        \
  REPRISE_CUDA_STAGED_PRODUCT(X, lm_head, type, T, float, 32, 1, Epilogue::none)                   \
  REPRISE_CUDA_STAGED_PRODUCT(X, linear_silu_and_mul, type, T, T, 16, 2, Epilogue::silu_and_mul)   \
  REPRISE_CUDA_STAGED_PRODUCT(X, linear_rope_kv_write, type, T, T, 32, 1, Epilogue::rope_kv_write) \
  REPRISE_CUDA_PRODUCT(X, linear_silu_and_mul, type, T, T, 16, 8, 2, Epilogue::silu_and_mul)       \
  REPRISE_CUDA_PRODUCT(X, linear_rope_kv_write, type, T, T, 8, 8, 1, Epilogue::rope_kv_write)      \
  REPRISE_CUDA_PRODUCT(X, linear_rope_kv_write, type, T, T, 8, 32, 1, Epilogue::rope_kv_write)     \
  REPRISE_CUDA_PRODUCT(X, linear_rope_kv_write, type, T, T, 16, 8, 1, Epilogue::rope_kv_write)     \
  REPRISE_CUDA_PRODUCT(X, linear_rope_kv_write, type, T, T, 16, 32, 1, Epilogue::rope_kv_write)

// Products of up to eight rows whose weights arrive by bulk copies, by the rows of the weight in a
// block's tile. Only code for compute capability 9 and later has them. They too wait for the
// kernels ahead of them at a place of their own choice, and they begin early in every launch.
#define REPRISE_CUDA_STREAMED_PRODUCT(X, name, type, T, Out, epilogue) \
  X(name##_8_streamed_##type,                                          \
    CudaLinearArguments,                                               \
    kStreamedThreads,                                                  \
    kStreamedSharedBytes,                                              \
    streamed_linear<T, Out, 1, epilogue>)                              \
  X(name##_16_streamed_##type,                                         \
    CudaLinearArguments,                                               \
    kStreamedThreads,                                                  \
    kStreamedSharedBytes,                                              \
    streamed_linear<T, Out, 2, epilogue>)
#define REPRISE_CUDA_STREAMED_PRODUCTS(X, type, T)                                          \
  REPRISE_CUDA_STREAMED_PRODUCT(X, linear, type, T, T, Epilogue::none)                      \
  REPRISE_CUDA_STREAMED_PRODUCT(X, lm_head, type, T, float, Epilogue::none)                 \
  REPRISE_CUDA_STREAMED_PRODUCT(X, linear_silu_and_mul, type, T, T, Epilogue::silu_and_mul) \
  REPRISE_CUDA_STREAMED_PRODUCT(X, linear_rope_kv_write, type, T, T, Epilogue::rope_kv_write)
// The same with packed weights. Up to four rows of a weight in blocks take fewer instructions than
// eight.
#define REPRISE_CUDA_STREAMED_PACKED(X, name, Form, rows)         \
  X(name##_streamed_linear_##rows,                                \
    PackedLinearArguments,                                        \
    kStreamedThreads,                                             \
    kStreamedSharedBytes,                                         \
    streamed_packed_linear<Form, Epilogue::none, TileRows::rows>) \
  X(name##_streamed_linear_silu_and_mul_##rows,                   \
    PackedLinearArguments,                                        \
    kStreamedThreads,                                             \
    kStreamedSharedBytes,                                         \
    streamed_packed_linear<Form, Epilogue::silu_and_mul, TileRows::rows>)
// The same for up to four rows of elements of 16 bits, which each block quantises itself.
#define REPRISE_CUDA_STREAMED_HEADS(X, name, Form, rows, type, T)  \
  X(name##_own_rows_streamed_linear_rope_kv_write_##rows##_##type, \
    PackedLinearArguments,                                         \
    kStreamedThreads,                                              \
    kStreamedSharedBytes,                                          \
    streamed_packed_heads<T, Form, TileRows::rows>)
#define REPRISE_CUDA_STREAMED_OWN_ROWS(X, name, Form, rows)                         \
  X(name##_own_rows_streamed_linear_##rows,                                         \
    PackedLinearArguments,                                                          \
    kStreamedThreads,                                                               \
    kStreamedSharedBytes,                                                           \
    streamed_packed_linear<Form, Epilogue::none, TileRows::rows, RowSource::block>) \
  X(name##_own_rows_streamed_linear_silu_and_mul_##rows,                            \
    PackedLinearArguments,                                                          \
    kStreamedThreads,                                                               \
    kStreamedSharedBytes,                                                           \
    streamed_packed_linear<Form, Epilogue::silu_and_mul, TileRows::rows, RowSource::block>)
// With float8 and four-bit floats, rows stay elements: these kernels norm them and quantise
// nothing.
#define REPRISE_CUDA_STREAMED_FLOAT_PANELS(X, type, T)                         \
  REPRISE_CUDA_STREAMED_PACKED(X, float8_##type, Float8Form<T>, eight)         \
  REPRISE_CUDA_STREAMED_PACKED(X, float4_##type, Float4Form<T>, eight)         \
  REPRISE_CUDA_STREAMED_OWN_ROWS(X, float8_##type, Float8Form<T>, eight)       \
  REPRISE_CUDA_STREAMED_OWN_ROWS(X, float4_##type, Float4Form<T>, eight)       \
  REPRISE_CUDA_STREAMED_HEADS(X, float8_##type, Float8Form<T>, eight, type, T) \
  REPRISE_CUDA_STREAMED_HEADS(X, float4_##type, Float4Form<T>, eight, type, T)
#define REPRISE_CUDA_STREAMED_EXPERTS(X, name, Form) \
  X(name##_streamed_expert_linear,                   \
    PackedExpertArguments,                           \
    kStreamedThreads,                                \
    kStreamedSharedBytes,                            \
    streamed_expert_linear<Form>)
#define REPRISE_CUDA_STREAMED_EXPERTS_OF(X, type, T)             \
  REPRISE_CUDA_STREAMED_EXPERTS(X, rows_##type, RowForm<T>)      \
  REPRISE_CUDA_STREAMED_EXPERTS(X, float8_##type, Float8Form<T>) \
  REPRISE_CUDA_STREAMED_EXPERTS(X, float4_##type, Float4Form<T>)
#define REPRISE_CUDA_STREAMED_KERNELS(X)                                 \
  REPRISE_CUDA_STREAMED_PRODUCTS(X, bf16, BFloat16)                      \
  REPRISE_CUDA_STREAMED_PRODUCTS(X, f16, Float16)                        \
  REPRISE_CUDA_STREAMED_PACKED(X, packed, BlockForm, few)                \
  REPRISE_CUDA_STREAMED_PACKED(X, packed, BlockForm, eight)              \
  REPRISE_CUDA_STREAMED_PACKED(X, int8, Int8Form, eight)                 \
  REPRISE_CUDA_STREAMED_OWN_ROWS(X, packed, BlockForm, few)              \
  REPRISE_CUDA_STREAMED_OWN_ROWS(X, int8, Int8Form, eight)               \
  REPRISE_CUDA_STREAMED_HEADS(X, packed, BlockForm, few, bf16, BFloat16) \
  REPRISE_CUDA_STREAMED_HEADS(X, packed, BlockForm, few, f16, Float16)   \
  REPRISE_CUDA_STREAMED_HEADS(X, int8, Int8Form, eight, bf16, BFloat16)  \
  REPRISE_CUDA_STREAMED_HEADS(X, int8, Int8Form, eight, f16, Float16)    \
  REPRISE_CUDA_STREAMED_FLOAT_PANELS(X, bf16, BFloat16)                  \
  REPRISE_CUDA_STREAMED_FLOAT_PANELS(X, f16, Float16)                    \
  REPRISE_CUDA_STREAMED_EXPERTS(X, packed, BlockForm)                    \
  REPRISE_CUDA_STREAMED_EXPERTS_OF(X, bf16, BFloat16)                    \
  REPRISE_CUDA_STREAMED_EXPERTS_OF(X, f16, Float16)

#define REPRISE_CUDA_DOT_KERNELS(X, type, T)                                                 \
  X(linear_dots_##type, CudaLinearArguments, 256, 0, linear_dots<T, T, Epilogue::none>)      \
  X(lm_head_dots_##type, CudaLinearArguments, 256, 0, linear_dots<T, float, Epilogue::none>) \
  X(linear_silu_and_mul_dots_##type,                                                         \
    CudaLinearArguments,                                                                     \
    256,                                                                                     \
    0,                                                                                       \
    linear_dots<T, T, Epilogue::silu_and_mul>)

// Decoding on the tensor cores, by the size of heads. The uniform kernels of other sizes are those
// for any batch.
#define REPRISE_CUDA_UNIFORM_ATTENTION(X, type, T, head) \
  X(uniform_attention_##head##_##type,                   \
    CudaAttentionArguments,                              \
    128,                                                 \
    attention_shared_bytes(head),                        \
    attention_fragments<T, head, true>)
#define REPRISE_CUDA_DECODE_ATTENTION(X, type, T, head) \
  X(attention_##head##_##type,                          \
    CudaAttentionArguments,                             \
    128,                                                \
    attention_shared_bytes(head),                       \
    attention_fragments<T, head, false>)                \
  X(planned_attention_##head##_##type,                  \
    PlannedAttentionArguments,                          \
    128,                                                \
    attention_shared_bytes(head),                       \
    planned_attention_fragments<T, head>)
// The same over caches of eight bits.
#define REPRISE_CUDA_CODES_ATTENTION(X, type, T, head)         \
  X(attention_of_codes_##head##_##type,                        \
    CudaAttentionArguments,                                    \
    128,                                                       \
    attention_shared_bytes(head),                              \
    attention_fragments<T, head, false, CacheElements::codes>) \
  X(planned_attention_of_codes_##head##_##type,                \
    PlannedAttentionArguments,                                 \
    128,                                                       \
    attention_shared_bytes(head),                              \
    planned_attention_fragments<T, head, CacheElements::codes>)
// Calls Kernel(X, type, T, head) for each size in kFragmentHeads.
#define REPRISE_CUDA_FOR_HEADS(Kernel, X, type, T)                                            \
  Kernel(X, type, T, 32) Kernel(X, type, T, 64) Kernel(X, type, T, 80) Kernel(X, type, T, 96) \
      Kernel(X, type, T, 128) Kernel(X, type, T, 256)
#define REPRISE_CUDA_ATTENTION_KERNELS(X, type, T)                  \
  REPRISE_CUDA_UNIFORM_ATTENTION(X, type, T, 64)                    \
  REPRISE_CUDA_UNIFORM_ATTENTION(X, type, T, 128)                   \
  REPRISE_CUDA_FOR_HEADS(REPRISE_CUDA_DECODE_ATTENTION, X, type, T) \
  REPRISE_CUDA_FOR_HEADS(REPRISE_CUDA_CODES_ATTENTION, X, type, T)

// Shared memory: [warps][16][head_dim + 2] floats, then [16][head_dim + 3].
#define REPRISE_CUDA_FIXED_ATTENTION(X, type, T)                                           \
  X(fixed_attention_64_##type, CudaAttentionArguments, 128, 21184, fixed_attention<T, 64>) \
  X(fixed_attention_128_##type, CudaAttentionArguments, 128, 41664, fixed_attention<T, 128>)

#define REPRISE_CUDA_PREFILL_ATTENTION(X, type, T) \
  X(prefill_attention_64_##type,                   \
    CudaAttentionArguments,                        \
    128,                                           \
    prefill_shared_bytes(64),                      \
    prefill_attention<T, 64>)                      \
  X(prefill_attention_128_##type,                  \
    CudaAttentionArguments,                        \
    128,                                           \
    prefill_shared_bytes(128),                     \
    prefill_attention<T, 128>)

// Products of heads, by the tile of a block.
#define REPRISE_CUDA_HEAD_PRODUCTS(X, type, T) \
  X(head_product_narrow_##type,                \
    HeadLinearArguments,                       \
    kNarrowHeadTile.threads(),                 \
    kNarrowHeadTile.shared_bytes(),            \
    head_product<T, kNarrowHeadTile>)          \
  X(head_product_wide_##type,                  \
    HeadLinearArguments,                       \
    kWideHeadTile.threads(),                   \
    kWideHeadTile.shared_bytes(),              \
    head_product<T, kWideHeadTile>)

// Latent attention by the size of the latent, with tiles of sixteen rows.
#define REPRISE_CUDA_LATENT_ATTENTION_OF(X, type, T, value_dim, key_dim) \
  X(latent_attention_##value_dim##_##type,                               \
    CudaAttentionArguments,                                              \
    kLatentThreads,                                                      \
    latent_shared_bytes(key_dim, kNarrowLatentRows),                     \
    latent_attention<T, value_dim, key_dim, 1>)
#define REPRISE_CUDA_LATENT_ATTENTION(X, type, T)        \
  REPRISE_CUDA_LATENT_ATTENTION_OF(X, type, T, 512, 576) \
  REPRISE_CUDA_LATENT_ATTENTION_OF(X, type, T, 256, 320)
// The same with tiles of 64 rows.
#define REPRISE_CUDA_WIDE_LATENT_ATTENTION_OF(X, type, T, value_dim, key_dim) \
  X(wide_latent_attention_##value_dim##_##type,                               \
    CudaAttentionArguments,                                                   \
    kLatentThreads,                                                           \
    latent_shared_bytes(key_dim, kWideLatentRows),                            \
    latent_attention<T, value_dim, key_dim, 4>)
#define REPRISE_CUDA_WIDE_LATENT_ATTENTION(X, type, T)        \
  REPRISE_CUDA_WIDE_LATENT_ATTENTION_OF(X, type, T, 512, 576) \
  REPRISE_CUDA_WIDE_LATENT_ATTENTION_OF(X, type, T, 256, 320)

#define REPRISE_CUDA_ATTENTION_BY_ROWS(X, type, T)                                                \
  X(attention_by_rows_##type, CudaAttentionArguments, 256, 0, attention_by_rows<T, false>)        \
  X(uniform_attention_by_rows_##type, CudaAttentionArguments, 256, 0, attention_by_rows<T, true>) \
  X(planned_attention_by_rows_##type,                                                             \
    PlannedAttentionArguments,                                                                    \
    256,                                                                                          \
    0,                                                                                            \
    planned_attention_by_rows<T>)                                                                 \
  X(merge_attention_##type,                                                                       \
    PlannedAttentionArguments,                                                                    \
    kMergeThreads,                                                                                \
    2 * kMergeThreads * 4,                                                                        \
    merge_attention<T>)

// Shared memory: 275 words of 8 bytes for select(), and 1024 for a histogram.
#define REPRISE_CUDA_SAMPLING_KERNELS(X)                                       \
  X(sample_largest, CudaSamplingArguments, 256, 275 * 8, sample_largest)       \
  X(sample_weights, CudaSamplingArguments, 256, 1299 * 8, sample_weights)      \
  X(sample_candidates, CudaSamplingArguments, 256, 275 * 8, sample_candidates) \
  X(write_tokens, WriteTokensArguments, 256, 0, write_tokens)                  \
  X(count_tokens, CountTokensArguments, 256, 0, count_tokens)                  \
  X(weigh_logprobs, CudaSamplingArguments, 256, 1299 * 8, weigh_logprobs)      \
  X(list_likeliest, CudaSamplingArguments, 256, 275 * 8, list_likeliest)

// Products with packed weights. Their kernels take the type of the model as an argument.
#define REPRISE_CUDA_PACKED_PRODUCT(X, name, chunk, Form, tiles, parts, epilogue) \
  X(name,                                                                         \
    PackedLinearArguments,                                                        \
    256,                                                                          \
    packed_shared_bytes(chunk, tiles, parts),                                     \
    packed_linear<Form, tiles, epilogue>)
// By the rows of a block's tile.
#define REPRISE_CUDA_PACKED_PRODUCTS(X, name, chunk, Form)                            \
  REPRISE_CUDA_PACKED_PRODUCT(X, name##_linear_8, chunk, Form, 1, 1, Epilogue::none)  \
  REPRISE_CUDA_PACKED_PRODUCT(X, name##_linear_16, chunk, Form, 2, 1, Epilogue::none) \
  REPRISE_CUDA_PACKED_PRODUCT(                                                        \
      X, name##_linear_silu_and_mul_8, chunk, Form, 1, 2, Epilogue::silu_and_mul)
#define REPRISE_CUDA_FLOAT_PANEL_PRODUCTS(X, type, T)                         \
  REPRISE_CUDA_PACKED_PRODUCTS(X, float8_##type, kFloat8Chunk, Float8Form<T>) \
  REPRISE_CUDA_PACKED_PRODUCTS(X, float4_##type, kFloat4Chunk, Float4Form<T>)
#define REPRISE_CUDA_FLOAT_DOTS(X, type, T)                                                \
  X(float_dots_##type, PackedLinearArguments, 256, 0, float_panel_dots<T, Epilogue::none>) \
  X(float_silu_and_mul_dots_##type,                                                        \
    PackedLinearArguments,                                                                 \
    256,                                                                                   \
    0,                                                                                     \
    float_panel_dots<T, Epilogue::silu_and_mul>)
#define REPRISE_CUDA_EARLY_PACKED_KERNELS(X)                      \
  REPRISE_CUDA_PACKED_PRODUCTS(X, packed, kBlockChunk, BlockForm) \
  REPRISE_CUDA_PACKED_PRODUCTS(X, int8, kInt8Chunk, Int8Form)     \
  REPRISE_CUDA_FLOAT_PANEL_PRODUCTS(X, bf16, BFloat16)            \
  REPRISE_CUDA_FLOAT_PANEL_PRODUCTS(X, f16, Float16)
// Rows of eight bits. Shared memory: a word for each warp where a block shares a row.
#define REPRISE_CUDA_QUANT_KERNELS_OF(X, q, Q, type, T)                                        \
  X(quantize_per_token_##q##_##type, QuantizeRowsArguments, 256, 64, quantize_per_token<T, Q>) \
  X(rms_norm_quant_##q##_##type, QuantizeRowsArguments, 256, 64, rms_norm_quant<T, Q>)         \
  X(fused_add_rms_norm_quant_##q##_##type,                                                     \
    QuantizeRowsArguments,                                                                     \
    256,                                                                                       \
    64,                                                                                        \
    fused_add_rms_norm_quant<T, Q>)                                                            \
  X(silu_and_mul_quant_##q##_##type, QuantizeRowsArguments, 256, 64, silu_and_mul_quant<T, Q>) \
  X(quantize_static_##q##_##type, QuantizeStaticArguments, 256, 0, quantize_static<T, Q>)
#define REPRISE_CUDA_QUANT_KERNELS(X, type, T)          \
  REPRISE_CUDA_QUANT_KERNELS_OF(X, i8, int8_t, type, T) \
  REPRISE_CUDA_QUANT_KERNELS_OF(X, f8e4m3, Float8E4M3, type, T)
// Products of experts, by the rows of a tile.
#define REPRISE_CUDA_EXPERT_PRODUCT(X, name, chunk, Form, tiles) \
  X(name,                                                        \
    PackedExpertArguments,                                       \
    256,                                                         \
    packed_shared_bytes(chunk, tiles, 1),                        \
    packed_expert_linear<Form, tiles>)
#define REPRISE_CUDA_EXPERT_PRODUCTS(X, name, chunk, Form)                \
  REPRISE_CUDA_EXPERT_PRODUCT(X, name##_expert_linear_8, chunk, Form, 1)  \
  REPRISE_CUDA_EXPERT_PRODUCT(X, name##_expert_linear_16, chunk, Form, 2) \
  X(name##_expert_linear_64,                                              \
    PackedExpertArguments,                                                \
    256,                                                                  \
    wide_shared_bytes(chunk),                                             \
    wide_expert_linear<Form>)
#define REPRISE_CUDA_EXPERT_PRODUCTS_OF(X, type, T)                           \
  REPRISE_CUDA_EXPERT_PRODUCTS(X, rows_##type, kRowChunk, RowForm<T>)         \
  REPRISE_CUDA_EXPERT_PRODUCTS(X, float8_##type, kFloat8Chunk, Float8Form<T>) \
  REPRISE_CUDA_EXPERT_PRODUCTS(X, float4_##type, kFloat4Chunk, Float4Form<T>)
#define REPRISE_CUDA_LATE_PACKED_KERNELS(X)                                                 \
  REPRISE_CUDA_QUANT_KERNELS(X, f32, float)                                                 \
  REPRISE_CUDA_QUANT_KERNELS(X, bf16, BFloat16)                                             \
  REPRISE_CUDA_QUANT_KERNELS(X, f16, Float16)                                               \
  REPRISE_CUDA_FLOAT_KERNELS(X, int8_embedding, EmbeddingArguments, 256, 0)                 \
  X(panel_codes, PanelCodesArguments, 256, 0, panel_codes)                                  \
  REPRISE_CUDA_FLOAT_KERNELS(X, quantize_groups, QuantizeGroupsArguments, 256, 0)           \
  X(finish_sums, FinishSumsArguments, 256, 0, finish_sums)                                  \
  REPRISE_CUDA_FLOAT_KERNELS(X, quantize_blocks, QuantizeBlocksArguments, 256, 0)           \
  REPRISE_CUDA_FLOAT_KERNELS(X, rms_norm_quantize_blocks, QuantizeBlocksArguments, 256, 64) \
  REPRISE_CUDA_FLOAT_KERNELS(X, block_embedding, EmbeddingArguments, 256, 0)                \
  REPRISE_CUDA_FLOAT_KERNELS(X, expand_panels, ExpandPanelsArguments, 256, 0)               \
  REPRISE_CUDA_FLOAT_KERNELS(X, expand_floats, ExpandFloatsArguments, 256, 0)               \
  REPRISE_CUDA_FLOAT_DOTS(X, f32, float)                                                    \
  REPRISE_CUDA_FLOAT_DOTS(X, bf16, BFloat16)                                                \
  REPRISE_CUDA_FLOAT_DOTS(X, f16, Float16)                                                  \
  REPRISE_CUDA_FLOAT_KERNELS(X, dequantize_rows, DequantizeRowsArguments, 256, 0)           \
  REPRISE_CUDA_FLOAT_KERNELS(X, float_expert_dots, PackedExpertArguments, 256, 0)           \
  X(group_rows, GroupRowsArguments, 512, kGroupSharedBytes, group_rows)                     \
  REPRISE_CUDA_EXPERT_PRODUCTS(X, packed, kBlockChunk, BlockForm)                           \
  REPRISE_CUDA_EXPERT_PRODUCTS_OF(X, bf16, BFloat16)                                        \
  REPRISE_CUDA_EXPERT_PRODUCTS_OF(X, f16, Float16)

// Prompts of recurrent layers, by the longest keys.
#define REPRISE_CUDA_DELTA_CHUNKS(X, type, T, key_dim) \
  X(delta_chunks_##key_dim##_##type,                   \
    GatedDeltaRuleArguments,                           \
    256,                                               \
    chunk_shared_bytes(key_dim, kDeltaChunkValues, 2), \
    delta_chunks<T, key_dim>)
#define REPRISE_CUDA_SELECTIVE_CHUNKS(X, type, T, key_dim) \
  X(selective_chunks_##key_dim##_##type,                   \
    SelectiveStateUpdateArguments,                         \
    128,                                                   \
    chunk_shared_bytes(key_dim, kSelectiveChunkValues, 1), \
    selective_chunks<T, key_dim>)
#define REPRISE_CUDA_STATE_CHUNKS(X, type, T)    \
  REPRISE_CUDA_DELTA_CHUNKS(X, type, T, 64)      \
  REPRISE_CUDA_DELTA_CHUNKS(X, type, T, 128)     \
  REPRISE_CUDA_SELECTIVE_CHUNKS(X, type, T, 64)  \
  REPRISE_CUDA_SELECTIVE_CHUNKS(X, type, T, 128) \
  REPRISE_CUDA_SELECTIVE_CHUNKS(X, type, T, 256)

#define REPRISE_CUDA_ROW_KERNEL(X, op, Arguments, shared) \
  REPRISE_CUDA_FLOAT_KERNELS(X, op, Arguments, 256, shared)

#define REPRISE_CUDA_LATE_KERNELS(X)                                                  \
  REPRISE_ROW_KERNELS(REPRISE_CUDA_ROW_KERNEL, X)                                     \
  REPRISE_MODEL_KERNELS(REPRISE_CUDA_ROW_KERNEL, X)                                   \
  X(gather_rows, GatherRowsArguments, 256, 0, gather_rows)                            \
  X(count_experts, CountExpertsArguments, 256, 0, count_experts)                      \
  REPRISE_CUDA_FLOAT_KERNELS(X, sum_of_ranks, RankSumArguments, 256, 0)               \
  REPRISE_CUDA_FLOAT_KERNELS(X, sum_of_ranks_and_norm, RankSumNormArguments, 256, 64) \
  X(experts_of_rank, RankExpertsArguments, 256, 0, experts_of_rank)                   \
  X(columns_of_ranks, RankColumnsArguments, 256, 0, columns_of_ranks)                 \
  X(kv_write, KvWriteArguments, 256, 0, kv_write)                                     \
  REPRISE_CUDA_FLOAT_KERNELS(X, kv_write_quant, KvWriteQuantArguments, 256, 0)        \
  REPRISE_CUDA_FLOAT_KERNELS(                                                         \
      X, sparse_attention, SparseAttentionArguments, 256, kSparseSharedBytes)         \
  REPRISE_CUDA_DOT_KERNELS(X, f32, float)                                             \
  REPRISE_CUDA_DOT_KERNELS(X, bf16, BFloat16)                                         \
  REPRISE_CUDA_DOT_KERNELS(X, f16, Float16)                                           \
  REPRISE_CUDA_ATTENTION_BY_ROWS(X, f32, float)                                       \
  REPRISE_CUDA_ATTENTION_BY_ROWS(X, bf16, BFloat16)                                   \
  REPRISE_CUDA_ATTENTION_BY_ROWS(X, f16, Float16)                                     \
  REPRISE_CUDA_SAMPLING_KERNELS(X)                                                    \
  REPRISE_CUDA_LATE_PACKED_KERNELS(X)                                                 \
  REPRISE_CUDA_ATTENTION_KERNELS(X, bf16, BFloat16)                                   \
  REPRISE_CUDA_ATTENTION_KERNELS(X, f16, Float16)                                     \
  REPRISE_CUDA_FIXED_ATTENTION(X, bf16, BFloat16)                                     \
  REPRISE_CUDA_FIXED_ATTENTION(X, f16, Float16)                                       \
  REPRISE_CUDA_PREFILL_ATTENTION(X, bf16, BFloat16)                                   \
  REPRISE_CUDA_PREFILL_ATTENTION(X, f16, Float16)                                     \
  REPRISE_CUDA_HEAD_PRODUCTS(X, bf16, BFloat16)                                       \
  REPRISE_CUDA_HEAD_PRODUCTS(X, f16, Float16)                                         \
  REPRISE_CUDA_LATENT_ATTENTION(X, bf16, BFloat16)                                    \
  REPRISE_CUDA_LATENT_ATTENTION(X, f16, Float16)                                      \
  REPRISE_CUDA_STATE_CHUNKS(X, bf16, BFloat16)                                        \
  REPRISE_CUDA_STATE_CHUNKS(X, f16, Float16)

// Kernels with more shared memory than some GPUs have for a block (large_kernels()).
#define REPRISE_CUDA_LARGE_KERNELS(X)                   \
  REPRISE_CUDA_WIDE_LATENT_ATTENTION(X, bf16, BFloat16) \
  REPRISE_CUDA_WIDE_LATENT_ATTENTION(X, f16, Float16)

// Kernels that wait for the kernels ahead of them at a place of their own choice. All other kernels
// wait first.
#define REPRISE_CUDA_EARLY_KERNELS(X)              \
  REPRISE_CUDA_FRAGMENT_KERNELS(X, bf16, BFloat16) \
  REPRISE_CUDA_FRAGMENT_KERNELS(X, f16, Float16)   \
  REPRISE_CUDA_EARLY_PACKED_KERNELS(X)

#define REPRISE_CUDA_KERNELS(X) \
  REPRISE_CUDA_LATE_KERNELS(X)  \
  REPRISE_CUDA_LARGE_KERNELS(X) \
  REPRISE_CUDA_EARLY_KERNELS(X) \
  REPRISE_CUDA_STREAMED_KERNELS(X)
// NOLINTEND(bugprone-macro-parentheses)
