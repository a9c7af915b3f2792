#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::config {

/// Passes and compilers that the user of the library added, by name (compile/model/extensions.h).
struct ExtensionNames {
  std::vector<std::string> passes;
  std::vector<std::string> compilers;
};

/// The key of `inductor_passes` says when a pass of the user runs. The keys are those of PyTorch's
/// configuration that vLLM users set.
inline constexpr std::string_view kBeforeSplit = "pre_grad_custom_pass";
inline constexpr std::string_view kBeforePasses = "post_grad_custom_pre_pass";
inline constexpr std::string_view kAfterPasses = "post_grad_custom_post_pass";

/// The names under one key of `inductor_passes`: a text, or a list of texts that run in order.
[[nodiscard]] std::vector<std::string> user_passes(const Json& inductor_passes,
                                                   std::string_view key);

/// \throws InvalidArgument for an unknown key, for a value that is not a text, and for a name that
/// no pass has; the message lists the keys or the passes that exist
void check_inductor_passes(const Json& inductor_passes, const ExtensionNames& names);
/// \throws InvalidArgument for a name that neither the engine nor a compiler of the user has
void check_backend(const std::string& backend, const ExtensionNames& names);

}  // namespace reprise::config
