#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::hub {

/// A model as users name it: "Qwen/Qwen3-0.6B", or "unsloth/Qwen3-0.6B-GGUF:Q4_K_M" for one file.
struct HubName {
  std::string repository;  // "ORG/NAME"
  std::string file;        // what follows ':': a file's path or a quantisation; empty = none

  /// "models--ORG--NAME", the repository's folder in the cache.
  [[nodiscard]] std::string cache_folder() const;
};

/// A name has two parts of letters, digits, '-', '_' and '.'. Returns nullopt for any other text.
[[nodiscard]] std::optional<HubName> parse_hub_name(std::string_view text);

/// The indices in `paths` of the files that `wanted` names: the file with this path, together with
/// the other parts of a split GGUF; or the GGUF files of this quantisation ("Q4_K_M", in any case).
/// Empty if there is none. \throws InvalidArgument naming the files when a quantisation fits
/// several models
[[nodiscard]] std::vector<size_t> files_of_name(std::span<const std::string> paths,
                                                std::string_view wanted);

/// Whether the path is that of a GGUF file with a language model, and not of a projector for
/// images.
[[nodiscard]] bool is_gguf_model(std::string_view path);

}  // namespace reprise::hub
