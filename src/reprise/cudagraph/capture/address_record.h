#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// A replay was asked for, but the memory differs from the recorded memory. Nothing was launched.
class StaleAddressError : public Error {
 public:
  using Error::Error;
};

/// The addresses that a graph was recorded with, and a fingerprint of them that is cheap enough to
/// check on every replay. Without this check a replay would silently read or write the old place of
/// a buffer that has moved.
class AddressRecord {
 public:
  AddressRecord(std::span<const Tensor> inputs, std::span<const device::BufferView> bindings);

  [[nodiscard]] bool matches(std::span<const Tensor> inputs,
                             std::span<const device::BufferView> bindings) const noexcept {
    return fingerprint_ == fingerprint(inputs, bindings);
  }

  /// Both sides of a mismatch: each differing address with its position.
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
