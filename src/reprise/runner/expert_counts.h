#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/models/expert_counting.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::runner {

/// The op that counts. `kernel`: counts on a GPU; nullptr: the device is a CPU. \post the op's
/// address must not change once a model uses it
[[nodiscard]] CustomOp make_expert_counter(const device::Kernel* kernel = nullptr);
inline constexpr std::string_view kExpertCounterName = "reprise::count_experts";

/// The number of tokens that each expert of each layer got since the start. Steps count on the
/// device, in persistent memory that programs and graphs refer to as state.
///
/// On a CPU, collect() may run on another thread than steps. A GPU's counts are copied by a stream
/// of their own, so collect() does not wait for steps that are in flight: it gets what they have
/// counted so far, and a later call gets the rest.
class ExpertCounts {
 public:
  /// `op`: from make_expert_counter(); borrowed. \pre the model has experts
  ExpertCounts(const weights::ModelConfig& model,
               const CustomOp& op,
               device::Device& device,
               OpExecutor& executor);
  ExpertCounts(const ExpertCounts&) = delete;
  ExpertCounts& operator=(const ExpertCounts&) = delete;

  [[nodiscard]] const models::ExpertCounting& counting() const noexcept { return counting_; }
  /// The tensors that programs write as states.
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] device::BufferView memory() const noexcept { return buffer_.view(); }

  /// The next step has this many tokens; the tokens after them are padding.
  void stage(int32_t num_tokens, device::Stream& stream);
  /// save() copies the counts of the device, and restore() writes them back. \pre no step is in
  /// flight
  [[nodiscard]] std::vector<std::byte> save() const;
  void restore(std::span<const std::byte> counts) noexcept;
  /// Adds the counts since the last call to the totals; nothing if the device is lost.
  void collect();
  /// The layers with experts.
  [[nodiscard]] std::span<const int32_t> layers() const noexcept { return layers_; }
  /// Totals for each layer with experts and each expert. Only for the thread that calls collect().
  [[nodiscard]] std::span<const uint64_t> totals() const noexcept { return totals_; }

 private:
  device::Buffer buffer_;
  std::unique_ptr<device::Stream> copies_;  // nullptr: the host reads the memory itself
  models::ExpertCounting counting_;
  std::vector<Tensor> tensors_;
  std::vector<int32_t> layers_;
  std::vector<uint64_t> totals_;
  std::vector<int32_t> copied_;  // the counts of a device whose memory the host cannot read
  std::vector<uint32_t> last_;   // the counts of the device at the last collect(); they wrap around
};

}  // namespace reprise::runner
