#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// An op of the user. Models call it with ops::custom(), programs show its name, and
/// `splitting_ops` may list it. A CustomOp must not change: programs and graphs refer to it by
/// address.
///
/// Source of this interface: vLLM's direct_register_custom_op (op_func, mutates_args, fake_impl),
/// without the global library.
struct CustomOp {
  /// Sets the types of the results. It is called with tensors that have no memory, and for several
  /// sizes, so it may use only types. It throws ShapeError (or any Error) for operands that do not
  /// fit.
  using InferTypes =
      std::function<void(std::span<const Tensor> inputs, std::span<TensorType> outputs)>;
  /// Launches kernels on the stream. The stream may be recording, so the function must not
  /// allocate, synchronise, or read device memory on the host. The results have memory.
  using Launch = std::function<void(
      device::Stream& stream, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;

  std::string name;        // "namespace::op", unique among the ops of an engine
  size_t num_inputs = 0;   // at least one
  size_t num_outputs = 1;  // at most kMaxOpOutputs
  std::vector<size_t> mutated_inputs =
      {};  // operands that the op writes to; each must be declared state
  InferTypes infer_types;
  Launch launch_cpu;  // empty: the op has no kernel for this kind of device
  Launch launch_cuda;
};

}  // namespace reprise
