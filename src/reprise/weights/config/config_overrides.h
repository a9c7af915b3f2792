#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::weights {

/// Applies `overrides`, an object, to the text of a configuration file: a member replaces the
/// member of the same name, objects are merged, and null removes a member (RFC 7396). `path` only
/// names the file in errors. \throws FileError E_CONFIG
[[nodiscard]] std::string override_config(std::string_view text,
                                          std::string_view path,
                                          const Json& overrides);

/// The same for a config.json, in which a scaling of the rotation can be spelled in two ways. An
/// override in the older spelling (rope_scaling, rope_theta, rope_local_base_freq,
/// partial_rotary_factor) also changes a config in the newer spelling (rope_parameters). If an
/// override names the type of a scaling, it replaces the scaling of the config.
[[nodiscard]] Json override_model_config(Json config, const Json& overrides);

/// The names in `overrides` that have no effect. `config`: with the overrides. `text`: the part of
/// `config` that was read, see text_part_of_config(). `read`: the names of the members that were
/// read.
[[nodiscard]] std::vector<std::string> overrides_without_effect(
    const Json& overrides,
    const Json& config,
    const Json& text,
    const std::set<std::string, std::less<>>& read);

}  // namespace reprise::weights
