#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "reprise/weights/wrapped_weights.h"

namespace reprise::weights {

/// Wraps another source and reports how much of it was read, in stored bytes. The total includes
/// tensors that are never read. A tensor that is read twice counts twice, but never beyond the
/// total.
class WatchedWeights final : public WrappedWeights {
 public:
  /// Called after each tensor or part of one, by the thread that read it. Calls do not overlap.
  using OnRead = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

  WatchedWeights(std::unique_ptr<WeightSource> source, OnRead on_read);

  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  void read_rows(std::string_view name,
                 RowRange rows,
                 DType dtype,
                 std::span<std::byte> dst) const override;
  void read_panel_rows(std::string_view name,
                       RowRange rows,
                       std::span<std::byte> dst) const override;

 private:
  void count(uint64_t bytes) const;
  /// The stored bytes of these rows. The sum over all parts is the number for the whole tensor.
  [[nodiscard]] uint64_t bytes_of(std::string_view name, RowRange rows) const;

  OnRead on_read_;
  uint64_t bytes_total_ = 0;
  mutable std::mutex mutex_;
  mutable uint64_t bytes_done_ = 0;
};

}  // namespace reprise::weights
