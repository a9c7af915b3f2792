#include "reprise/weights/pooling_config.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/weights/config_reader.h"

namespace reprise::weights {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

bool is_module(const Json& module, std::string_view name) {
  const auto type = module.is_object() ? module.find("type") : module.end();
  return module.is_object() && type != module.end() && type->is_string() &&
         type->get_ref<const std::string&>().ends_with(name);
}

// The file is a list, which parse_json_file() would refuse.
Json parse_modules(std::string_view text, std::string_view path) {
  Json modules;
  try {
    modules = parse_json(text, "document");
  } catch (const InvalidArgument& error) {
    throw FileError("E_CONFIG", path, "", error.what());
  }
  if (!modules.is_array()) throw FileError("E_CONFIG", path, "", "must be a list of modules");
  return modules;
}

PoolingType read_pooling_type(const ConfigReader& reader) {
  constexpr std::array kModes = {
      std::pair{"pooling_mode_cls_token", PoolingType::cls},
      std::pair{"pooling_mode_mean_tokens", PoolingType::mean},
      std::pair{"pooling_mode_lasttoken", PoolingType::last},
  };
  std::optional<PoolingType> found;
  for (const auto& [key, type] : kModes) {
    if (!reader.boolean(key).value_or(false)) continue;
    if (found) reader.fail(key, "is one of several poolings; only one is supported");
    found = type;
  }
  if (!found) {
    reader.fail("pooling_mode_mean_tokens",
                "no supported pooling is set; supported: pooling_mode_cls_token, "
                "pooling_mode_mean_tokens, pooling_mode_lasttoken");
  }
  return *found;
}

}  // namespace

std::string_view pooling_type_name(PoolingType type) noexcept {
  switch (type) {
    case PoolingType::last:
      return "LAST";
    case PoolingType::cls:
      return "CLS";
    case PoolingType::mean:
      break;
  }
  return "MEAN";
}

std::optional<PoolingConfig> load_pooling_config(const ModelDirectory& directory) {
  if (!directory.contains("modules.json")) return std::nullopt;
  const std::string modules_path = directory.path_of("modules.json");
  const Json modules =
      parse_modules(directory.read_text("modules.json", kMaxFileBytes), modules_path);
  std::optional<PoolingConfig> config;
  bool normalizes = false;
  for (const Json& module : modules) {
    normalizes = normalizes || is_module(module, ".Normalize");
    if (!is_module(module, ".Pooling")) continue;
    const std::string folder = ConfigReader(module, modules_path).string("path").value_or("");
    const ModelDirectory of_pooling = directory.folder(folder);
    const std::string path = of_pooling.path_of("config.json");
    const Json document =
        parse_json_file(of_pooling.read_text("config.json", kMaxFileBytes), path, "E_CONFIG");
    config = PoolingConfig{.type = read_pooling_type(ConfigReader(document, path))};
  }
  if (config) config->normalizes = normalizes;
  return config;
}

PoolingConfig default_pooling_config(const ModelConfig& config) noexcept {
  return {.type = config.is_encoder ? PoolingType::cls : PoolingType::last};
}

}  // namespace reprise::weights
