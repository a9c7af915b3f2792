#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// A key of a graph as users type it: "FULL:tokens=8,reqs=8,uniform", "PIECEWISE:tokens=8".
[[nodiscard]] std::string graph_key_text(CudagraphRuntimeMode mode,
                                         const BatchDescriptor& descriptor);

/// The key that `text` names. "FULL:8" is enough if only one FULL key has 8 tokens. The form in
/// logs is also read: "FULL [tokens=8 reqs=8 uniform]". \throws InvalidArgument that lists the keys
/// if none or several fit
[[nodiscard]] PlannedKey find_graph_key(std::string_view text, std::span<const PlannedKey> keys);

}  // namespace reprise::cudagraph
