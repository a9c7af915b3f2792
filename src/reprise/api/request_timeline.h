#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "reprise/api/engine_stats.h"
#include "reprise/engine/output_delta.h"

namespace reprise::api {

/// The times of one request's events, and what they add to the histograms. The intervals are
/// vLLM's: a preemption restarts none of them. A value; the caller passes the times.
class RequestTimeline {
 public:
  RequestTimeline() = default;
  /// `arrived`: the server got the request, before tokenizing. `queued`: the engine got it.
  RequestTimeline(TimePoint arrived, TimePoint queued) : arrived_(arrived), queued_(queued) {}

  [[nodiscard]] bool was_scheduled() const noexcept { return scheduled_.has_value(); }
  [[nodiscard]] bool has_tokens() const noexcept { return first_token_.has_value(); }
  /// nullopt before the first token.
  [[nodiscard]] std::optional<engine::RequestTimes> times() const noexcept;

  /// Sets the time of the first schedule; later calls change nothing.
  void schedule(TimePoint now) noexcept {
    if (!scheduled_) scheduled_ = now;
  }
  /// A step gave the request one token.
  void take_token(TimePoint now, RequestHistograms& histograms) noexcept;

  struct Sizes {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t generation_tokens = 0;
    std::optional<int64_t> max_tokens;
  };
  /// The request ended by itself ("stop", "length").
  void finish(TimePoint now, const Sizes& sizes, RequestHistograms& histograms) const noexcept;

 private:
  TimePoint arrived_;
  TimePoint queued_;
  std::optional<TimePoint> scheduled_;
  std::optional<TimePoint> first_token_;
  TimePoint last_token_;
};

}  // namespace reprise::api
