#pragma once

#include <span>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/device/device.h"
#include "reprise/runner/input_batch.h"

namespace reprise::runner {

/// A part of a step besides its batch and its attention, for example adapters or the states of
/// recurrent layers. A runner has a list of the parts that its model needs, and calls each of them
/// around the forward. Belongs to the runner's thread.
class StepPart {
 public:
  StepPart() = default;
  StepPart(const StepPart&) = delete;
  StepPart& operator=(const StepPart&) = delete;
  virtual ~StepPart() = default;

  /// Called before the forward. `descriptor`: of the padded batch.
  virtual void stage(std::span<const scheduler::StepEntry> requests,
                     const cudagraph::BatchDescriptor& descriptor,
                     device::Stream& stream) = 0;
  /// Called before the forward of a dummy batch.
  virtual void stage_dummy(const cudagraph::BatchDescriptor& /*descriptor*/,
                           device::Stream& /*stream*/) {}
  /// Called after the forward was launched.
  virtual void after(std::span<const scheduler::StepEntry> /*requests*/,
                     device::Stream& /*stream*/) {}
};

}  // namespace reprise::runner
