#include "reprise/kernels/cuda/product_trials.h"

#include <algorithm>
#include <utility>

#include "reprise/device/error.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/tunable_products.h"

namespace reprise::kernels::cuda {
namespace {

// A chain of this length has about 0.1 % of its time in the launch of its graph, and few candidates
// of a large prompt would take longer than a second otherwise.
constexpr double kChainMicroseconds = 4000;
// After two rounds, candidates this much slower than the fastest one are not timed any further.
constexpr double kHopeless = 1.2;
constexpr int kFirstRounds = 2;
constexpr int kMoreRounds = 5;

device::cuda::CudaStream& stream_of(CudaExecutor& executor) {
  return dynamic_cast<device::cuda::CudaStream&>(executor.stream());
}

device::cuda::CudaDevice& device_of(CudaExecutor& executor) {
  return dynamic_cast<device::cuda::CudaDevice&>(executor.stream().device());
}

size_t evicting_bytes(CudaExecutor& executor) {
  const int cache = device_of(executor).driver().attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  return 2 * static_cast<size_t>(std::max(cache, 1 << 20));
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

ProductTrials::ProductTrials(CudaExecutor& executor)
    : executor_(&executor),
      stream_(&stream_of(executor)),
      timer_(device_of(executor)),
      evicting_(executor.stream().device().allocate(evicting_bytes(executor))) {}

MeasuredRows ProductTrials::choose(const NotedProduct& product,
                                   std::span<const ProductChoice> candidates) {
  const size_t num_calls = calls_of_chain(product, candidates.front());
  std::vector<Trial> trials;
  trials.push_back(record(product, candidates.front(), num_calls));
  for (const ProductChoice& candidate : candidates.subspan(1)) {
    try {
      trials.push_back(record(product, candidate, num_calls));
    } catch (const device::DeviceError& error) {
      if (error.is_sticky()) throw;
    }
  }
  for (int round = 0; round < kFirstRounds; ++round) {
    for (Trial& trial : trials) time(trial, num_calls);
  }
  const auto least = [](const Trial& trial) { return *std::ranges::min_element(trial.times); };
  const double fastest = least(*std::ranges::min_element(trials, {}, least));
  for (int round = 0; round < kMoreRounds; ++round) {
    for (Trial& trial : trials) {
      const bool is_rule = &trial == trials.data();
      if (is_rule || least(trial) <= kHopeless * fastest) time(trial, num_calls);
    }
  }
  const auto typical = [](const Trial& trial) { return median(trial.times); };
  const Trial& rule = trials.front();
  const Trial& best = *std::ranges::min_element(trials, {}, typical);
  const double rule_time = typical(rule);
  const bool pays = typical(best) <= (1 - TunableProducts::kLeastGain) * rule_time;
  return {.choice = pays ? best.choice : rule.choice,
          .microseconds = pays ? typical(best) : rule_time,
          .built_in_microseconds = rule_time};
}

void ProductTrials::run(const NotedProduct& product,
                        const ProductChoice& choice,
                        size_t num_calls) {
  const ForcedChoice forced(executor_->choices(), choice);
  for (size_t i = 0; i < num_calls; ++i) {
    executor_->launch_checked(product.call, product.in[i], product.out);
  }
}

ProductTrials::Trial ProductTrials::record(const NotedProduct& product,
                                           const ProductChoice& choice,
                                           size_t num_calls) {
  run(product, choice, 1);  // loads code and takes memory, which a capture may not
  device::CaptureScope capture(*stream_);
  run(product, choice, num_calls);
  const std::unique_ptr<device::Graph> graph = std::move(capture).finish();
  return {.choice = choice, .graph = stream_->device().instantiate(*graph), .times = {}};
}

void ProductTrials::time(Trial& trial, size_t num_calls) {
  stream_->fill(evicting_.data(), std::byte{0}, evicting_.bytes());
  // The fill still runs while the host submits the graph, so the GPU does not wait for the host.
  timer_.start(*stream_);
  trial.graph->launch(*stream_);
  timer_.stop(*stream_);
  // A chain without work would have no time; a time must be positive.
  constexpr double kLeast = 1e-3;
  trial.times.push_back(std::max(timer_.microseconds() / static_cast<double>(num_calls), kLeast));
}

size_t ProductTrials::calls_of_chain(const NotedProduct& product, const ProductChoice& rule) {
  Trial one = record(product, rule, 1);
  time(one, 1);
  time(one, 1);
  const double calls = kChainMicroseconds / std::ranges::min(one.times);
  return std::clamp<size_t>(static_cast<size_t>(calls), 1, product.in.size());
}

}  // namespace reprise::kernels::cuda
