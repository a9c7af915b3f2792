#include "reprise/bench/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reprise/base/error.h"

namespace reprise::bench {
namespace {

double rate_of(const Traffic& traffic, size_t index, size_t num_requests) {
  const double progress =
      static_cast<double>(index) / static_cast<double>(std::max<size_t>(num_requests - 1, 1));
  switch (traffic.ramp_up) {
    case RampUp::linear:
      return traffic.ramp_up_start_rps +
             (traffic.ramp_up_end_rps - traffic.ramp_up_start_rps) * progress;
    case RampUp::exponential:
      return traffic.ramp_up_start_rps *
             std::pow(traffic.ramp_up_end_rps / traffic.ramp_up_start_rps, progress);
    case RampUp::none:
      break;
  }
  return traffic.request_rate;
}

}  // namespace

void check(const Traffic& traffic) {
  if (!(traffic.request_rate > 0)) {
    throw InvalidArgument(fmt::format("--request-rate: {} is not above 0; inf sends all at once",
                                      traffic.request_rate));
  }
  if (!(traffic.burstiness > 0)) {
    throw InvalidArgument(
        fmt::format("--burstiness: {} is not above 0; 1 is Poisson", traffic.burstiness));
  }
  if (traffic.ramp_up == RampUp::none) return;
  if (!std::isinf(traffic.request_rate)) {
    throw InvalidArgument(
        "--request-rate and --ramp-up-strategy exclude each other: the ramp sets the rate");
  }
  const double start = traffic.ramp_up_start_rps;
  const double end = traffic.ramp_up_end_rps;
  if (!(start >= 0) || !(end > 0) || start > end || std::isinf(end)) {
    throw InvalidArgument(fmt::format(
        "--ramp-up-strategy: needs 0 <= --ramp-up-start-rps <= --ramp-up-end-rps; got {} and {}",
        start,
        end));
  }
  if (traffic.ramp_up == RampUp::exponential && start == 0) {
    throw InvalidArgument("--ramp-up-start-rps: an exponential ramp cannot start at 0");
  }
}

std::vector<double> send_times(const Traffic& traffic, size_t num_requests, RandomSource& random) {
  // A linear ramp may begin at 0 requests per second. The cap keeps the first request from waiting
  // for ever.
  constexpr double kLongestGapSeconds = 3600;
  std::vector<double> times;
  double now = 0;
  for (size_t i = 0; i < num_requests; ++i) {
    const double rate = rate_of(traffic, i, num_requests);
    if (std::isinf(rate)) {
      times.push_back(now);
      continue;
    }
    const bool is_even = std::isinf(traffic.burstiness);
    const double gap = rate == 0 ? 0
                       : is_even
                           ? 1 / rate
                           : random.gamma(traffic.burstiness, 1 / (rate * traffic.burstiness));
    now += std::min(gap, kLongestGapSeconds);
    times.push_back(now);
  }
  if (traffic.ramp_up == RampUp::none && now > 0) {
    const double wanted = static_cast<double>(num_requests) / traffic.request_rate;
    for (double& time : times) time *= wanted / now;
  }
  return times;
}

}  // namespace reprise::bench
