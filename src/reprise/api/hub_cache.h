#pragma once

#include <filesystem>

namespace reprise::api {

/// Where Hugging Face's tools keep downloaded models: $HF_HUB_CACHE, $HF_HOME/hub,
/// $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, the first that is set.
/// Source: huggingface_hub, constants.py.
[[nodiscard]] std::filesystem::path hub_cache_folder();

/// The folder of a model that the user named. A path that exists is that path. For a name like
/// "Qwen/Qwen3-0.6B" it is the snapshot of the revision "main" in `hub_cache`. Another path is
/// returned unchanged, so that opening it reports the error.
/// \throws InvalidArgument with the command that downloads the model, when a name is not in the
/// cache
[[nodiscard]] std::filesystem::path find_model_folder(const std::filesystem::path& model,
                                                      const std::filesystem::path& hub_cache);

}  // namespace reprise::api
