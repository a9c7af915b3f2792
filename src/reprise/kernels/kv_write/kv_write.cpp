#include "reprise/kernels/kv_write/kv_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

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
          fmt::format("a cache of {} for keys and values of {}: expected the same "
                      "type, int8 or a float8",
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

// The codes and, where the row has one, the scale of one row.
void write_row_ref(const Tensor& cache,
                   const Tensor& x,
                   const std::array<int64_t, 2>& from,
                   const std::array<int64_t, 3>& to,
                   float scale) {
  const int64_t head_dim = x.size(2);
  const bool has_row_scale = cache.size(3) > head_dim;
  if (has_row_scale) {
    float largest = 1e-10F;
    for (int64_t i = 0; i < head_dim; ++i) {
      const auto magnitude = static_cast<float>(std::abs(element(x, from[0], from[1], i)));
      if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
    }
    const float largest_code =
        cache.dtype() == DType::i8 ? 127.0F : (cache.dtype() == DType::f8e4m3 ? 448.0F : 57344.0F);
    scale = largest / largest_code;
  }
  for (int64_t i = 0; i < head_dim; ++i) {
    const auto value = static_cast<float>(element(x, from[0], from[1], i));
    const float code = cache.dtype() == x.dtype() ? value : value / scale;
    set_element(cache, code, to[0], to[1], to[2], i);
  }
  if (!has_row_scale) return;
  const int64_t row = (to[0] * cache.size(1) + to[1]) * cache.size(2) + to[2];
  std::memcpy(cache.data_as<char>() + row * cache.size(3) + head_dim, &scale, sizeof scale);
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

double cache_element(const Tensor& cache,
                     int64_t head_dim,
                     float scale,
                     int64_t block,
                     int64_t head,
                     int64_t slot,
                     int64_t i) {
  if (cache.size(3) > head_dim) {
    const int64_t row = (block * cache.size(1) + head) * cache.size(2) + slot;
    std::memcpy(&scale, cache.data_as<char>() + row * cache.size(3) + head_dim, sizeof scale);
  }
  const double code = element(cache, block, head, slot, i);
  return dtype_bytes(cache.dtype()) == 1 ? code * scale : code;
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

void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping,
                  const CacheScales& scales) {
  const int64_t block_size = key_cache.size(2);
  for (int64_t token = 0; token < k.size(0); ++token) {
    const int64_t slot = int_element(slot_mapping, token);
    if (slot < 0 || slot >= key_cache.size(0) * block_size) continue;
    for (int64_t head = 0; head < k.size(1); ++head) {
      const std::array to{slot / block_size, head, slot % block_size};
      write_row_ref(key_cache, k, {token, head}, to, scales.k);
      write_row_ref(value_cache, v, {token, head}, to, scales.v);
    }
  }
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
