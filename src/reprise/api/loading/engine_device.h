#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/compile/model/code_generator.h"
#include "reprise/device/device.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/isa.h"
#include "reprise/models/parameters.h"
#include "reprise/runner/execution.h"

namespace reprise::api {

/// The device of an engine, with the stream, memory pools and executor on it.
struct EngineDevice {
  // Each member borrows from the members above it.
  std::unique_ptr<kernels::Accelerator> accelerator;  // nullptr: the device is the CPU
  std::unique_ptr<device::Device> device;
  kernels::CodeTarget code_target;  // of the accelerator
  /// The connections with the GPUs of the other ranks, one for each group of them.
  std::vector<std::unique_ptr<kernels::DeviceRanks>> device_ranks;
  std::unique_ptr<runner::Execution> execution;
  kernels::Isa isa = kernels::Isa::scalar;  // instruction set of the CPU's kernels
  int num_workers = 0;                      // of the CPU; 0: the device is a GPU
  std::string fallback_reason;              // why a supported GPU is not used; may be empty
  std::vector<std::string> warnings;        // for example: a library that this machine lacks

  [[nodiscard]] bool is_gpu() const noexcept { return accelerator != nullptr; }
  /// The code generator for this device; nullopt: no code is generated.
  [[nodiscard]] std::optional<compile::CodeGenerator> code_generator() const;
};

/// The device that --device selects. \throws InvalidArgument, OutOfMemory, device::DeviceError
[[nodiscard]] EngineDevice open_engine_device(const EngineArgs& args, kernels::Isa isa);

/// Whether answers must have the same bits in any batch: --batch-invariant, or the default of the
/// device. The default asks for it where it costs nothing, so not on a GPU, and not where large
/// batches have faster products with packed weights, as users of such weights expect
/// (docs/adr/0119-packed-weights-are-fast-by-default.md).
[[nodiscard]] bool is_batch_invariant(const EngineArgs& args, const EngineDevice& device) noexcept;

/// Whether the bits of an answer depend on the other requests of its batches.
[[nodiscard]] bool depends_on_batches(const EngineArgs& args,
                                      const EngineDevice& device,
                                      const models::Parameters& weights);

/// A warning if --no-batch-invariant is given and changes nothing.
[[nodiscard]] std::vector<std::string> warnings_of_invariance(const EngineArgs& args,
                                                              const EngineDevice& device,
                                                              const models::Parameters& weights);

}  // namespace reprise::api
