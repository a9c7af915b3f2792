#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = f(x) in float32, rounded once, with one of the elementwise kernels of a table:
/// activation (`function` says which one), scale(x) = x * parameter,
/// soft_cap(x) = parameter * tanh(x / parameter), and clamp(x), which is x between `least` and
/// parameter.
bool launch_elementwise(device::Stream& stream,
                        const FloatKernels& kernels,
                        const Tensor& x,  // rows may be strided
                        float parameter,
                        const Tensor& out,
                        float least = 0,
                        OpFunction function = OpFunction::none);

}  // namespace reprise::kernels
