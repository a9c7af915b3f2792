#include "reprise/device/cuda/pinned_staging.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "reprise/base/part_queue.h"

namespace reprise::device::cuda {

PinnedStaging::~PinnedStaging() {
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  for (const Slot& slot : slots_) {
    if (slot.read != nullptr) (void)api.event_destroy(slot.read);
    if (slot.data != nullptr) (void)api.mem_free_host(slot.data);
  }
}

void PinnedStaging::allocate(Slot& slot) {
  const DriverApi& api = driver_->bound();
  // Memory and event are made separately: when the event fails, the memory is kept for the next
  // call.
  if (slot.data == nullptr) {
    void* data = nullptr;
    driver_->check(api.mem_host_alloc(&data, kSlotBytes, 0),
                   "cuMemHostAlloc of the staging memory");
    slot.data = static_cast<std::byte*>(data);
  }
  if (slot.read == nullptr) {
    driver_->check(api.event_create(&slot.read, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
}

void PinnedStaging::prepare(Slot& slot) {
  if (slot.read == nullptr) allocate(slot);
  if (slot.is_recorded) {
    driver_->check(driver_->bound().event_synchronize(slot.read), "cuEventSynchronize");
    slot.is_recorded = false;
  }
}

PinnedStaging::Slot& PinnedStaging::next_slot() {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  return slot;
}

void PinnedStaging::upload_part(
    Slot& slot, CUdeviceptr destination, const std::byte* source, size_t bytes, CUstream stream) {
  prepare(slot);
  const DriverApi& api = driver_->bound();
  std::memcpy(slot.data, source, bytes);
  driver_->check(api.memcpy_htod_async(destination, slot.data, bytes, stream), "cuMemcpyHtoDAsync");
  driver_->check(api.event_record(slot.read, stream), "cuEventRecord");
  slot.is_recorded = true;
}

void PinnedStaging::upload(CUdeviceptr destination,
                           const std::byte* source,
                           size_t bytes,
                           CUstream stream) {
  if (bytes >= kSharedBytes) return upload_on_threads(destination, source, bytes, stream);
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    const size_t part = std::min(kSlotBytes, bytes - done);
    upload_part(next_slot(), destination + done, source + done, part, stream);
  }
}

void PinnedStaging::upload_on_threads(CUdeviceptr destination,
                                      const std::byte* source,
                                      size_t bytes,
                                      CUstream stream) {
  // Each thread has its own slot.
  const PartQueue::RunPart upload_one = [&](int64_t part, int64_t thread) {
    const size_t begin = static_cast<size_t>(part) * kSlotBytes;
    upload_part(slots_[static_cast<size_t>(thread)],
                destination + begin,
                source + begin,
                std::min(kSlotBytes, bytes - begin),
                stream);
  };
  PartQueue queue(static_cast<int64_t>((bytes + kSlotBytes - 1) / kSlotBytes), upload_one);
  const size_t num_cores = std::max(std::thread::hardware_concurrency(), 1U);
  queue.run_on_threads(static_cast<int64_t>(std::min(kSlots, num_cores)));
  queue.rethrow();
}

void PinnedStaging::download(std::byte* destination,
                             CUdeviceptr source,
                             size_t bytes,
                             CUstream stream) {
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    const size_t part = std::min(kSlotBytes, bytes - done);
    Slot& slot = next_slot();
    prepare(slot);
    const DriverApi& api = driver_->bound();
    driver_->check(api.memcpy_dtoh_async(slot.data, source + done, part, stream),
                   "cuMemcpyDtoHAsync");
    driver_->check(api.stream_synchronize(stream), "cuStreamSynchronize");
    std::memcpy(destination + done, slot.data, part);
  }
}

}  // namespace reprise::device::cuda
