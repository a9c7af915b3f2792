#pragma once

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/options/engine_args.h"

/// What an engine's device has to do with those of the other ranks. All ranks of the engine, and
/// the first ranks of all engines, call these functions one after the other, at the same time. With
/// one rank they do nothing.
namespace reprise::api {

/// Compares the machines of the ranks before a device is opened: all ranks have GPUs, or none has
/// one, and each has one of its own. `opened` has the accelerator, if there is one. Returns the
/// index of this rank's GPU. \throws InvalidArgument on all ranks, with the rank and what to do
[[nodiscard]] int agree_on_gpu(const EngineArgs& args, const EngineDevice& opened);

/// Connects the GPU with those of the other ranks for the collective ops of the model.
/// \throws InvalidArgument if two ranks of a machine have the same GPU, parallel::RankError,
/// device::DeviceError, OutOfMemory
void connect_gpus(const EngineArgs& args, EngineDevice& opened);

}  // namespace reprise::api
