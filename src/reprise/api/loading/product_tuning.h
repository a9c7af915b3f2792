#pragma once

#include <cstdint>
#include <vector>

#include "reprise/api/options/startup_report.h"

namespace reprise::runner {
class ModelRunner;
}

namespace reprise::api {

struct LoadedEngine;

/// The warning of --tune on a device without kernels to choose from.
inline constexpr const char* kNothingToTune =
    "--tune has no effect on this device: only GPUs have several kernels for one product; on a CPU "
    "the instruction set and the shape decide";

/// \throws InvalidArgument if this engine, whose options are resolved, cannot measure products
void check_tuning(const LoadedEngine& engine);

/// Makes the matrix products of an engine follow the choices that earlier starts have measured on
/// this device, and reports them. It does nothing where no products can be tuned, and for
/// --no-tune. \pre nothing was captured \throws device::DeviceError
void use_stored_products(LoadedEngine& engine);

/// The same, but measures first what is not stored, if --tune asks for it. Where no products can
/// be tuned, a warning says why. `draft`: the draft model on the same device; nullptr: none.
/// \pre nothing was captured \throws InvalidArgument, device::DeviceError, OutOfMemory
void choose_products(LoadedEngine& engine, LoadedEngine* draft, const StartupObserver& observer);

/// The numbers of tokens whose products are measured: those of graphs, and the powers of two to
/// which the rows of other steps are rounded up. Ascending.
[[nodiscard]] std::vector<int32_t> tuned_token_counts(const runner::ModelRunner& runner,
                                                      int32_t most_tokens);

}  // namespace reprise::api
