#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kernels/row_sampler.h"
#include "reprise/sampling/sampler.h"

namespace reprise::engine {

/// Decides which rows of a step the device samples. The device samples a row unless its request
/// needs log-probabilities, a constraint on the answer, penalties, allowed words or bad words. The
/// host's sampler samples those other rows, one by one, in the same step.
///
/// Sampling follows the step's graph on the same stream and is not part of the graph: the number of
/// sampled rows and their parameters change from step to step, so a graph would have to be captured
/// for the largest number of rows and for all parameters.
///
/// Each step: begin(), add() per sampling row, launch(), then take() for each row for which add()
/// returned true, in the same order. One thread. Borrows the sampler; without a sampler the host
/// samples every row. Allocates only in the constructor.
class DeviceSampling {
 public:
  enum class HasConstraint : bool { no, yes };

  explicit DeviceSampling(kernels::RowSampler* sampler);

  void begin() noexcept;
  /// Returns whether the device samples this row. `input` has no logits.
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

  kernels::RowSampler* sampler_;  // the constructor's argument; may be null
  std::vector<kernels::SamplingRow> rows_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::span<const int32_t> tokens_;
  size_t next_ = 0;
};

}  // namespace reprise::engine
