#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kernels/row_sampler.h"
#include "reprise/sampling/sampler.h"

namespace reprise::runner {

/// Chooses which rows of logits the device samples in a step, and makes the device sample them. The
/// device samples a row unless its request needs log-probabilities, a constraint on the answer,
/// penalties, allowed words or bad words. The host's sampler samples these other rows one by one,
/// in the same step.
///
/// The tokens stay on the device too: the sampler can write them into the ids of the next step
/// before the host has them.
///
/// The sampling kernels are launched after the step's graph, on the same stream, and are not part
/// of the graph. Their number of rows and their parameters change from step to step, so a graph
/// would always have to sample the largest number of rows, with every feature.
///
/// For each step the caller calls begin(), add() for each row to sample, and launch(). Then, if any
/// row was added, it calls wait() and, in the order of the add() calls, take() or skip() for each
/// row for which add() returned true. One more step may be launched before the wait(). Belongs to
/// one thread. Borrows the sampler; if it is nullptr, the host samples every row. Only the
/// constructor allocates.
class DeviceSampling {
 public:
  enum class HasConstraint : bool { no, yes };

  explicit DeviceSampling(kernels::RowSampler* sampler);

  void begin() noexcept;
  /// Adds a row, and returns whether the device samples it. `input` has no logits yet.
  [[nodiscard]] bool add(const sampling::SamplingInput& input,
                         HasConstraint has_constraint,
                         int32_t logits_row);
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// \throws device::DeviceError
  void launch(const Tensor& logits);
  /// Waits for the oldest launch that has not been waited for. \throws device::DeviceError
  void wait();
  [[nodiscard]] kernels::RowSampler* sampler() const noexcept { return sampler_; }
  void take(sampling::SampledToken& sampled);
  /// Like take() for a row whose token is not wanted.
  void skip() noexcept { ++next_; }

 private:
  [[nodiscard]] bool add_adjustments(const sampling::SamplingInput& input);

  kernels::RowSampler* sampler_;  // nullptr: the host samples every row
  std::vector<kernels::SamplingRow> rows_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::span<const int32_t> tokens_;
  size_t next_ = 0;
};

}  // namespace reprise::runner
