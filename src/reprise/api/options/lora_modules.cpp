#include "reprise/api/options/lora_modules.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::api {
namespace {

LoraModulePath parse_json_form(std::string_view option, std::string_view text) {
  LoraModulePath module;
  const Json json = parse_json(text, option);
  for (const auto& [key, value] : json.items()) {
    const bool is_known = key == "name" || key == "path" || key == "base_model_name";
    if (!is_known || (!value.is_string() && !(value.is_null() && key == "base_model_name"))) {
      throw InvalidArgument(fmt::format(
          "{}: '{}': expected the texts name, path and, if wanted, base_model_name", option, key));
    }
    if (value.is_null()) continue;
    if (key == "name") module.name = value.get<std::string>();
    if (key == "path") module.path = value.get<std::string>();
    if (key == "base_model_name") module.base_model_name = value.get<std::string>();
  }
  return module;
}

}  // namespace

LoraModulePath parse_lora_module(std::string_view option, std::string_view text) {
  LoraModulePath module;
  if (text.starts_with('{')) {
    module = parse_json_form(option, text);
  } else if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    module = {.name = std::string(text.substr(0, equals)), .path = text.substr(equals + 1)};
  }
  if (module.name.empty() || module.path.empty()) {
    throw InvalidArgument(fmt::format(
        R"({}: '{}': expected name=path or {{"name": "...", "path": "..."}})", option, text));
  }
  return module;
}

}  // namespace reprise::api
