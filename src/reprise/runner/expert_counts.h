#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/models/expert_counting.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::runner {

/// The op that counts. \post its address must not change once a model uses it
[[nodiscard]] CustomOp make_expert_counter();
inline constexpr std::string_view kExpertCounterName = "reprise::count_experts";

/// The tokens that each expert of each layer got since the start. Steps count on the device, in
/// persistent memory that programs and graphs refer to as state. collect() may run on another
/// thread than steps. Only for CPUs.
class ExpertCounts {
 public:
  /// `op`: of make_expert_counter(); borrowed. \pre the model has experts
  ExpertCounts(const weights::ModelConfig& model,
               const CustomOp& op,
               device::Device& device,
               OpExecutor& executor);
  ExpertCounts(const ExpertCounts&) = delete;
  ExpertCounts& operator=(const ExpertCounts&) = delete;

  [[nodiscard]] const models::ExpertCounting& counting() const noexcept { return counting_; }
  /// The states of programs that count.
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] device::BufferView memory() const noexcept { return buffer_.view(); }

  /// The next step has so many tokens; what follows them is padding.
  void stage(int32_t num_tokens, device::Stream& stream);
  /// What the device has counted, and its return to that. \pre no step is in flight
  [[nodiscard]] std::vector<std::byte> save() const;
  void restore(std::span<const std::byte> counts) noexcept;
  /// Adds what was counted since the last call to the totals.
  void collect();
  /// The layers with experts.
  [[nodiscard]] std::span<const int32_t> layers() const noexcept { return layers_; }
  /// By layer with experts, then by expert. Only for the thread that calls collect().
  [[nodiscard]] std::span<const uint64_t> totals() const noexcept { return totals_; }

 private:
  device::Buffer buffer_;
  models::ExpertCounting counting_;
  std::vector<Tensor> tensors_;
  std::vector<int32_t> layers_;
  std::vector<uint64_t> totals_;
  std::vector<uint32_t> last_;  // what the device had counted at the last collect(), which wraps
};

}  // namespace reprise::runner
