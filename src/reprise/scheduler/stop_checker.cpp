#include "reprise/scheduler/stop_checker.h"

#include <algorithm>

namespace reprise::scheduler {
namespace {

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::optional<Stop> StopChecker::check(const Request& request) const {
  const sampling::SamplingParams& params = request.params();
  const int32_t last = request.token_ids().back();
  if (request.num_output_tokens() >= params.min_tokens) {
    if (!params.ignore_eos && contains(eos_token_ids_, last)) return Stop{};
    if (contains(params.stop_token_ids, last)) return Stop{.stop_token_id = last};
  }
  if (request.num_tokens() >= request.max_total_tokens()) {
    return Stop{.status = RequestStatus::finished_length};
  }
  return std::nullopt;
}

}  // namespace reprise::scheduler
