#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

namespace reprise {

using Json = nlohmann::ordered_json;

/// Limits on the memory and the nesting of a hostile document.
struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  int max_depth = 64;
  // Members of objects, arrays and objects together. A short document can hold very many parts
  // ("[],[],..."), and each part takes some hundred bytes of memory.
  size_t max_parts = std::numeric_limits<size_t>::max();
};

/// Parses RFC 8259 JSON strictly: UTF-8 only, no byte-order mark, no repeated member name, no
/// trailing bytes, depth and size limited. Member order is kept.
/// \throws InvalidArgument with the byte offset and the reason; `where` names the document.
[[nodiscard]] Json parse_json(std::string_view text,
                              std::string_view where,
                              const JsonLimits& limits = {});

}  // namespace reprise
