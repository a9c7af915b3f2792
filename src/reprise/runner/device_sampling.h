#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/kernels/row_sampler.h"
#include "reprise/runner/count_slots.h"
#include "reprise/sampling/sampler.h"

namespace reprise::runner {

/// Chooses which rows of logits the device samples in a step, and makes the device sample them. The
/// device samples a row unless its request needs a constraint on the answer, allowed words, bad
/// words, penalties beside drafts, or log-probabilities of logits that the device would change. The
/// host's sampler samples these other rows one by one, in the same step. The device counts the
/// tokens of requests with penalties itself.
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
  /// A row of a step, before the step has logits.
  struct Row {
    sampling::SamplingInput input;
    scheduler::RequestId request{};
    int32_t logits_row = 0;
    bool has_constraint = false;
    bool is_alone = true;  // the request has no other row in this step, so it has no drafts
    /// The host has all tokens of `input`. The last one may still be on the device.
    bool is_known = true;
  };

  explicit DeviceSampling(kernels::RowSampler* sampler);

  void begin() noexcept;
  /// Adds a row, and returns whether the device samples it. \throws device::DeviceError
  [[nodiscard]] bool add(const Row& row);
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
  [[nodiscard]] std::optional<int32_t> count_slot(const Row& row);

  kernels::RowSampler* sampler_;  // nullptr: the host samples every row
  CountSlots count_slots_;
  std::vector<kernels::SamplingRow> rows_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::span<const int32_t> tokens_;
  size_t next_ = 0;
};

}  // namespace reprise::runner
