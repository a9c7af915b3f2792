#include "reprise/engine/step_profiler.h"

#include <algorithm>
#include <utility>

namespace reprise::engine {

bool StepProfiler::start(const StepProfilerOptions& options) {
  if (profile_) return false;
  std::vector<ProfiledStep> steps;
  steps.reserve(kMaxProfiledSteps);
  profile_ = StepProfile{.began = std::chrono::steady_clock::now(),
                         .ended = {},
                         .wall_began = std::chrono::system_clock::now(),
                         .steps = std::move(steps)};
  options_ = options;
  num_decided_ = num_kept_ = 0;
  return true;
}

std::optional<StepProfile> StepProfiler::stop() {
  if (!profile_) return std::nullopt;
  keep_open_step();
  std::optional<StepProfile> profile = std::exchange(profile_, std::nullopt);
  std::vector<ProfiledStep>& steps = profile->steps;
  profile->ended = std::chrono::steady_clock::now();
  profile->num_overwritten_steps = num_kept_ - steps.size();
  const auto oldest = static_cast<ptrdiff_t>(profile->num_overwritten_steps % kMaxProfiledSteps);
  std::rotate(steps.begin(), steps.begin() + oldest, steps.end());
  return profile;
}

void StepProfiler::begin_step(uint64_t number, runner::TimePoint began) {
  if (!profile_) return;
  keep_open_step();
  const bool is_full = options_.max_iterations > 0 && num_kept_ >= options_.max_iterations;
  if (!is_full) open_ = ProfiledStep{.number = number, .begin = began, .end = began};
}

void StepProfiler::decide(const cudagraph::BatchFacts& facts,
                          const cudagraph::Decision& decision) noexcept {
  if (!open_) return;
  if (!is_decided_ && num_decided_++ < options_.delay_iterations) return open_.reset();
  is_decided_ = true;
  open_->decision = decision;
  open_->num_tokens = facts.num_tokens;
  open_->num_reqs = facts.num_reqs;
}

void StepProfiler::fail_step() noexcept {
  if (open_) open_->has_failed = true;
}

void StepProfiler::add_span(runner::StepPhase phase,
                            runner::TimePoint begin,
                            runner::TimePoint end) noexcept {
  if (!open_ || open_->num_spans == open_->spans.size()) return;
  open_->spans.at(open_->num_spans++) = {.phase = phase, .begin = begin, .end = end};
  open_->end = std::max(open_->end, end);
}

void StepProfiler::end_step(runner::TimePoint now) noexcept {
  if (open_) open_->end = std::max(open_->end, now);
}

void StepProfiler::keep_open_step() {
  if (open_ && is_decided_) {
    std::vector<ProfiledStep>& steps = profile_->steps;
    if (steps.size() < kMaxProfiledSteps) {
      steps.push_back(*open_);
    } else {
      steps[num_kept_ % kMaxProfiledSteps] = *open_;
    }
    ++num_kept_;
  }
  open_.reset();
  is_decided_ = false;
}

}  // namespace reprise::engine
