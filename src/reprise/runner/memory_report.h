#pragma once

#include <cstddef>
#include <span>

namespace reprise::runner {

class Execution;
class ModelRunner;

/// A device's memory in bytes, by use.
struct MemoryParts {
  // Memory of other processes, of the driver and of code: what was in use before the first capture.
  size_t others = 0;
  size_t weights = 0;
  size_t states = 0;  // of recurrent layers
  size_t kv_cache = 0;
  size_t activations = 0;  // the pool of eager steps
  size_t graphs = 0;       // the pool of graphs, and their executables
  size_t buffers = 0;      // all other allocations: persistent buffers, arena, workspaces
  size_t reported = 0;     // the device's own figure of used memory; close to sum()

  [[nodiscard]] size_t sum() const noexcept {
    return others + weights + states + kv_cache + activations + graphs + buffers;
  }
};

/// Measures the present uses of the device's memory. `runners`: all runners that work on the
/// device. `others`: bytes in use by others before this engine captured graphs. \throws
/// device::DeviceError
[[nodiscard]] MemoryParts measure_memory(Execution& execution,
                                         std::span<const ModelRunner* const> runners,
                                         size_t others,
                                         size_t weights);

}  // namespace reprise::runner
