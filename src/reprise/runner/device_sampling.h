#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kernels/row_sampler.h"
#include "reprise/sampling/sampler.h"

namespace reprise::engine {

/// Which rows of a step the device samples itself. A row is the device's unless its request wants
/// what the device does not do: log-probabilities, a constraint on the answer, penalties, allowed
/// or bad words. Those rows go to the host's sampler, row by row, in the same step.
///
/// Sampling follows the step's graph on the same stream and is not part of it: which rows are
/// sampled and how changes from step to step, and a graph would have to be captured for the most of
/// both.
///
/// Each step: begin(), add() per sampling row, launch(), and after it take() per row that add()
/// took, in the same order. One thread. Borrows the sampler; none: every row is the host's.
/// Allocates only in the constructor.
class DeviceSampling {
 public:
  enum class HasConstraint : bool { no, yes };

  explicit DeviceSampling(kernels::RowSampler* sampler);

  void begin() noexcept;
  /// Whether the device samples this row. `input`: without logits.
  [[nodiscard]] bool add(const sampling::SamplingInput& input,
                         HasConstraint has_constraint,
                         int32_t logits_row);
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// \throws device::DeviceError
  void launch(const Tensor& logits);
  /// \throws device::DeviceError
  void wait();
  void take(sampling::SampledToken& sampled);

 private:
  [[nodiscard]] bool add_adjustments(const sampling::SamplingInput& input);

  kernels::RowSampler* sampler_;  // the constructor's
  std::vector<kernels::SamplingRow> rows_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::span<const int32_t> tokens_;
  size_t next_ = 0;
};

}  // namespace reprise::engine
