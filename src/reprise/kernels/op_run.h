#pragma once

#include <array>
#include <span>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/op_table.h"

namespace reprise::kernels {

class DeviceExecutor;

/// One call of an op whose results have memory: the argument of the function that launches its
/// kernels. Everything is borrowed for the call.
struct OpRun {
  DeviceExecutor& executor;
  device::Stream& stream;
  const KernelTable& kernels;
  const AttentionPath& attention;  // which kernels serve attention in this step
  const OpCall& call;
  std::span<const Tensor> in;
  std::span<const Tensor> out;

  template <OpCode kOp>
  [[nodiscard]] Operands<kOp> operands() const {
    return Operands<kOp>(in);
  }
};

/// Launches the kernels of one op. Returns whether anything was launched.
using LaunchOp = bool (*)(const OpRun& run);
/// By OpCode. nullptr: the device has no kernel for the op.
using LaunchTable = std::array<LaunchOp, kNumOpCodes>;

/// launch_<op> for every op: the functions that a CpuExecutor calls. Most are in the folder of the
/// op's name. They use only the kernels of run.kernels, so an executor whose kernels have the same
/// arguments and grids can call them, too. An op without such a function does not link.
#define X(op, ...) bool launch_##op(const OpRun& run);
#include "reprise/tensor/op_list.inl"
#undef X

}  // namespace reprise::kernels
