#include "reprise/api/options/memory_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/parallel/communicator.h"
#include "reprise/tensor/codecs.h"
#include "reprise/weights/config/expected_tensors.h"

namespace reprise::api {
namespace {

// The default of vLLM's VLLM_CPU_KVCACHE_SPACE.
constexpr int64_t kDefaultKvCacheBytes = int64_t{4} << 30;
// On a CPU, what threads, requests and their texts may take after the start. They are not known
// before, and a process that exceeds its limit is ended.
constexpr int64_t kHostRest = int64_t{64} << 20;

int64_t num_blocks_of_override(int64_t num_blocks) {
  constexpr int64_t kNullBlock = 1;
  require_positive("--num-gpu-blocks-override", num_blocks);
  return std::min(num_blocks, int64_t{INT32_MAX} - kNullBlock) + kNullBlock;
}

// Ranks and engines of one start that may share the host's memory. They measure at the same time.
int64_t processes_on_host(const EngineArgs& args) {
  const int num_ranks = args.ranks == nullptr ? 1 : args.ranks->size();
  return static_cast<int64_t>(num_ranks) * std::max(args.data_parallel_size, 1);
}

std::string size_text(int64_t num_bytes) {
  constexpr double kGiB = 1 << 30;
  constexpr double kMiB = 1 << 20;
  const auto bytes = static_cast<double>(num_bytes);
  return bytes < kGiB / 10 ? fmt::format("{:.2f} MiB", bytes / kMiB)
                           : fmt::format("{:.2f} GiB", bytes / kGiB);
}

}  // namespace

int64_t weight_bytes(const weights::WeightSource& source,
                     const weights::ModelConfig& config,
                     DType dtype,
                     WeightFamilies families) {
  int64_t total = 0;
  for (const weights::ExpectedTensor& tensor : weights::expected_tensors(config)) {
    if (tensor.presence == weights::Presence::optional) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    const std::optional<PanelFormat> format = source.panel_format(tensor.name);
    const bool stays_packed = format && families.has(family_of(*format));
    total += stays_packed
                 ? panel_bytes(*format, elements / tensor.shape.back(), tensor.shape.back())
                 : elements * static_cast<int64_t>(dtype_bytes(dtype));
  }
  return total;
}

void check_weights_fit(int64_t weight_bytes, const device::Device& device) {
  const size_t free = device.memory().free;
  if (std::cmp_less_equal(weight_bytes, free)) return;
  throw OutOfMemory(
      fmt::format("the weights of this model take {}, and {} has {} of free memory; free some "
                  "memory, or use a smaller model",
                  size_text(weight_bytes),
                  device.name(),
                  size_text(static_cast<int64_t>(free))));
}

MemoryBudget memory_budget(const EngineArgs& args,
                           const device::MemoryInfo& memory,
                           DeviceMemory kind) {
  const double part = args.gpu_memory_utilization.value_or(kDefaultMemoryUtilization);
  if (!(part > 0 && part <= 1)) {
    throw InvalidArgument(fmt::format("--gpu-memory-utilization: {} is not between 0 and 1", part));
  }
  const auto total = static_cast<int64_t>(memory.total);
  MemoryBudget budget{.total = total,
                      .bytes = static_cast<int64_t>(part * static_cast<double>(memory.total)),
                      .limit = kind == DeviceMemory::gpu ? "" : device::tightest_memory_limit()};
  if (kind == DeviceMemory::host) {
    budget.bytes = std::min(budget.bytes, std::max<int64_t>(total - kHostRest, 0));
  }
  return budget;
}

CacheMemory cache_memory(const EngineArgs& args,
                         const device::MemoryInfo& memory,
                         DeviceMemory kind,
                         int64_t bytes_in_caches) {
  const int64_t free = static_cast<int64_t>(memory.free) + bytes_in_caches;
  const MemoryBudget budget = memory_budget(args, memory, kind);
  const std::string limit =
      budget.limit.empty() ? "" : fmt::format(" ({} is {})", budget.limit, size_text(budget.total));
  if (args.kv_cache_memory_bytes) {
    if (*args.kv_cache_memory_bytes <= free) {
      return {
          .bytes = *args.kv_cache_memory_bytes, .free = free, .option = "--kv-cache-memory-bytes"};
    }
    throw InvalidArgument(fmt::format(
        "--kv-cache-memory-bytes: {} do not fit: beside weights, activations and graphs "
        "{} are free{}; give less, or leave the option out to use what is there",
        size_text(*args.kv_cache_memory_bytes),
        size_text(free),
        limit));
  }
  const int64_t used = budget.total - free;
  const int64_t left = budget.bytes - used;
  // A machine without a limit is shared with programs whose memory grows: unless the user gives a
  // part of it, half of what is free is left to them.
  const bool is_shared =
      kind == DeviceMemory::host && budget.limit.empty() && !args.gpu_memory_utilization;
  if (is_shared) {
    return {.bytes = std::min(kDefaultKvCacheBytes, free / 2),
            .free = free,
            .option = "--kv-cache-memory-bytes"};
  }
  if (left <= 0) {
    throw InvalidArgument(fmt::format(
        "--gpu-memory-utilization: {} of {}{} is {}, and weights, activations, graphs and what "
        "else "
        "is in memory take {}: nothing is left for the KV cache; give more memory, a smaller "
        "model, "
        "or a smaller --max-num-batched-tokens, --max-num-seqs or --max-cudagraph-capture-size",
        args.gpu_memory_utilization.value_or(kDefaultMemoryUtilization),
        size_text(budget.total),
        limit,
        size_text(budget.bytes),
        size_text(used)));
  }
  const int64_t mine = kind == DeviceMemory::host ? left / processes_on_host(args) : left;
  const bool is_capped = kind == DeviceMemory::host && !args.gpu_memory_utilization;
  return {.bytes = is_capped ? std::min(kDefaultKvCacheBytes, mine) : mine,
          .free = free,
          .option = "--gpu-memory-utilization"};
}

CacheMemory without_states(CacheMemory memory, const EngineArgs& args, int64_t state_bytes) {
  if (state_bytes <= memory.bytes) {
    memory.bytes -= state_bytes;
    memory.free -= state_bytes;
    return memory;
  }
  throw InvalidArgument(fmt::format(
      "--max-num-seqs: the states of {} requests take {}, more than the {} for caches; give fewer "
      "requests{}, or more by {}",
      args.max_num_seqs,
      size_text(state_bytes),
      size_text(memory.bytes),
      args.speculative_config.empty() ? "" : ", fewer speculative tokens",
      memory.option));
}

namespace {

/// The largest number up to `most` of blocks whose caches fit.
int64_t most_blocks_in(int64_t bytes, int64_t most, const BytesOfBlocks& bytes_of) {
  int64_t fits = 0;
  int64_t too_many = most + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (bytes_of(middle) <= bytes ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

KvCacheSize size_kv_cache(const EngineArgs& args,
                          const kv_cache::KvCacheLayout& layout,
                          int32_t max_model_len,
                          const CacheMemory& memory,
                          const BytesOfBlocks& bytes_of) {
  const auto bytes_per_block = static_cast<int64_t>(layout.bytes_per_block());
  const int64_t block_size = layout.block_size;
  const int64_t blocks_per_request = (max_model_len + block_size - 1) / block_size;
  int64_t num_blocks = 0;
  std::string_view option = memory.option;
  if (args.num_gpu_blocks_override) {
    option = "--num-gpu-blocks-override";
    num_blocks = num_blocks_of_override(*args.num_gpu_blocks_override);
  } else {
    const int64_t useful = blocks_per_request * args.max_num_seqs + 1;  // + 1: the null block
    // A model whose layers are all recurrent caches nothing in blocks: they only count tokens.
    num_blocks = bytes_per_block == 0 ? useful : most_blocks_in(memory.bytes, useful, bytes_of);
  }
  if (num_blocks < 2) {
    throw InvalidArgument(
        fmt::format("{}: {} bytes hold {} blocks of {} bytes; at least 2 are needed",
                    option,
                    memory.bytes,
                    num_blocks,
                    bytes_per_block));
  }
  if (args.num_gpu_blocks_override && bytes_of(num_blocks) > memory.free) {
    throw InvalidArgument(fmt::format(
        "--num-gpu-blocks-override: {} blocks take {}, and beside weights, activations and graphs "
        "{} are free; give fewer blocks, or leave the option out to use what is there",
        num_blocks - 1,
        size_text(bytes_of(num_blocks)),
        size_text(memory.free)));
  }
  const int64_t longest = (num_blocks - 1) * block_size;
  KvCacheSize size{
      .num_blocks = num_blocks,
      .max_model_len = max_model_len,
      .depends_on_memory = !args.num_gpu_blocks_override && !args.kv_cache_memory_bytes};
  if (longest >= max_model_len) return size;
  if (args.max_model_len == kLongestThatFits) {
    size.max_model_len = static_cast<int32_t>(longest);
    return size;
  }
  // vLLM's sentence, but with the names of this program's options.
  throw InvalidArgument(fmt::format(
      "To serve at least one request with the model's max seq len ({}), {} of KV cache are needed, "
      "which is larger than the available KV cache memory ({}). Based on the available memory, the "
      "estimated maximum model length is {}. Try increasing {} or decreasing --max-model-len; "
      "--max-model-len auto takes the longest that fits.",
      max_model_len,
      size_text((blocks_per_request + 1) * bytes_per_block),
      size_text(num_blocks * bytes_per_block),
      longest,
      option));
}

}  // namespace reprise::api
