#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reprise/api/engine_args.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/models/parameters.h"
#include "reprise/runner/memory_report.h"
#include "reprise/weights/model_config.h"

/// How much memory weights and KV cache may use, and how many tokens fit into it.
namespace reprise::api {

/// Bytes that the parameters of a model will use. A matrix that stays packed counts in its packed
/// size, every other parameter in `dtype`. A tied embedding that stays packed counts twice, packed
/// and in `dtype`, because both forms are kept.
[[nodiscard]] int64_t weight_bytes(const weights::WeightSource& source,
                                   const weights::ModelConfig& config,
                                   DType dtype,
                                   models::Parameters::Packing packing);

/// \throws OutOfMemory when the weights alone are larger than the free memory
void check_weights_fit(int64_t weight_bytes, const device::Device& device);

/// The memory for the KV cache, and the option that a message names for getting more.
struct CacheMemory {
  int64_t bytes = 0;
  std::string_view option;
};

/// On a CPU: --kv-cache-memory-bytes, else a part of the free memory.
[[nodiscard]] CacheMemory cpu_cache_memory(const EngineArgs& args,
                                           const device::MemoryInfo& memory);
/// On a GPU without --kv-cache-memory-bytes: what remains of `budget` after `profile`.
/// \throws InvalidArgument when nothing remains
[[nodiscard]] CacheMemory gpu_cache_memory(const EngineArgs& args,
                                           size_t budget,
                                           const runner::MemoryProfile& profile);
/// The bytes of a GPU that --gpu-memory-utilization allows to use. \throws InvalidArgument
[[nodiscard]] size_t gpu_memory_budget(const EngineArgs& args, const device::MemoryInfo& memory);

/// The memory that is left for cache blocks when the states of recurrent layers are taken off.
/// --max-num-seqs decides how large these are. \throws InvalidArgument when the states do not fit
[[nodiscard]] CacheMemory without_states(CacheMemory memory,
                                         const kv_cache::StateCacheLayout& states);

struct KvCacheSize {
  int64_t num_blocks = 0;     // with the null block
  int32_t max_model_len = 0;  // the longest request; less than asked for only with kLongestThatFits
};

/// The number of blocks that fit into `memory`, or --num-gpu-blocks-override blocks. `layout`
/// describes one block. Never more blocks than max_num_seqs requests of `max_model_len` tokens can
/// use.
/// \throws InvalidArgument, with the longest length that fits, when no request of `max_model_len`
/// tokens fits
[[nodiscard]] KvCacheSize size_kv_cache(const EngineArgs& args,
                                        const kv_cache::KvCacheLayout& layout,
                                        int32_t max_model_len,
                                        const CacheMemory& memory);

}  // namespace reprise::api
