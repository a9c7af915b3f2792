#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// A replay was asked for with memory other than what was recorded. Nothing was launched.
class StaleAddressError : public Error {
 public:
  using Error::Error;
};

/// The addresses a graph was recorded with, and a fingerprint of them that is cheap enough to check
/// on every replay: a moved buffer would otherwise be read or written silently at its old place.
class AddressRecord {
 public:
  AddressRecord(std::span<const Tensor> inputs, std::span<const device::BufferView> bindings);

  [[nodiscard]] bool matches(std::span<const Tensor> inputs,
                             std::span<const device::BufferView> bindings) const noexcept {
    return fingerprint_ == fingerprint(inputs, bindings);
  }

  /// Both sides of a mismatch, each differing place by its position.
  [[nodiscard]] std::string describe_mismatch(std::span<const Tensor> inputs,
                                              std::span<const device::BufferView> bindings) const;

 private:
  static uint64_t fingerprint(std::span<const Tensor> inputs,
                              std::span<const device::BufferView> bindings) noexcept;

  std::vector<const void*> inputs_;
  std::vector<device::BufferView> bindings_;
  uint64_t fingerprint_;
};

}  // namespace reprise::cudagraph
