#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The operands in addition to q, k and v, borrowed for the call. The heads of q and k are normed,
/// if there are norms, and rotated; k and v are written to their slots of the caches. The slots of
/// one call must differ. A token with a slot that is negative or beyond the cache writes no key and
/// no value. Positions must be inside the table; others are clamped to it.
struct RopeAndCacheCall {
  const Tensor& positions;     // int32[num_tokens]
  const Tensor& cos_sin;       // float32[max_position, head_dim/2 cos | head_dim/2 sin]
  const Tensor& key_cache;     // [num_blocks, kv_heads, block_size, head_dim], or of eight bits
  const Tensor& value_cache;   // like key_cache
  const Tensor& slot_mapping;  // int32[num_tokens]
  const Tensor& q_norm;        // [head_dim] or undefined
  const Tensor& k_norm;        // defined if q_norm is
  float epsilon;               // of the norms
  const Tensor& q_out;         // [num_tokens, heads, head_dim], dense
  CacheScales scales = {};     // of caches of eight bits
};

/// Returns the call for a run of rope_kv_write or linear_rope_kv_write.
template <OpCode kOp>
[[nodiscard]] RopeAndCacheCall rope_and_cache_call(const OpRun& run) {
  const auto in = run.operands<kOp>();
  return {.positions = in["positions"],
          .cos_sin = in["cos_sin"],
          .key_cache = in["key_cache"],
          .value_cache = in["value_cache"],
          .slot_mapping = in["slot_mapping"],
          .q_norm = in["q_norm"],
          .k_norm = in["k_norm"],
          .epsilon = run.call.attributes.epsilon,
          .q_out = run.out[0],
          .scales = {.k = run.call.attributes.k_scale, .v = run.call.attributes.v_scale}};
}

/// Computes the bits of launch_rms_norm of q and of k, launch_rope and launch_kv_write one after
/// the other, except for the payload of NaNs. The rotated k is stored only in the cache.
bool launch_rope_kv_write(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& q,  // [num_tokens, heads, head_dim], strided
                          const Tensor& k,  // [num_tokens, kv_heads, head_dim], strided
                          const Tensor& v,  // like k
                          const RopeAndCacheCall& call);

/// The arguments that every producer of q, k and v passes to its kernel.
[[nodiscard]] RopeAndCache rope_and_cache(const RopeAndCacheCall& call);

}  // namespace reprise::kernels
