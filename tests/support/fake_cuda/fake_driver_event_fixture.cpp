#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

namespace reprise::device::cuda::fake_driver {

CUresult event_create(CUevent* event, unsigned int flags) {
  REPRISE_FAKE_ENTER("cuEventCreate");
  const bool has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = reinterpret_cast<CUevent>(fake->events.make({.has_time = has_time}));
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
  REPRISE_FAKE_RELEASE("cuEventDestroy");
  if (!fake->events.has(event)) return fake->misuse("cuEventDestroy of no event");
  fake->events.erase(event);
  return result;
}

CUresult event_record(CUevent event_handle, CUstream stream_handle) {
  REPRISE_FAKE_ENTER("cuEventRecord");
  if (!fake->streams.has(stream_handle) || !fake->events.has(event_handle)) {
    return fake->misuse("cuEventRecord of what does not exist");
  }
  auto* event = reinterpret_cast<Event*>(event_handle);
  auto* stream = reinterpret_cast<Stream*>(stream_handle);
  if (stream->capture != nullptr && !stream->capture->is_valid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  event->capture = stream->capture;
  event->frontier = stream->frontier;
  event->point = nullptr;
  if (stream->capture != nullptr) return CUDA_SUCCESS;
  event->point = std::make_shared<RecordedPoint>(RecordedPoint{.queue = stream->queue});
  fake->push(stream->queue, {.completes = event->point});
  return CUDA_SUCCESS;
}

namespace {

CUresult look_at(CUevent handle) {
  if (!fake->events.has(handle)) return fake->misuse("an event that does not exist");
  auto* event = reinterpret_cast<Event*>(handle);
  if (event->capture == nullptr) return CUDA_SUCCESS;
  event->capture->is_valid = false;
  return CUDA_ERROR_CAPTURED_EVENT;
}

}  // namespace

CUresult event_elapsed_time(float* milliseconds, CUevent begin, CUevent end) {
  REPRISE_FAKE_ENTER("cuEventElapsedTime");
  if (!fake->events.has(begin) || !fake->events.has(end)) {
    return fake->misuse("cuEventElapsedTime of an event that does not exist");
  }
  const auto& first = *reinterpret_cast<const Event*>(begin);
  const auto& last = *reinterpret_cast<const Event*>(end);
  if (!first.has_time || !last.has_time || first.point == nullptr || last.point == nullptr) {
    return fake->misuse("cuEventElapsedTime of an event without a time");
  }
  if (!first.point->is_complete || !last.point->is_complete) return CUDA_ERROR_NOT_READY;
  const double microseconds = last.point->microseconds - first.point->microseconds;
  *milliseconds = static_cast<float>(microseconds / 1e3);
  return CUDA_SUCCESS;
}

CUresult event_query(CUevent event) {
  REPRISE_FAKE_ENTER("cuEventQuery");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = look_at(event); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<RecordedPoint> point = reinterpret_cast<const Event*>(event)->point;
  if (point == nullptr || point->is_complete) return CUDA_SUCCESS;
  fake->run_next(*point->queue);  // a GPU continues its work while the host polls
  return CUDA_ERROR_NOT_READY;
}

CUresult event_synchronize(CUevent event) {
  const Lock lock(fake->mutex);
  const CUresult failed = fake->enter("cuEventSynchronize");
  if (fake->is_lost) return failed;
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = look_at(event); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<RecordedPoint> point = reinterpret_cast<const Event*>(event)->point;
  if (point != nullptr) fake->reach(*point);
  return failed != CUDA_SUCCESS ? failed : fake->status();
}

}  // namespace reprise::device::cuda::fake_driver
