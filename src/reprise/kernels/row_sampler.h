#pragma once

#include <cstdint>
#include <span>

#include "reprise/kernels/sampling_row.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Chooses tokens on the device that has the logits, so that only tokens are copied to the host. A
/// sampler belongs to one thread and one stream. On that stream, launch() follows the step that
/// computed the logits.
///
/// The next step may be submitted before the host knows the tokens: write_tokens() writes them into
/// the step's ids on the device. So the tokens of up to two launches may not have reached the host
/// yet.
class RowSampler {
 public:
  virtual ~RowSampler() = default;

  [[nodiscard]] virtual int32_t max_rows() const noexcept = 0;
  [[nodiscard]] virtual int32_t max_adjustments() const noexcept = 0;

  static constexpr int kMostLaunches = 2;

  /// Submits the work, which adjusts the logits in place. Both lists are copied.
  /// A row that wants log-probabilities has no adjustments and no penalties.
  /// \pre the lists do not exceed the limits, there is at least one row, no two rows have the same
  /// count_slot, and wait() has been called
  /// for all but kMostLaunches - 1 launches
  /// \throws DeviceError
  virtual void launch(const Tensor& logits,  // float32[num_rows, vocab_size]
                      std::span<const SamplingRow> rows,
                      std::span<const LogitAdjustment> adjustments) = 0;

  /// The slots that count the tokens of requests with penalties. A launch adds each token that it
  /// chooses for a row to the row's slot, so the next launch needs nothing from the host.
  [[nodiscard]] virtual int32_t num_count_slots() const noexcept = 0;

  /// Submits work after which a slot counts exactly these tokens. A token of the prompt counts as
  /// seen only, as the repetition penalty wants. Both lists are copied.
  /// \pre 0 <= slot < num_count_slots(), and every token is in the vocabulary \throws DeviceError
  virtual void count_tokens(int32_t slot,
                            std::span<const int32_t> prompt,
                            std::span<const int32_t> output) = 0;

  /// Submits a copy of tokens of the last launch to `ids` on the device: ids[place.index] is the
  /// token of place.row, or 0 if that row has none. The list is copied.
  /// \pre there is at least one place, and no more than max_rows() \throws DeviceError
  virtual void write_tokens(const Tensor& ids,  // int32[n]
                            std::span<const TokenPlace> places) = 0;

  /// Waits for the oldest launch that has not been waited for. Returns the tokens in the order of
  /// the rows, with kNonFiniteLogits or kNoAllowedToken for a row without a token; they are valid
  /// until the next call. Work that was submitted after that launch may still run. \throws
  /// DeviceError
  [[nodiscard]] virtual std::span<const int32_t> wait() = 0;

  /// The logits of the rows of the launch that wait() waited for, in the order of the rows; empty
  /// if no row wanted any. Valid until the next wait().
  [[nodiscard]] virtual std::span<const RowLogprobs> logprobs() const noexcept = 0;
};

}  // namespace reprise::kernels
