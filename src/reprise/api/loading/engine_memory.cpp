#include "reprise/api/loading/engine_memory.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"

namespace reprise::api {

EngineMemory::EngineMemory(device::Device& device,
                           models::Parameters& parameters,
                           std::vector<device::BufferView> caches)
    : device_(&device),
      memory_(device::discardable_memory(device)),
      parameters_(&parameters),
      caches_(std::move(caches)) {
  std::erase_if(caches_, [](const device::BufferView& cache) { return cache.bytes == 0; });
}

void EngineMemory::sleep(SleepLevel level) {
  if (level != SleepLevel::pause && memory_ == nullptr) {
    throw InvalidArgument(
        fmt::format("the memory of {} cannot be given back at addresses that graphs "
                    "hold; level 0 pauses without that",
                    device_->name()));
  }
  const bool offloads =
      level == SleepLevel::offload && !device_->is_host_accessible() && !weights_are_discarded_;
  if (offloads) parameters_->copy_to_host();
  sleeping_.scheduling = true;
  if (level == SleepLevel::pause) return;
  sleeping_ = EngineParts::all();
  for (const device::BufferView& cache : caches_) memory_->discard(cache);
  if (level == SleepLevel::discard) parameters_->drop_host_copy();
  if (!offloads && level != SleepLevel::discard) return;
  parameters_->discard(*memory_);
  weights_are_discarded_ = true;
}

void EngineMemory::wake_up(EngineParts parts, const ReadWeights& read_weights) {
  if (parts.weights && weights_are_discarded_) wake_weights(read_weights);
  sleeping_.weights = sleeping_.weights && !parts.weights;
  if (parts.kv_cache && sleeping_.kv_cache) {
    for (const device::BufferView& cache : caches_) memory_->restore(cache);
  }
  sleeping_.kv_cache = sleeping_.kv_cache && !parts.kv_cache;
  // As in vLLM, scheduling also wakes when all memory is awake, even if it was not named.
  const bool has_memory = !sleeping_.weights && !sleeping_.kv_cache;
  sleeping_.scheduling = sleeping_.scheduling && !has_memory;
}

void EngineMemory::wake_weights(const ReadWeights& read_weights) {
  parameters_->restore(*memory_);
  if (parameters_->has_host_copy()) {
    parameters_->copy_from_host();
    parameters_->drop_host_copy();
  } else {
    read_weights();
  }
  weights_are_discarded_ = false;
}

}  // namespace reprise::api
