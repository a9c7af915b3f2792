#include "reprise/cudagraph/capture/address_record.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::cudagraph {
namespace {

// Multiplies and rotates for each word, which takes one or two cycles. The result depends on the
// order of the words.
class Mixer {
 public:
  void add(uint64_t word) noexcept {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  }
  void add(const void* address) noexcept { add(reinterpret_cast<uint64_t>(address)); }
  [[nodiscard]] uint64_t value() const noexcept { return state_; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3ULL;
};

}  // namespace

AddressRecord::AddressRecord(std::span<const Tensor> inputs,
                             std::span<const device::BufferView> bindings)
    : bindings_(bindings.begin(), bindings.end()), fingerprint_(fingerprint(inputs, bindings)) {
  for (const Tensor& input : inputs) inputs_.push_back(input.data());
}

uint64_t AddressRecord::fingerprint(std::span<const Tensor> inputs,
                                    std::span<const device::BufferView> bindings) noexcept {
  Mixer mixer;
  mixer.add(inputs.size());
  for (const Tensor& input : inputs) mixer.add(input.data());
  for (const device::BufferView& binding : bindings) {
    mixer.add(binding.data);
    mixer.add(binding.bytes);
  }
  return mixer.value();
}

std::string AddressRecord::describe_mismatch(std::span<const Tensor> inputs,
                                             std::span<const device::BufferView> bindings) const {
  std::string text;
  const auto differ =
      [&text](std::string_view what, size_t index, const void* recorded, const void* now) {
        if (recorded != now) {
          text += fmt::format("\n  {} {}: recorded at {}, now at {}", what, index, recorded, now);
        }
      };
  if (inputs.size() != inputs_.size() || bindings.size() != bindings_.size()) {
    text += fmt::format("\n  recorded {} inputs and {} bindings, now {} and {}",
                        inputs_.size(),
                        bindings_.size(),
                        inputs.size(),
                        bindings.size());
  }
  for (size_t i = 0; i < std::min(inputs.size(), inputs_.size()); ++i) {
    differ("input", i, inputs_[i], inputs[i].data());
  }
  for (size_t i = 0; i < std::min(bindings.size(), bindings_.size()); ++i) {
    differ("binding", i, bindings_[i].data, bindings[i].data);
    if (bindings_[i].bytes != bindings[i].bytes) {
      text += fmt::format(
          "\n  binding {}: recorded {} bytes, now {}", i, bindings_[i].bytes, bindings[i].bytes);
    }
  }
  return text;
}

}  // namespace reprise::cudagraph
