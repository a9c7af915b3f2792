#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_concat_and_cache_mla(device::Stream& stream,
                                 const KernelTable& kernels,
                                 const Tensor& kv_c,
                                 const Tensor& k_pe,
                                 const Tensor& kv_cache,
                                 const Tensor& slot_mapping) {
  require_dense_rows(kv_c, "concat_and_cache_mla");
  require_dense_rows(k_pe, "concat_and_cache_mla");
  REPRISE_ASSERT(kv_cache.is_dense() && slot_mapping.is_dense(),
                 "concat_and_cache_mla: cache and slots must be dense");
  const int64_t row_size = max_of(1, kv_cache.size(3));
  const ConcatAndCacheMlaArguments arguments = {
      .kv_c = kv_c.data(),
      .k_pe = k_pe.data(),
      .kv_cache = kv_cache.data(),
      .slot_mapping = slot_mapping.data_as<int32_t>(),
      .kv_c_stride = kv_c.stride(0),
      .k_pe_stride = k_pe.stride(0),
      .num_tokens = kv_c.size(0),
      .latent_size = kv_c.size(1),
      .rope_size = k_pe.size(2),
      .num_slots = kv_cache.size(0) * kv_cache.size(2),
      .tokens_per_block = max_of(1, kElementsPerBlock / row_size),
  };
  // Only the device knows which slots are written, so the launch declares a write of the cache.
  return launch(stream,
                kernel_for(kernels.concat_and_cache_mla, kv_c.dtype()),
                static_cast<uint32_t>(ceil_div(arguments.num_tokens, arguments.tokens_per_block)),
                arguments,
                std::array{writes(kv_cache), reads(kv_c), reads(k_pe), reads(slot_mapping)});
}

bool launch_concat_and_cache_mla(const OpRun& run) {
  const auto in = run.operands<OpCode::concat_and_cache_mla>();
  return launch_concat_and_cache_mla(
      run.stream, run.kernels, in["kv_c"], in["k_pe"], in["kv_cache"], in["slot_mapping"]);
}

}  // namespace reprise::kernels
