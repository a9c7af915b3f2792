#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reprise::api {

/// The folder where Hugging Face's tools keep downloaded models. The first of these that is set:
/// $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.
/// Source: huggingface_hub, constants.py.
[[nodiscard]] std::filesystem::path hub_cache_folder();

/// The folder or the GGUF file of a model that the user named. An existing path is returned as it
/// is. For a name like "Qwen/Qwen3-0.6B" the result is the snapshot of `revision` (a branch, a tag
/// or a commit) in `hub_cache`; for "unsloth/Qwen3-0.6B-GGUF:Q4_K_M", the file of this quantisation
/// in the snapshot. Any other path is returned unchanged, and opening it later reports the error.
/// \throws InvalidArgument with the command that downloads the model, when the name is not in the
/// cache
[[nodiscard]] std::filesystem::path find_model_folder(const std::filesystem::path& model,
                                                      const std::filesystem::path& hub_cache,
                                                      std::string_view revision = "main");

}  // namespace reprise::api
