#include "reprise/weights/config_overrides.h"

#include "reprise/weights/config_reader.h"

namespace reprise::weights {

std::string override_config(std::string_view text, std::string_view path, const Json& overrides) {
  if (overrides.empty()) return std::string(text);
  Json document = parse_json_file(text, path, "E_CONFIG");
  document.merge_patch(overrides);
  return document.dump();
}

}  // namespace reprise::weights
