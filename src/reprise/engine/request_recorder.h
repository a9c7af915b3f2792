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

/// Gets the record of each request that ends, on the thread that runs steps. Must not wait.
using OnRecord = std::function<void(replay_log::RequestRecord&&)>;

/// Collects what the replay log keeps of requests, while they run. Belongs to one thread. Without a
/// receiver it does nothing.
class RequestRecorder {
 public:
  explicit RequestRecorder(OnRecord on_record) : on_record_(std::move(on_record)) {}

  /// Takes what one step added to a request. `delta` was made of these updates.
  void take(std::span<const scheduler::RequestUpdate> updates, const OutputDelta& delta) {
    if (on_record_) record(updates, delta);
  }

 private:
  void record(std::span<const scheduler::RequestUpdate> updates, const OutputDelta& delta);

  OnRecord on_record_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> digests_;  // of the tokens, by RequestId
};

}  // namespace reprise::engine
