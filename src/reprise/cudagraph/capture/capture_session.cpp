#include "reprise/cudagraph/capture/capture_session.h"

#include <algorithm>

namespace reprise::cudagraph {
namespace {

class OpenPermission {
 public:
  explicit OpenPermission(CapturePermission& permission) : permission_(permission) {
    permission_.open();
  }
  OpenPermission(const OpenPermission&) = delete;
  OpenPermission& operator=(const OpenPermission&) = delete;
  ~OpenPermission() { permission_.seal(); }

 private:
  CapturePermission& permission_;
};

void warm_up_and_capture(CudagraphRuntimeMode mode,
                         const BatchDescriptor& descriptor,
                         int num_warmups,
                         const CaptureCallbacks& callbacks) {
  for (int i = 0; i < num_warmups; ++i) {
    callbacks.dummy_run({.purpose = DummyRun::Purpose::warm_up,
                         .mode = CudagraphRuntimeMode::NONE,
                         .descriptor = descriptor,
                         .target_mode = mode});
  }
  callbacks.dummy_run({.purpose = DummyRun::Purpose::capture,
                       .mode = mode,
                       .descriptor = descriptor,
                       .target_mode = mode});
}

/// \pre capturing is permitted
CaptureRecord capture_one(CudagraphDispatcher& dispatcher,
                          const PlannedKey& key,
                          int num_warmups,
                          const CaptureCallbacks& callbacks) {
  CaptureRecord record{.mode = key.mode, .descriptor = key.descriptor};
  const double start = callbacks.now();
  const size_t bytes_before = callbacks.memory_in_use();
  try {
    warm_up_and_capture(key.mode, key.descriptor, num_warmups, callbacks);
    dispatcher.mark_captured(key.mode, key.descriptor);
  } catch (const device::DeviceError& error) {
    if (error.is_sticky()) throw;
    record.failure = error.what();
  } catch (const OutOfMemory& error) {
    record.failure = error.what();
  }
  if (!record.failure.empty()) dispatcher.retire(key.mode, key.descriptor, record.failure);
  record.seconds = callbacks.now() - start;
  record.bytes = callbacks.memory_in_use() - std::min(bytes_before, callbacks.memory_in_use());
  return record;
}

}  // namespace

size_t CaptureReport::num_captured() const noexcept {
  return static_cast<size_t>(std::count_if(
      records.begin(), records.end(), [](const CaptureRecord& r) { return r.failure.empty(); }));
}

CaptureReport run_capture_session(CudagraphDispatcher& dispatcher,
                                  CapturePermission& permission,
                                  int num_warmups,
                                  const CaptureCallbacks& callbacks) {
  const OpenPermission open(permission);
  const std::vector<CaptureGroup> plan = dispatcher.capture_plan();
  size_t total = 0;
  for (const CaptureGroup& group : plan) total += group.descriptors.size();

  CaptureReport report;
  const double session_start = callbacks.now();
  const size_t session_bytes = callbacks.memory_in_use();
  for (const CaptureGroup& group : plan) {
    for (const BatchDescriptor& descriptor : group.descriptors) {
      const CaptureRecord record =
          capture_one(dispatcher, {group.mode, descriptor}, num_warmups, callbacks);
      report.records.push_back(record);
      if (callbacks.on_progress) callbacks.on_progress(record, report.records.size(), total);
    }
  }
  report.seconds = callbacks.now() - session_start;
  report.bytes = callbacks.memory_in_use() - std::min(session_bytes, callbacks.memory_in_use());
  return report;
}

CaptureRecord capture_key(CudagraphDispatcher& dispatcher,
                          CapturePermission& permission,
                          const PlannedKey& key,
                          int num_warmups,
                          const CaptureCallbacks& callbacks) {
  const OpenPermission open(permission);
  return capture_one(dispatcher, key, num_warmups, callbacks);
}

}  // namespace reprise::cudagraph
