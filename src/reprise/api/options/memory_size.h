#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/tensor/weight_families.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

/// How much memory weights and KV cache may use, and how many tokens fit into it.
namespace reprise::api {

/// Bytes that the parameters of a model will use. A matrix that stays packed counts in its packed
/// size, every other parameter in `dtype`. A tied embedding that stays packed counts twice, packed
/// and in `dtype`, because both forms are kept.
[[nodiscard]] int64_t weight_bytes(const weights::WeightSource& source,
                                   const weights::ModelConfig& config,
                                   DType dtype,
                                   WeightFamilies families);

/// \throws OutOfMemory when the weights alone are larger than the free memory
void check_weights_fit(int64_t weight_bytes, const device::Device& device);

/// Whose memory a device has.
enum class DeviceMemory : uint8_t {
  gpu,
  host,  // that of the machine, with all that runs on it
};

/// --gpu-memory-utilization of `memory`. On a host at most what leaves 64 MiB for threads and
/// requests. \throws InvalidArgument
[[nodiscard]] MemoryBudget memory_budget(const EngineArgs& args,
                                         const device::MemoryInfo& memory,
                                         DeviceMemory kind);

/// The memory for the caches, and the option that a message names for getting more.
struct CacheMemory {
  int64_t bytes = 0;
  int64_t free = 0;  // memory that is free beyond the budget
  std::string_view option;
};

/// --kv-cache-memory-bytes, else what is left of the budget. A host without a limit, and without
/// --gpu-memory-utilization, keeps half of its free memory. Without that option, a host's caches
/// get at most 4 GiB, vLLM's default. `memory`: now. `bytes_in_caches`: of it, what caches have
/// already.
/// \throws InvalidArgument when nothing is left, or less than the options ask for
[[nodiscard]] CacheMemory cache_memory(const EngineArgs& args,
                                       const device::MemoryInfo& memory,
                                       DeviceMemory kind,
                                       int64_t bytes_in_caches);

/// The memory that is left for cache blocks when the states of recurrent layers are taken off.
/// \throws InvalidArgument when the states do not fit
[[nodiscard]] CacheMemory without_states(CacheMemory memory,
                                         const EngineArgs& args,
                                         int64_t state_bytes);

struct KvCacheSize {
  int64_t num_blocks = 0;     // including the null block
  int32_t max_model_len = 0;  // the longest request; less than asked for only with kLongestThatFits
  int64_t num_state_snapshots = 0;
  bool depends_on_memory = false;  // no option gives the number of blocks
};

/// The bytes of caches with so many blocks; grows with them.
using BytesOfBlocks = std::function<int64_t(int64_t num_blocks)>;

/// The number of blocks whose caches fit into `memory`, or --num-gpu-blocks-override blocks.
/// `layout` describes one block. Never more blocks than max_num_seqs requests of `max_model_len`
/// tokens can use. Sets no number of snapshots.
/// \throws InvalidArgument, with the longest length that fits, when no request of `max_model_len`
/// tokens fits; when the blocks that are asked for do not fit
[[nodiscard]] KvCacheSize size_kv_cache(const EngineArgs& args,
                                        const kv_cache::KvCacheLayout& layout,
                                        int32_t max_model_len,
                                        const CacheMemory& memory,
                                        const BytesOfBlocks& bytes_of);

}  // namespace reprise::api
