#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/api/engine_args.h"
#include "reprise/compile/model/code_generator.h"
#include "reprise/device/device.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/isa.h"
#include "reprise/runner/execution.h"

namespace reprise::api {

/// The device of an engine and the stream, memory pools and executor on it.
struct EngineDevice {
  // In order of dependence: each borrows from those above it.
  std::unique_ptr<kernels::Accelerator> accelerator;  // nullptr: the device is the CPU
  std::unique_ptr<device::Device> device;
  kernels::CodeTarget code_target;  // of an accelerator
  std::unique_ptr<engine::Execution> execution;
  kernels::Isa isa = kernels::Isa::scalar;  // of the CPU's kernels
  std::string fallback_reason;  // why a GPU that this build supports is not used; may be empty
  std::vector<std::string> warnings;  // what this machine lacks

  [[nodiscard]] bool is_gpu() const noexcept { return accelerator != nullptr; }
  /// What generates code for this device; nullopt where nothing does.
  [[nodiscard]] std::optional<compile::CodeGenerator> code_generator() const;
};

/// The device that --device selects. \throws InvalidArgument, OutOfMemory, device::DeviceError
[[nodiscard]] EngineDevice open_engine_device(const EngineArgs& args, kernels::Isa isa);

}  // namespace reprise::api
