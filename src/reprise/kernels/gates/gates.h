#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The function of the gate that x is multiplied by.
enum class GateFunction : uint8_t { silu, sigmoid };

/// out = x * function(gate), element by element in float32, rounded once.
bool launch_gates(device::Stream& stream,
                  const KernelTable& kernels,
                  GateFunction function,
                  const Tensor& x,     // [..., width], rows may be strided
                  const Tensor& gate,  // like x
                  const Tensor& out);  // like x

}  // namespace reprise::kernels
