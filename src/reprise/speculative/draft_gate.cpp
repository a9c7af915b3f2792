#include "reprise/speculative/draft_gate.h"

#include <algorithm>

namespace reprise::speculative {
namespace {

/// The weight of a new result in the moving average.
constexpr double kWeight = 0.25;
/// A request pauses when its moving average falls below this value, as it does after four complete
/// failures in a row. A step with drafts costs less than two steps without, so this share of
/// several drafts pays.
constexpr double kBadShare = 0.35;
/// The share of accepted drafts that ends a request's pause when it tries drafts again.
constexpr double kGoodShare = 0.5;
/// A step with four drafts takes up to three times as long as a step without (measured with the
/// bundled model). With these pauses, an answer of 250 tokens whose drafts all fail has three
/// tries, which cost 2 %.
constexpr int kFirstPause = 24;  // steps
constexpr int kLongestPause = 1024;

double share_of(int num_drafts, int num_accepted) {
  return static_cast<double>(num_accepted) / num_drafts;
}

}  // namespace

void RecentAcceptance::observe(int num_drafts, int num_accepted) noexcept {
  share_ += kWeight * (share_of(num_drafts, num_accepted) - share_);
}

DraftGate::DraftGate(const RecentAcceptance& of_all_requests) noexcept : recent_(of_all_requests) {
  if (of_all_requests.share() < kBadShare) pause(kFirstPause);
}

void DraftGate::pass_step() noexcept { num_steps_to_pause_ = std::max(0, num_steps_to_pause_ - 1); }

void DraftGate::pause(int num_steps) noexcept {
  pause_ = std::min(num_steps, kLongestPause);
  num_steps_to_pause_ = pause_;
}

void DraftGate::observe(int num_drafts, int num_accepted) noexcept {
  const bool is_try = pause_ > 0;
  if (is_try && share_of(num_drafts, num_accepted) < kGoodShare) {
    pause(2 * pause_);
    return;
  }
  recent_.observe(num_drafts, num_accepted);
  // After a good try the next result decides, because one success alone may be luck.
  pause_ = 0;
  if (!is_try && recent_.share() < kBadShare) pause(kFirstPause);
}

}  // namespace reprise::speculative
