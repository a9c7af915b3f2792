#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/lora/lora_adapter.h"
#include "reprise/lora/lora_layer.h"

namespace reprise::lora {

/// One request's tokens in a step. Borrows the adapter.
struct AdapterTokens {
  const LoraAdapter* adapter = nullptr;  // nullptr: none
  int32_t num_tokens = 0;
};

/// The adapters on the device: a fixed number of slots in the stacked memory of each layer, and the
/// slot of each token. Putting an adapter into a slot overwrites the slot's contents. No address
/// changes after the model is loaded, so graphs stay valid whichever adapters they are replayed
/// with. If all slots are taken, the adapter that was used longest ago gives up its slot.
///
/// Life cycle: layers are added while the model is loaded, then steps. Belongs to the thread that
/// computes steps; layers() is constant after loading and may be read by any thread.
class AdapterSlots {
 public:
  /// max_loras: the largest number of adapters in one step.
  AdapterSlots(int32_t max_loras, int32_t max_lora_rank);
  AdapterSlots(const AdapterSlots&) = delete;
  AdapterSlots& operator=(const AdapterSlots&) = delete;

  [[nodiscard]] int32_t max_loras() const noexcept { return static_cast<int32_t>(slots_.size()); }
  [[nodiscard]] int32_t max_lora_rank() const noexcept { return max_lora_rank_; }

  /// Called while the model is loaded. `slots`: int32[max_num_tokens].
  void set_token_slots(const Tensor& slots);
  /// Returns the layer at its final address.
  const LoraLayer& add_layer(LoraLayer layer);
  [[nodiscard]] const std::deque<LoraLayer>& layers() const noexcept { return layers_; }

  /// int32[max_num_tokens]: the slot of each token, -1 for none. For ForwardContext::adapter_slots.
  [[nodiscard]] const Tensor& token_slots() const noexcept { return token_slots_; }

  /// Before a step: gives each adapter of the batch a slot and writes the slots of the first
  /// `num_tokens` tokens; tokens after those of the requests are padding without an adapter. All
  /// copies come after the work that the stream was given before. Allocates nothing.
  /// \pre the batch has at most max_loras() different adapters
  void stage(std::span<const AdapterTokens> requests, int32_t num_tokens, device::Stream& stream);
  /// Before a dummy step: gives the tokens all slots in turn.
  void stage_dummy(int32_t num_tokens, device::Stream& stream);

  /// How often an adapter was copied into a slot.
  [[nodiscard]] uint64_t num_loads() const noexcept { return num_loads_; }

 private:
  struct Slot {
    uint64_t adapter_id = 0;  // 0: none
    uint64_t last_step = 0;   // the last step that used the slot
    // For each layer, whether the slot's memory may contain numbers other than zero.
    std::vector<bool> is_nonzero;
  };

  [[nodiscard]] Slot* find(uint64_t adapter_id) noexcept;
  void place(const LoraAdapter& adapter, device::Stream& stream);
  void write(Slot& slot, const LoraAdapter& adapter, device::Stream& stream);
  void upload(int32_t num_tokens, device::Stream& stream);

  int32_t max_lora_rank_;
  Tensor token_slots_;            // persistent, written before every step with adapters
  std::deque<LoraLayer> layers_;  // their addresses stay
  std::vector<Slot> slots_;
  std::vector<int32_t> host_slots_;  // of tokens
  uint64_t step_ = 0;
  uint64_t num_loads_ = 0;
};

}  // namespace reprise::lora
