#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "reprise/base/json.h"
#include "reprise/replay_log/compare_records.h"
#include "reprise/replay_log/request_record.h"

/// Repeats the answers of a replay log.
namespace reprise::api {

struct LoadedEngine;

/// One logged answer and its repetition. Borrows the logged one.
struct ReplayedAnswer {
  const replay_log::RequestRecord* logged = nullptr;
  replay_log::RequestRecord replayed;
  std::optional<replay_log::AnswerDifference> difference;
  std::string problem;  // why the request could not be repeated; empty: it was
  std::string cause;    // of a difference, if it is one of this request alone: another adapter

  [[nodiscard]] bool is_equal() const noexcept { return problem.empty() && !difference; }
};

/// Runs the requests as many at a time as the engine takes; with max_num_seqs 1 each runs alone.
/// Calls `on_answer` for each, in the order in which they end. A request that cannot run does not
/// stop the others. No other code may use the engine meanwhile.
/// \throws device::DeviceError when the device is lost
void replay_requests(LoadedEngine& engine,
                     std::span<const replay_log::RequestRecord> requests,
                     const std::function<void(const ReplayedAnswer&)>& on_answer);

}  // namespace reprise::api
