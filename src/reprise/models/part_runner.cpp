#include "reprise/models/part_runner.h"

#include <algorithm>
#include <span>

#include "reprise/base/part_queue.h"
#include "reprise/device/cpu/usable_cores.h"

namespace reprise::models {
namespace {

struct alignas(16) RunPartsArguments {
  PartQueue* queue;
};

void run_parts(const void* args, device::BlockRange) noexcept {
  static_cast<const RunPartsArguments*>(args)->queue->run_parts();
}

constexpr device::Kernel kRunParts = {.name = "run_parts", .cpu = run_parts};

}  // namespace

void PartRunner::run(int64_t num_parts, const std::function<void(int64_t)>& run_part) {
  const PartQueue::RunPart run_one = [&](int64_t part, int64_t) { run_part(part); };
  PartQueue queue(num_parts, run_one);
  if (num_parts > 1 && !stream_->device().is_host_accessible()) {
    // More threads would not read files faster.
    constexpr int64_t kMostThreads = 16;
    const auto num_cores = static_cast<int64_t>(device::usable_cores().size());
    queue.run_on_threads(std::min({num_parts, num_cores, kMostThreads}));
  } else if (num_parts > 1) {
    const RunPartsArguments arguments{&queue};
    // A worker gets at least one block if there are as many blocks as workers.
    constexpr int64_t kMostBlocks = 1024;
    stream_->launch({.kernel = &kRunParts,
                     .num_blocks = static_cast<uint32_t>(std::min(num_parts, kMostBlocks)),
                     .args = std::as_bytes(std::span(&arguments, 1)),
                     .uses = {}});
    stream_->synchronize();
  } else {
    queue.run_parts();
  }
  queue.rethrow();
}

}  // namespace reprise::models
