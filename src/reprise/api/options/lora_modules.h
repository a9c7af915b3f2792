#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reprise::api {

/// One value of --lora-modules: an adapter that is loaded when the engine starts.
struct LoraModulePath {
  std::string name;                  // that requests use
  std::filesystem::path path;        // folder of a PEFT adapter
  std::string base_model_name = {};  // shown as the adapter's parent; empty: the served model

  friend bool operator==(const LoraModulePath&, const LoraModulePath&) = default;
};

/// "name=path", or a JSON object with the members name, path and base_model_name, as in vLLM.
/// `option` is the name that a message shows. \throws InvalidArgument
[[nodiscard]] LoraModulePath parse_lora_module(std::string_view option, std::string_view text);

}  // namespace reprise::api
