#include "reprise/lora/adapter_slots.h"

#include <algorithm>
#include <utility>

#include "reprise/base/assert.h"

namespace reprise::lora {
namespace {

constexpr int32_t kNoAdapter = -1;

// The memory of one slot in a stack [num_slots, ...].
device::BufferView slot_of(const Tensor& stack, size_t slot) {
  const size_t bytes = stack.type().bytes() / static_cast<size_t>(stack.size(0));
  return {stack.data_as<std::byte>() + slot * bytes, bytes};
}

}  // namespace

AdapterSlots::AdapterSlots(int32_t max_loras, int32_t max_lora_rank)
    : max_lora_rank_(max_lora_rank), slots_(static_cast<size_t>(max_loras)) {}

void AdapterSlots::set_token_slots(const Tensor& slots) {
  token_slots_ = slots;
  host_slots_.resize(static_cast<size_t>(slots.size(0)));
}

const LoraLayer& AdapterSlots::add_layer(LoraLayer layer) {
  layers_.push_back(std::move(layer));
  for (Slot& slot : slots_) slot.is_nonzero.push_back(false);
  return layers_.back();
}

AdapterSlots::Slot* AdapterSlots::find(uint64_t adapter_id) noexcept {
  for (Slot& slot : slots_) {
    if (slot.adapter_id == adapter_id) return &slot;
  }
  return nullptr;
}

void AdapterSlots::stage(std::span<const AdapterTokens> requests,
                         int32_t num_tokens,
                         device::Stream& stream) {
  ++step_;
  // Adapters of this step that have a slot keep it, so they are marked first. The others must not
  // take these slots.
  for (const AdapterTokens& request : requests) {
    if (request.adapter == nullptr) continue;
    if (Slot* slot = find(request.adapter->id())) slot->last_step = step_;
  }
  size_t token = 0;
  for (const AdapterTokens& request : requests) {
    int32_t index = kNoAdapter;
    if (request.adapter != nullptr) {
      if (find(request.adapter->id()) == nullptr) place(*request.adapter, stream);
      index = static_cast<int32_t>(find(request.adapter->id()) - slots_.data());
    }
    const auto count = static_cast<size_t>(request.num_tokens);
    std::fill_n(host_slots_.begin() + static_cast<std::ptrdiff_t>(token), count, index);
    token += count;
  }
  REPRISE_ASSERT(
      std::cmp_less_equal(token, num_tokens), "{} tokens staged as {}", token, num_tokens);
  std::fill(host_slots_.begin() + static_cast<std::ptrdiff_t>(token),
            host_slots_.begin() + num_tokens,
            kNoAdapter);
  upload(num_tokens, stream);
}

void AdapterSlots::stage_dummy(int32_t num_tokens, device::Stream& stream) {
  for (int32_t token = 0; token < num_tokens; ++token) {
    host_slots_[static_cast<size_t>(token)] = token % max_loras();
  }
  upload(num_tokens, stream);
}

void AdapterSlots::upload(int32_t num_tokens, device::Stream& stream) {
  stream.copy_from_host(
      token_slots_.data(), host_slots_.data(), static_cast<size_t>(num_tokens) * sizeof(int32_t));
}

void AdapterSlots::place(const LoraAdapter& adapter, device::Stream& stream) {
  Slot& oldest = *std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) {
    return a.last_step < b.last_step;
  });
  REPRISE_ASSERT(
      oldest.last_step < step_, "a step has more adapters than the {} slots", slots_.size());
  oldest.adapter_id = 0;  // stays 0 if a copy fails
  write(oldest, adapter, stream);
  oldest.adapter_id = adapter.id();
  oldest.last_step = step_;
  ++num_loads_;
}

void AdapterSlots::write(Slot& slot, const LoraAdapter& adapter, device::Stream& stream) {
  const auto index = static_cast<size_t>(&slot - slots_.data());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LoraAdapter::Image& image = adapter.image(i);
    const device::BufferView a = slot_of(layers_[i].a, index);
    const device::BufferView b = slot_of(layers_[i].b, index);
    if (!image.a.empty()) {
      slot.is_nonzero[i] = true;
      stream.copy_from_host(a.data, image.a.data(), a.bytes);
      stream.copy_from_host(b.data, image.b.data(), b.bytes);
    } else if (slot.is_nonzero[i]) {
      // The previous adapter of this slot changed this layer, and the new one does not.
      stream.fill(b.data, std::byte{0}, b.bytes);
      stream.fill(a.data, std::byte{0}, a.bytes);
      slot.is_nonzero[i] = false;
    }
  }
}

}  // namespace reprise::lora
