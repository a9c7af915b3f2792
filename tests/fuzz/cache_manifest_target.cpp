#include <unordered_set>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/compile/cache/cache_manifest.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

void read(std::string_view text) {
  const compile::ManifestReading reading = compile::read_manifest(text);
  require(reading.manifest.has_value() || !reading.reason.empty(), "a refusal has a reason");
  if (!reading.manifest) return;
  require(compile::print_manifest(*reading.manifest) == text, "a manifest has only one spelling");
  std::unordered_set<std::string> names;
  for (const compile::ManifestFile& file : reading.manifest->files) {
    require(compile::is_stored_name(file.stored_name()),
            "files have names that stay in the folder");
    require(names.insert(file.name).second, "files have different names");
  }
}

/// Writes the right checksum: a random change breaks it, and the parser would not read on.
std::string with_checksum(std::string_view text) {
  const auto dump = [](const Json& json) {
    return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
  };
  Json json = parse_json(text, "manifest");
  if (!json.is_object()) return {};
  json.erase("checksum");
  std::string digits = "0000000000000000";
  uint64_t checksum = compile::cache_checksum(dump(json));
  for (size_t i = digits.size(); i-- > 0; checksum >>= 4)
    digits[i] = "0123456789abcdef"[checksum & 15];
  json["checksum"] = digits;
  return dump(json);
}

}  // namespace

void cache_manifest(std::string_view input) {
  read(input);
  try {
    read(with_checksum(input));
  } catch (const InvalidArgument&) {
    // The input is not JSON, so it has no checksum.
  }
}

}  // namespace reprise::fuzz
