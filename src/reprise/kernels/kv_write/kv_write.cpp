#include "reprise/kernels/kv_write/kv_write.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {
namespace {

constexpr int64_t kBytesPerBlock = 16384;

}  // namespace

bool launch_kv_write(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& k,
                     const Tensor& v,
                     const Tensor& key_cache,
                     const Tensor& value_cache,
                     const Tensor& slot_mapping) {
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
  return launch(
      stream,
      kernels.kv_write,
      static_cast<uint32_t>(ceil_div(arguments.num_tokens, arguments.tokens_per_block)),
      arguments,
      std::array{writes(key_cache), writes(value_cache), reads(k), reads(v), reads(slot_mapping)});
}

void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping) {
  const int64_t block_size = key_cache.size(2);
  for (int64_t token = 0; token < k.size(0); ++token) {
    const int64_t slot = int_element(slot_mapping, token);
    if (slot < 0 || slot >= key_cache.size(0) * block_size) continue;
    for (int64_t head = 0; head < k.size(1); ++head) {
      for (int64_t i = 0; i < k.size(2); ++i) {
        const int64_t block = slot / block_size;
        const int64_t offset = slot % block_size;
        set_element(key_cache, element(k, token, head, i), block, head, offset, i);
        set_element(value_cache, element(v, token, head, i), block, head, offset, i);
      }
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
                         in["slot_mapping"]);
}

}  // namespace reprise::kernels
