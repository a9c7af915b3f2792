#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "reprise/bench/random_source.h"

namespace reprise::bench {

enum class RampUp : uint8_t { none, linear, exponential };

/// When requests are sent; the members are named like vLLM's options.
struct Traffic {
  double request_rate = std::numeric_limits<double>::infinity();  // per second; infinite: at once
  double burstiness = 1;  // shape of the gamma distribution; 1: Poisson, infinite: evenly spaced
  RampUp ramp_up = RampUp::none;
  double ramp_up_start_rps = 0;
  double ramp_up_end_rps = 0;
};

/// \throws InvalidArgument naming the option
void check(const Traffic& traffic);

/// Seconds after the start at which each request is sent, ascending. With a fixed rate the last
/// request is sent exactly at num_requests / rate, so that all seeds give the same load.
[[nodiscard]] std::vector<double> send_times(const Traffic& traffic,
                                             size_t num_requests,
                                             RandomSource& random);

}  // namespace reprise::bench
