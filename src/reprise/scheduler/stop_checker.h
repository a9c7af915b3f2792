#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

/// A reason to end a request after its last token.
struct Stop {
  RequestStatus status = RequestStatus::finished_stopped;
  std::optional<int32_t> stop_token_id;  // the stop_reason; unset for EOS and for length
};

/// The rules that end a request by token ids and counts. StopStringMatcher finds stop strings,
/// which need the text.
///
/// Before min_tokens neither EOS nor stop ids end a request (the sampler does not choose them
/// either); the length limits always do. EOS is checked first, then stop ids, then length.
class StopChecker {
 public:
  /// `eos_token_ids`: all EOS ids of the model (config, generation config). May be empty.
  explicit StopChecker(std::vector<int32_t> eos_token_ids)
      : eos_token_ids_(std::move(eos_token_ids)) {}

  [[nodiscard]] std::optional<Stop> check(const Request& request) const;

  [[nodiscard]] std::span<const int32_t> eos_token_ids() const noexcept { return eos_token_ids_; }

 private:
  std::vector<int32_t> eos_token_ids_;
};

}  // namespace reprise::scheduler
