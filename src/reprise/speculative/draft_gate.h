#pragma once

namespace reprise::speculative {

/// The moving average of the accepted share of drafts; 1 before the first result.
class RecentAcceptance {
 public:
  /// \pre num_drafts >= 1
  void observe(int num_drafts, int num_accepted) noexcept;
  [[nodiscard]] double share() const noexcept { return share_; }

 private:
  double share_ = 1;
};

/// Decides in which steps a request gets drafts. Rejected drafts cost time, so a request whose
/// drafts are mostly rejected pauses: for a number of steps it gets none, then one step tries
/// again. Each failed try doubles the pause; a good try ends it. A new request begins with a pause
/// if the recent drafts of all requests were mostly rejected.
///
/// The decision depends only on the results of requests, and never on time, so that a run can be
/// repeated exactly. A value type; one per request.
class DraftGate {
 public:
  DraftGate() = default;
  explicit DraftGate(const RecentAcceptance& of_all_requests) noexcept;

  /// Whether the request gets drafts in its next step.
  [[nodiscard]] bool is_open() const noexcept { return num_steps_to_pause_ == 0; }
  /// Called for a step in which the request could have had drafts, but the gate was closed.
  void pass_step() noexcept;
  /// Called with the result of a step with drafts. \pre num_drafts >= 1
  void observe(int num_drafts, int num_accepted) noexcept;

 private:
  void pause(int num_steps) noexcept;

  RecentAcceptance recent_;
  int pause_ = 0;  // the last pause in steps; 0: the request does not pause
  int num_steps_to_pause_ = 0;
};

}  // namespace reprise::speculative
