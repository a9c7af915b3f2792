#include "reprise/api/loading/sleep.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::api {

EngineParts parse_engine_parts(std::span<const std::string> tags) {
  if (tags.empty()) return EngineParts::all();
  EngineParts parts;
  for (const std::string& tag : tags) {
    if (tag == "weights") {
      parts.weights = true;
    } else if (tag == "kv_cache") {
      parts.kv_cache = true;
    } else if (tag == "scheduling") {
      parts.scheduling = true;
    } else {
      throw InvalidArgument(
          fmt::format("tags: '{}' is not one of weights, kv_cache and scheduling", tag));
    }
  }
  return parts;
}

}  // namespace reprise::api
