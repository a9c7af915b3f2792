// Every kernel over FlashInfer's headers. The function of the image is reprise_<name>.
//
// With attention plans: REPRISE_FLASHINFER_SHAPES(X) is X(type, head_dim, group size) for each
// shape; REPRISE_FLASHINFER_KERNELS(X) is X(name, threads, shared bytes, function) for each kernel.
// The group sizes are those of existing models.
#define REPRISE_FLASHINFER_SHAPES_OF(X, type, head_dim) \
  X(type, head_dim, 1)                                  \
  X(type, head_dim, 2)                                  \
  X(type, head_dim, 4)                                  \
  X(type, head_dim, 7)                                  \
  X(type, head_dim, 8)
#define REPRISE_FLASHINFER_SHAPES(X)         \
  REPRISE_FLASHINFER_SHAPES_OF(X, bf16, 64)  \
  REPRISE_FLASHINFER_SHAPES_OF(X, bf16, 128) \
  REPRISE_FLASHINFER_SHAPES_OF(X, f16, 64)   \
  REPRISE_FLASHINFER_SHAPES_OF(X, f16, 128)

#define REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, group_size) \
  X(flashinfer_decode_##head_dim##x##group_size##_##type,           \
    (FlashInferBlock{head_dim, group_size}.threads()),              \
    (FlashInferBlock{head_dim, group_size}.shared_bytes()),         \
    flashinfer_decode<T, head_dim, group_size>)
#define REPRISE_FLASHINFER_GROUPS(X, type, T, head_dim) \
  REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, 1)    \
  REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, 2)    \
  REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, 4)    \
  REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, 7)    \
  REPRISE_FLASHINFER_DECODE(X, type, T, head_dim, 8)
#define REPRISE_FLASHINFER_TYPE(X, type, T)  \
  REPRISE_FLASHINFER_GROUPS(X, type, T, 64)  \
  REPRISE_FLASHINFER_GROUPS(X, type, T, 128) \
  X(flashinfer_merge_##type, 128, 0, flashinfer_merge<T>)
#define REPRISE_FLASHINFER_KERNELS(X)        \
  REPRISE_FLASHINFER_TYPE(X, bf16, BFloat16) \
  REPRISE_FLASHINFER_TYPE(X, f16, Float16)

// For any batch and any group, on the tensor cores: REPRISE_FLASHINFER_HEADS(X) is X(type, T,
// head_dim).
#define REPRISE_FLASHINFER_HEADS(X) \
  X(bf16, BFloat16, 64)             \
  X(bf16, BFloat16, 128)            \
  X(bf16, BFloat16, 256)            \
  X(f16, Float16, 64)               \
  X(f16, Float16, 128)              \
  X(f16, Float16, 256)

// Prompts on compute capability 9.0: REPRISE_FLASHINFER_PROMPTS(X) is X(type, T, head_dim).
#define REPRISE_FLASHINFER_PROMPTS(X) \
  X(bf16, BFloat16, 64)               \
  X(bf16, BFloat16, 128)              \
  X(f16, Float16, 64)                 \
  X(f16, Float16, 128)
