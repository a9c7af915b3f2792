#include "reprise/kernels/rope_kv_write/rope_kv_write.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

StridedHeads strided_heads(const Tensor& x) {
  require_dense_rows(x, "rope_kv_write");
  return {.x = x.data(), .token_stride = x.stride(0), .head_stride = x.stride(1)};
}

}  // namespace

RopeAndCache rope_and_cache(const RopeAndCacheCall& call) {
  require_dense_rows(call.cos_sin, "rope_kv_write");
  REPRISE_ASSERT(call.positions.is_dense() && call.slot_mapping.is_dense() &&
                     call.key_cache.is_dense() && call.value_cache.is_dense() &&
                     call.q_out.is_dense(),
                 "rope_kv_write: positions, slots, caches and the result must be dense");
  const CacheRows rows =
      cache_rows(call.key_cache, call.q_out.dtype(), call.q_out.size(2), call.scales);
  REPRISE_ASSERT(rows.type == CacheType::like_model || call.q_out.size(2) <= kMaxQuantizedHeadDim,
                 "rope_kv_write: heads of {} elements are too long for a cache of eight bits",
                 call.q_out.size(2));
  return {.positions = call.positions.data_as<int32_t>(),
          .cos_sin = call.cos_sin.data_as<float>(),
          .slot_mapping = call.slot_mapping.data_as<int32_t>(),
          .q_norm = call.q_norm.data(),
          .k_norm = call.k_norm.data(),
          .q_out = call.q_out.data(),
          .key_cache = call.key_cache.data(),
          .value_cache = call.value_cache.data(),
          .max_position = call.cos_sin.size(0),
          .table_stride = call.cos_sin.stride(0),
          .heads = call.q_out.size(1),
          .kv_heads = call.key_cache.size(1),
          .head_dim = call.q_out.size(2),
          .block_size = call.key_cache.size(2),
          .num_slots = call.key_cache.size(0) * call.key_cache.size(2),
          .rows = rows,
          .epsilon = call.epsilon};
}

bool launch_rope_kv_write(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& q,
                          const Tensor& k,
                          const Tensor& v,
                          const RopeAndCacheCall& call) {
  if (call.key_cache.dtype() != q.dtype() && kernels.kv_write_quant.f32.name == nullptr) {
    throw InvalidArgument(fmt::format("rope_kv_write: {} has no kernel for caches of eight bits",
                                      stream.device().name()));
  }
  const int64_t num_tokens = q.size(0);
  const int64_t elements_per_token = max_of(1, (q.size(1) + 2 * k.size(1)) * q.size(2));
  const RopeKvWriteArguments arguments = {
      .to = rope_and_cache(call),
      .q = strided_heads(q),
      .k = strided_heads(k),
      .v = strided_heads(v),
      .num_tokens = num_tokens,
      .tokens_per_block = max_of(1, kElementsPerBlock / elements_per_token),
  };
  // Only the device knows which slots are written, so the launch declares a write of both whole
  // caches.
  return launch(stream,
                kernel_for(kernels.rope_kv_write, q.dtype()),
                static_cast<uint32_t>(ceil_div(num_tokens, arguments.tokens_per_block)),
                arguments,
                std::array{writes(call.q_out),
                           writes(call.key_cache),
                           writes(call.value_cache),
                           reads(q),
                           reads(k),
                           reads(v),
                           reads(call.positions),
                           reads(call.cos_sin),
                           reads(call.slot_mapping),
                           reads(call.q_norm),
                           reads(call.k_norm)});
}

bool launch_rope_kv_write(const OpRun& run) {
  const auto in = run.operands<OpCode::rope_kv_write>();
  return launch_rope_kv_write(run.stream,
                              run.kernels,
                              in["q"],
                              in["k"],
                              in["v"],
                              rope_and_cache_call<OpCode::rope_kv_write>(run));
}

}  // namespace reprise::kernels
