#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::config {

/// Keys of a compilation_config that older releases defined and that configurations still contain:
/// level, use_cudagraph, full_cuda_graph, separate_attention_routine.
[[nodiscard]] std::span<const std::string_view> legacy_keys() noexcept;

/// Replaces legacy keys in `document` by the current keys. Each replacement adds a warning that
/// shows the current key.
/// \throws InvalidArgument if a legacy key contradicts another key (names both)
void map_legacy_keys(Json& document, std::vector<std::string>& warnings);

}  // namespace reprise::config
