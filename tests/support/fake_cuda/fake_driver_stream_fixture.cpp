#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <algorithm>
#include <utility>

namespace reprise::device::cuda::fake_driver {

bool Capture::is_joined() const {
  std::vector<bool> reached(graph->nodes.size(), false);
  std::vector<size_t> waiting = origin->frontier;
  while (!waiting.empty()) {
    const size_t node = waiting.back();
    waiting.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    const std::vector<size_t>& before = graph->nodes[node]->waits_for;
    waiting.insert(waiting.end(), before.begin(), before.end());
  }
  return std::ranges::all_of(reached, [](bool is) { return is; });
}

void Capture::end() {
  is_open = false;
  for (Stream* stream : std::exchange(streams, {})) {
    stream->frontier.clear();
    stream->capture = nullptr;
  }
}

CUresult stream_create(CUstream* stream, unsigned int) {
  REPRISE_FAKE_ENTER("cuStreamCreate");
  Stream* made = fake->streams.make();
  made->queue->gpu = fake->gpu_of_thread();
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream) {
  REPRISE_FAKE_RELEASE("cuStreamDestroy");
  if (!fake->streams.has(stream)) return fake->misuse("cuStreamDestroy of no stream");
  if (reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    fake->misuses.emplace_back("cuStreamDestroy of a capturing stream");
    const std::shared_ptr<Capture> capture = reinterpret_cast<Stream*>(stream)->capture;
    capture->end();
  }
  fake->streams.erase(stream);
  return result;
}

CUresult stream_synchronize(CUstream handle) {
  const Lock lock(fake->mutex);
  const CUresult failed = fake->enter("cuStreamSynchronize");
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamSynchronize of no stream");
  if (fake->is_lost) return failed;
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->capture != nullptr) {
    stream->capture->is_valid = false;
    return failed != CUDA_SUCCESS ? failed : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  // A call that a test lets fail has waited for the work: it reports an error of earlier work.
  fake->drain(*stream->queue);
  return failed != CUDA_SUCCESS ? failed : fake->status();
}

CUresult stream_wait_event(CUstream stream_handle, CUevent event_handle, unsigned int) {
  REPRISE_FAKE_ENTER("cuStreamWaitEvent");
  if (!fake->streams.has(stream_handle) || !fake->events.has(event_handle)) {
    return fake->misuse("cuStreamWaitEvent of what does not exist");
  }
  auto* stream = reinterpret_cast<Stream*>(stream_handle);
  const auto* event = reinterpret_cast<const Event*>(event_handle);
  if (event->capture == nullptr) {
    if (stream->capture == nullptr) {
      if (event->point != nullptr) fake->push(stream->queue, {.waits_for = event->point});
      return CUDA_SUCCESS;
    }
    stream->capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->capture->is_open) return CUDA_ERROR_CAPTURED_EVENT;
  if (!event->capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture != nullptr && stream->capture != event->capture) {
    stream->capture->is_valid = false;
    event->capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->capture == nullptr) {
    stream->capture = event->capture;
    stream->capture->streams.push_back(stream);
  }
  for (size_t node : event->frontier) {
    if (std::ranges::find(stream->frontier, node) == stream->frontier.end()) {
      stream->frontier.push_back(node);
    }
  }
  return CUDA_SUCCESS;
}

CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus* status) {
  REPRISE_FAKE_ENTER("cuStreamIsCapturing");
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamIsCapturing of no stream");
  const Capture* capture = reinterpret_cast<const Stream*>(handle)->capture.get();
  *status = capture == nullptr  ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->is_valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}

CUresult stream_begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  REPRISE_FAKE_ENTER("cuStreamBeginCapture");
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamBeginCapture of no stream");
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->mode = mode;
  stream->capture->streams = {stream};
  return CUDA_SUCCESS;
}

CUresult stream_end_capture(CUstream handle, CUgraph* graph) {
  REPRISE_FAKE_RELEASE("cuStreamEndCapture");
  *graph = nullptr;
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamEndCapture of no stream");
  auto* stream = reinterpret_cast<Stream*>(handle);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool is_joined = capture->is_joined();
  capture->end();
  if (result != CUDA_SUCCESS) return result;
  if (!capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!is_joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = reinterpret_cast<CUgraph>(fake->graphs.make(std::move(*capture->graph)));
  return CUDA_SUCCESS;
}

CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode) {
  // This call has no number: swapping a variable of the thread cannot fail.
  const Lock lock(fake->mutex);
  std::swap(*mode, fake->mode_of_thread());
  return CUDA_SUCCESS;
}

}  // namespace reprise::device::cuda::fake_driver
