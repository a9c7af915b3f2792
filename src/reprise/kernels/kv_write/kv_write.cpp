#include "reprise/kernels/kv_write/kv_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

constexpr int64_t kBytesPerBlock = 16384;

CacheType cache_type(DType cache, DType model) {
  if (cache == model) return CacheType::like_model;
  switch (cache) {
    case DType::i8:
      return CacheType::i8;
    case DType::f8e4m3:
      return CacheType::f8e4m3;
    case DType::f8e5m2:
      return CacheType::f8e5m2;
    default:
      throw InvalidArgument(
          fmt::format("a cache of {} does not fit keys and values of {}: expected the same type, "
                      "int8 or a float8",
                      dtype_name(cache),
                      dtype_name(model)));
  }
}

bool launch_kv_write_quant(device::Stream& stream,
                           const KernelTable& kernels,
                           const KvWriteArguments& call,
                           const Tensor& k,
                           const CacheRows& rows,
                           std::span<const device::BufferUse, 5> uses) {
  const device::Kernel& kernel = kernel_for(kernels.kv_write_quant, k.dtype());
  if (kernel.name == nullptr) {
    throw InvalidArgument(
        fmt::format("kv_write: {} has no kernel for caches of eight bits", stream.device().name()));
  }
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(k.dtype()));
  const KvWriteQuantArguments arguments = {.k = call.k,
                                           .v = call.v,
                                           .key_cache = call.key_cache,
                                           .value_cache = call.value_cache,
                                           .slot_mapping = call.slot_mapping,
                                           .k_token_stride = call.k_token_stride / element_bytes,
                                           .k_head_stride = call.k_head_stride / element_bytes,
                                           .v_token_stride = call.v_token_stride / element_bytes,
                                           .v_head_stride = call.v_head_stride / element_bytes,
                                           .num_tokens = call.num_tokens,
                                           .kv_heads = call.kv_heads,
                                           .head_dim = k.size(2),
                                           .block_size = call.block_size,
                                           .num_slots = call.num_slots,
                                           .tokens_per_block = call.tokens_per_block,
                                           .rows = rows};
  std::array<device::BufferUse, 5> used;
  std::ranges::copy(uses, used.begin());
  return launch(stream,
                kernel,
                static_cast<uint32_t>(ceil_div(call.num_tokens, call.tokens_per_block)),
                arguments,
                used);
}

}  // namespace

CacheRows cache_rows(const Tensor& cache,
                     DType model,
                     int64_t head_dim,
                     const CacheScales& scales) {
  return {.type = cache_type(cache.dtype(), model),
          .has_row_scales = cache.size(3) > head_dim ? 1 : 0,
          .row_bytes = cache.size(3) * static_cast<int64_t>(dtype_bytes(cache.dtype())),
          .k_scale = scales.k,
          .v_scale = scales.v};
}

bool launch_kv_write(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& k,
                     const Tensor& v,
                     const Tensor& key_cache,
                     const Tensor& value_cache,
                     const Tensor& slot_mapping,
                     const CacheScales& scales) {
  require_dense_rows(k, "kv_write");
  require_dense_rows(v, "kv_write");
  REPRISE_ASSERT(key_cache.is_dense() && value_cache.is_dense() && slot_mapping.is_dense(),
                 "kv_write: caches and slots must be dense");
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(k.dtype()));
  const int64_t token_bytes = max_of(1, 2 * k.size(1) * k.size(2) * element_bytes);
  const KvWriteArguments arguments = {
      .k = k.data(),
      .v = v.data(),
      .key_cache = key_cache.data(),
      .value_cache = value_cache.data(),
      .slot_mapping = slot_mapping.data_as<int32_t>(),
      .k_token_stride = k.stride(0) * element_bytes,
      .k_head_stride = k.stride(1) * element_bytes,
      .v_token_stride = v.stride(0) * element_bytes,
      .v_head_stride = v.stride(1) * element_bytes,
      .num_tokens = k.size(0),
      .kv_heads = k.size(1),
      .head_bytes = k.size(2) * element_bytes,
      .block_size = key_cache.size(2),
      .num_slots = key_cache.size(0) * key_cache.size(2),
      .tokens_per_block = max_of(1, kBytesPerBlock / token_bytes),
  };
  // Only the device knows which slots are written, so the launch declares a write of both whole
  // caches.
  const std::array uses{
      writes(key_cache), writes(value_cache), reads(k), reads(v), reads(slot_mapping)};
  const CacheRows rows = cache_rows(key_cache, k.dtype(), k.size(2), scales);
  if (rows.type != CacheType::like_model) {
    return launch_kv_write_quant(stream, kernels, arguments, k, rows, uses);
  }
  return launch(stream,
                kernels.kv_write,
                static_cast<uint32_t>(ceil_div(arguments.num_tokens, arguments.tokens_per_block)),
                arguments,
                uses);
}

bool launch_kv_write(const OpRun& run) {
  const auto in = run.operands<OpCode::kv_write>();
  return launch_kv_write(run.stream,
                         run.kernels,
                         in["k"],
                         in["v"],
                         in["key_cache"],
                         in["value_cache"],
                         in["slot_mapping"],
                         {.k = run.call.attributes.k_scale, .v = run.call.attributes.v_scale});
}

}  // namespace reprise::kernels
