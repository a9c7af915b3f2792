#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Wraps another source and reports how much of it was read, in stored bytes. The total includes
/// tensors that are never read. A tensor that is read twice counts twice, but never beyond the
/// total.
class WatchedWeights final : public WeightSource {
 public:
  /// Called after each tensor, by the thread that read it.
  using OnRead = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

  WatchedWeights(std::unique_ptr<WeightSource> source, OnRead on_read);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override;
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;
  [[nodiscard]] std::string description() const override;

 private:
  void count(std::string_view name) const;

  std::unique_ptr<WeightSource> source_;
  OnRead on_read_;
  uint64_t bytes_total_ = 0;
  mutable std::atomic<uint64_t> bytes_done_ = 0;
};

}  // namespace reprise::weights
