#include "reprise/api/request_timeline.h"

namespace reprise::api {
namespace {

double seconds_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

// A histogram with the bounds of the 1-2-5 series up to `largest`.
Histogram histogram_up_to(int64_t largest) {
  const auto& all = buckets::kOneTwoFive;
  const auto end = std::upper_bound(all.begin(), all.end(), static_cast<double>(largest));
  return Histogram(std::span(all).first(static_cast<size_t>(end - all.begin())));
}

}  // namespace

RequestHistograms::RequestHistograms(int64_t max_model_len)
    : prompt_tokens(histogram_up_to(max_model_len)),
      generation_tokens(prompt_tokens),
      params_max_tokens(prompt_tokens),
      prefill_computed_tokens(prompt_tokens) {}

void RequestTimeline::take_token(TimePoint now, RequestHistograms& histograms) noexcept {
  if (first_token_) {
    histograms.inter_token_latency.observe(seconds_between(last_token_, now));
  } else {
    first_token_ = now;
    histograms.time_to_first_token.observe(seconds_between(arrived_, now));
  }
  last_token_ = now;
}

std::optional<engine::RequestTimes> RequestTimeline::times() const noexcept {
  if (!scheduled_ || !first_token_) return std::nullopt;
  return engine::RequestTimes{.arrived = arrived_,
                              .queued = queued_,
                              .scheduled = *scheduled_,
                              .first_token = *first_token_,
                              .last_token = last_token_};
}

void RequestTimeline::finish(TimePoint now,
                             const Sizes& sizes,
                             RequestHistograms& histograms) const noexcept {
  histograms.e2e_latency.observe(seconds_between(arrived_, now));
  histograms.prompt_tokens.observe(static_cast<double>(sizes.prompt_tokens));
  histograms.generation_tokens.observe(static_cast<double>(sizes.generation_tokens));
  histograms.prefill_computed_tokens.observe(
      static_cast<double>(sizes.prompt_tokens - sizes.cached_tokens));
  if (sizes.max_tokens)
    histograms.params_max_tokens.observe(static_cast<double>(*sizes.max_tokens));
  if (!scheduled_ || !first_token_) return;
  const double decode = seconds_between(*first_token_, last_token_);
  histograms.queue_time.observe(seconds_between(queued_, *scheduled_));
  histograms.prefill_time.observe(seconds_between(*scheduled_, *first_token_));
  histograms.decode_time.observe(decode);
  histograms.inference_time.observe(seconds_between(*scheduled_, last_token_));
  // As in vLLM, an answer of one token counts as 0: it has no token after the first.
  const auto num_later = static_cast<double>(sizes.generation_tokens - 1);
  histograms.time_per_output_token.observe(num_later > 0 ? decode / num_later : 0);
}

}  // namespace reprise::api
