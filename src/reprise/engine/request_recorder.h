#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/engine/output_delta.h"
#include "reprise/replay_log/request_record.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

/// A function that gets the record of each request that ends, on the thread that runs steps. The
/// function must not wait.
using OnRecord = std::function<void(replay_log::RequestRecord&&)>;

/// Collects, while requests run, the facts that the replay log keeps of them. Belongs to one
/// thread. Without a receiver it does nothing.
class RequestRecorder {
 public:
  explicit RequestRecorder(OnRecord on_record) : on_record_(std::move(on_record)) {}

  /// Adds the results of one step for a request. `delta` was made from these updates.
  void take(std::span<const scheduler::RequestUpdate> updates, const OutputDelta& delta) {
    if (on_record_) record(updates, delta);
  }

 private:
  void record(std::span<const scheduler::RequestUpdate> updates, const OutputDelta& delta);

  OnRecord on_record_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> digests_;  // of the tokens, by RequestId
};

}  // namespace reprise::engine
