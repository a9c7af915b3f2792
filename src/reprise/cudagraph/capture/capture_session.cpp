#include "reprise/cudagraph/capture/capture_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/cudagraph/verify/graph_rule.h"

namespace reprise::cudagraph {
namespace {

void warm_up_and_capture(CudagraphRuntimeMode mode,
                         const BatchDescriptor& descriptor,
                         int num_warmups,
                         const CaptureCallbacks& callbacks,
                         CaptureRecord& record) {
  for (int i = 0; i < num_warmups; ++i) {
    callbacks.dummy_run({.purpose = DummyRun::Purpose::warm_up,
                         .mode = CudagraphRuntimeMode::NONE,
                         .descriptor = descriptor,
                         .target_mode = mode});
  }
  const DummyRun capture{.purpose = DummyRun::Purpose::capture,
                         .mode = mode,
                         .descriptor = descriptor,
                         .target_mode = mode};
  callbacks.dummy_run(capture);
  if (callbacks.verify) callbacks.verify(capture, record);
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
    warm_up_and_capture(key.mode, key.descriptor, num_warmups, callbacks, record);
    if (record.failure.empty()) dispatcher.mark_captured(key.mode, key.descriptor);
  } catch (const device::CaptureError& error) {
    record.rule = to_string(GraphRule::only_records);
    record.failure = fmt::format("rule {}: {}", record.rule, error.what());
  } catch (const device::DeviceError& error) {
    if (error.is_sticky()) throw;
    record.failure = error.what();
  } catch (const OutOfMemory& error) {
    record.failure = error.what();
    record.is_out_of_memory = true;
  }
  if (!record.failure.empty()) {
    record.verdict = record.rule.empty() ? CaptureVerdict::failed : CaptureVerdict::violated;
    dispatcher.retire(key.mode, key.descriptor, record.failure);
  }
  record.seconds = callbacks.now() - start;
  record.bytes = callbacks.memory_in_use() - std::min(bytes_before, callbacks.memory_in_use());
  return record;
}

}  // namespace

size_t CaptureReport::num_captured() const noexcept {
  return static_cast<size_t>(std::count_if(
      records.begin(), records.end(), [](const CaptureRecord& r) { return r.failure.empty(); }));
}

std::string_view to_string(CaptureVerdict verdict) noexcept {
  switch (verdict) {
    case CaptureVerdict::unchecked:
      return "unchecked";
    case CaptureVerdict::proved:
      return "proved";
    case CaptureVerdict::partly_proved:
      return "partly_proved";
    case CaptureVerdict::violated:
      return "violated";
    case CaptureVerdict::failed:
      return "failed";
  }
  return "unknown";
}

size_t CaptureReport::num_with(CaptureVerdict verdict) const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(records, [&](const auto& r) { return r.verdict == verdict; }));
}

double CaptureReport::verify_seconds() const noexcept {
  double sum = 0;
  for (const CaptureRecord& record : records) sum += record.verify_seconds;
  return sum;
}

std::string CaptureReport::describe_verdicts() const {
  std::string text;
  for (size_t i = 0; i < kNumCaptureVerdicts; ++i) {
    const auto verdict = static_cast<CaptureVerdict>(i);
    const size_t count = num_with(verdict);
    if (verdict == CaptureVerdict::unchecked || count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(verdict));
  }
  return text;
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
