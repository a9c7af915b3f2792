#include "reprise/api/options/attention_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "reprise/attention/attention_backend.h"

namespace reprise::api {
namespace {

bool has_size(std::span<const int64_t> sizes, int64_t head_dim) {
  return std::ranges::find(sizes, head_dim) != sizes.end();
}

/// Why a GPU runs only Reprise's own attention kernels; empty if a library has some for this model.
std::string why_own(const EngineArgs& args,
                    const ResolvedOptions& options,
                    std::optional<bool> has_library) {
  if (options.attention->kind != attention::AttentionKind::key_value) {
    return "FlashInfer has kernels only for layers that cache keys and values";
  }
  if (attention_source(args) == kernels::AttentionSource::own) {
    return fmt::format("--attention-backend {} takes them; auto takes FlashInfer's",
                       options.attention->name);
  }
  if (args.batch_invariant == true) return "--batch-invariant needs their order of sums";
  if (options.dtype != DType::bf16 && options.dtype != DType::f16) {
    return fmt::format("FlashInfer has none for {}", dtype_name(options.dtype));
  }
  if (options.kv_cache_dtype.dtype.value_or(options.dtype) != options.dtype) {
    return fmt::format("FlashInfer has none for a cache of {}", options.kv_cache_dtype.name);
  }
  if (!has_size(kernels::kLibraryDecodingHeads, options.config.head_dim)) {
    return fmt::format("FlashInfer has none for heads of {}", options.config.head_dim);
  }
  if (has_library == false) return "this plug-in was built without FlashInfer; see docs/gpu.md";
  return {};
}

}  // namespace

kernels::AttentionSource attention_source(const EngineArgs& args) {
  using kernels::AttentionSource;
  const bool is_open = args.attention_backend == "auto" && args.flash_attn_version == 0;
  if (!is_open && args.attention_backend != "FLASHINFER") return AttentionSource::own;
  return args.flashinfer_prefill ? AttentionSource::library : AttentionSource::library_decoding;
}

std::string attention_kernels_text(const EngineArgs& args,
                                   const ResolvedOptions& options,
                                   std::optional<bool> has_library) {
  if (const std::string why = why_own(args, options, has_library); !why.empty()) {
    return fmt::format("Reprise's own ({})", why);
  }
  const int64_t head_dim = options.config.head_dim;
  const bool has_prompts =
      args.flashinfer_prefill && has_size(kernels::kLibraryPromptHeads, head_dim);
  return fmt::format("FlashInfer's{} for decoding (heads of {}, {}){}; otherwise Reprise's own",
                     has_library.has_value() ? "" : ", if the plug-in has them,",
                     head_dim,
                     dtype_name(options.dtype),
                     has_prompts ? ", and for prompts on compute capability 9.0" : "");
}

}  // namespace reprise::api
