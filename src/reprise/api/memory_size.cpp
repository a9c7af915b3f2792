#include "reprise/api/memory_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "reprise/api/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/weights/expected_tensors.h"

namespace reprise::api {
namespace {

// The default of vLLM's VLLM_CPU_KVCACHE_SPACE.
constexpr int64_t kDefaultKvCacheBytes = int64_t{4} << 30;

int64_t num_blocks_of_override(int64_t num_blocks) {
  constexpr int64_t kNullBlock = 1;
  require_positive("--num-gpu-blocks-override", num_blocks);
  return std::min(num_blocks, int64_t{INT32_MAX} - kNullBlock) + kNullBlock;
}

std::string size_text(double bytes) {
  constexpr double kGiB = 1 << 30;
  constexpr double kMiB = 1 << 20;
  return bytes < kGiB / 10 ? fmt::format("{:.2f} MiB", bytes / kMiB)
                           : fmt::format("{:.2f} GiB", bytes / kGiB);
}

}  // namespace

int64_t weight_bytes(const weights::WeightSource& source,
                     const weights::ModelConfig& config,
                     DType dtype,
                     models::Parameters::Packing packing) {
  int64_t total = 0;
  for (const weights::ExpectedTensor& tensor : weights::expected_tensors(config)) {
    if (tensor.presence == weights::Presence::optional) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    const auto format = packing == models::Parameters::Packing::keep
                            ? source.panel_format(tensor.name)
                            : std::nullopt;
    total += format ? panel_bytes(*format, elements / tensor.shape.back(), tensor.shape.back())
                    : elements * static_cast<int64_t>(dtype_bytes(dtype));
  }
  return total;
}

void check_weights_fit(int64_t weight_bytes, const device::Device& device) {
  const size_t free = device.memory().free;
  if (static_cast<uint64_t>(weight_bytes) <= free) return;
  throw OutOfMemory(
      fmt::format("the weights of this model take {}, and {} has {} of free memory; free some "
                  "memory, or use a smaller model",
                  size_text(static_cast<double>(weight_bytes)),
                  device.name(),
                  size_text(static_cast<double>(free))));
}

CacheMemory cpu_cache_memory(const EngineArgs& args, const device::MemoryInfo& memory) {
  const int64_t chosen = std::min(kDefaultKvCacheBytes, static_cast<int64_t>(memory.free / 2));
  return {.bytes = args.kv_cache_memory_bytes.value_or(chosen),
          .option = "--kv-cache-memory-bytes"};
}

size_t gpu_memory_budget(const EngineArgs& args, const device::MemoryInfo& memory) {
  if (!(args.gpu_memory_utilization > 0 && args.gpu_memory_utilization <= 1)) {
    throw InvalidArgument(fmt::format("--gpu-memory-utilization: {} is not between 0 and 1",
                                      args.gpu_memory_utilization));
  }
  return static_cast<size_t>(args.gpu_memory_utilization * static_cast<double>(memory.total));
}

CacheMemory gpu_cache_memory(const EngineArgs& args,
                             size_t budget,
                             const runner::MemoryProfile& profile) {
  const size_t bytes = profile.cache_bytes(budget);
  if (bytes > 0) {
    return {.bytes = static_cast<int64_t>(bytes), .option = "--gpu-memory-utilization"};
  }
  throw InvalidArgument(fmt::format(
      "--gpu-memory-utilization: {}, which is {} bytes, is less than the {} that weights and "
      "activations and the {} that graphs take; give more, or a smaller model",
      args.gpu_memory_utilization,
      budget,
      profile.used_bytes - std::min(profile.used_bytes, profile.probed_graph_bytes),
      profile.estimated_graph_bytes));
}

CacheMemory without_states(CacheMemory memory, const kv_cache::StateCacheLayout& states) {
  const auto bytes =
      static_cast<int64_t>(states.bytes_per_slot()) * std::max<int64_t>(states.num_slots, 0);
  if (bytes <= memory.bytes) {
    memory.bytes -= bytes;
    return memory;
  }
  throw InvalidArgument(fmt::format(
      "--max-num-seqs: the states of {} requests take {}, more than the {} for caches; give fewer "
      "requests, or more by {}",
      states.num_slots - 1,
      size_text(static_cast<double>(bytes)),
      size_text(static_cast<double>(memory.bytes)),
      memory.option));
}

KvCacheSize size_kv_cache(const EngineArgs& args,
                          const kv_cache::KvCacheLayout& layout,
                          int32_t max_model_len,
                          const CacheMemory& memory) {
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
    num_blocks = bytes_per_block == 0 ? useful : std::min(useful, memory.bytes / bytes_per_block);
  }
  if (num_blocks < 2) {
    throw InvalidArgument(
        fmt::format("{}: {} bytes hold {} blocks of {} bytes; at least 2 are needed",
                    option,
                    memory.bytes,
                    num_blocks,
                    bytes_per_block));
  }
  const int64_t longest = (num_blocks - 1) * block_size;
  if (longest >= max_model_len) return {.num_blocks = num_blocks, .max_model_len = max_model_len};
  if (args.max_model_len == kLongestThatFits) {
    return {.num_blocks = num_blocks, .max_model_len = static_cast<int32_t>(longest)};
  }
  // vLLM's sentence, but with the names of this program's options.
  throw InvalidArgument(fmt::format(
      "To serve at least one request with the model's max seq len ({}), {} of KV cache are needed, "
      "which is larger than the available KV cache memory ({}). Based on the available memory, the "
      "estimated maximum model length is {}. Try increasing {} or decreasing --max-model-len; "
      "--max-model-len auto takes the longest that fits.",
      max_model_len,
      size_text(static_cast<double>((blocks_per_request + 1) * bytes_per_block)),
      size_text(static_cast<double>(num_blocks * bytes_per_block)),
      longest,
      option));
}

}  // namespace reprise::api
