#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// A replay was refused, because memory that the graph uses is not where it was at the capture.
/// Nothing was launched.
class StaleAddressError : public Error {
 public:
  using Error::Error;
};

/// The addresses with which a graph was captured, and a fingerprint of them that is cheap enough to
/// check before every replay. Without this check, a replay would silently use the old address of a
/// buffer that has moved.
class AddressRecord {
 public:
  AddressRecord(std::span<const Tensor> inputs, std::span<const device::BufferView> bindings);

  [[nodiscard]] bool matches(std::span<const Tensor> inputs,
                             std::span<const device::BufferView> bindings) const noexcept {
    return fingerprint_ == fingerprint(inputs, bindings);
  }

  /// Lists every address that differs, with its position and both values.
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
