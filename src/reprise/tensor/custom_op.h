#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// An op that a user of the library defines. Models call it with ops::custom(), programs print its
/// name, and `splitting_ops` may list it. A CustomOp must neither move nor change, because programs
/// and graphs hold its address.
///
/// Source of this interface: vLLM's direct_register_custom_op (op_func, mutates_args, fake_impl),
/// but without a global registry.
struct CustomOp {
  /// Sets the types of the results. The compiler calls this function for several batch sizes, with
  /// tensors that have no memory, so the function may read only types. It throws ShapeError (or
  /// another Error) if the operands do not fit.
  using InferTypes =
      std::function<void(std::span<const Tensor> inputs, std::span<TensorType> outputs)>;
  /// Launches kernels on the stream. The results already have memory. The stream may be capturing a
  /// graph, so the function must not allocate, synchronise, or read device memory on the host.
  using Launch = std::function<void(
      device::Stream& stream, std::span<const Tensor> inputs, std::span<const Tensor> outputs)>;

  std::string name;        // "namespace::op", unique in an engine
  size_t num_inputs = 0;   // at least one
  size_t num_outputs = 1;  // at most kMaxOpOutputs
  std::vector<size_t> mutated_inputs =
      {};  // operands that the op writes to; each must be declared state
  InferTypes infer_types;
  Launch launch_cpu;  // empty: the op has no kernel for this kind of device
  Launch launch_cuda;
};

}  // namespace reprise
