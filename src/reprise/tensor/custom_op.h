#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// An op that the user brings: what models call with ops::custom(), what programs show by its name,
/// and what `splitting_ops` may list. A constant: programs and graphs refer to it by address.
///
/// Source of the shape of this: vLLM's direct_register_custom_op (op_func, mutates_args,
/// fake_impl), without its global library.
struct CustomOp {
  /// Sets the types of the results. Called with tensors that have no memory, and for several sizes:
  /// it must look at nothing but types. Throws ShapeError (or any Error) for operands that do not
  /// fit.
  using InferTypes =
      std::function<void(std::span<const Tensor> inputs, std::span<TensorType> outputs)>;
  /// Launches kernels on the stream, which may be recording: no allocation, no synchronisation, no
  /// reading of device memory on the host. The results have memory.
  using Launch = std::function<void(
      device::Stream& stream, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;

  std::string name;                         // "namespace::op", unique among the ops of an engine
  size_t num_inputs = 0;                    // at least one
  size_t num_outputs = 1;                   // at most kMaxOpOutputs
  std::vector<size_t> mutated_inputs = {};  // operands that it writes to: declared state only
  InferTypes infer_types;
  Launch launch_cpu;  // empty: no kernel for this kind of device
  Launch launch_cuda;
};

}  // namespace reprise
