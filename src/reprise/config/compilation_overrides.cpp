#include "reprise/config/compilation_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/python_literal.h"
#include "reprise/config/wrong_type.h"

namespace reprise::config {
namespace {

void append_to_list(Json& list, std::string_view field, std::string_view text) {
  if (list.is_null()) list = Json::array();
  if (!list.is_array()) throw_wrong_type(field, "a list to append to", list);
  if (Json value = parse_json_or_text(text, field); value.is_array()) {
    for (Json& element : value) list.push_back(std::move(element));
    return;
  }
  while (true) {
    const size_t comma = text.find(',');
    list.push_back(parse_json_or_text(text.substr(0, comma), field));
    if (comma == std::string_view::npos) return;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

void assign_compilation_field(Json& document, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InvalidArgument(
        fmt::format("compilation_config: expected <field>=<value>, got '{}'", assignment));
  }
  std::string_view path = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  const std::string field(path);
  const bool append = path.ends_with('+');
  if (append) path.remove_suffix(1);

  if (document.is_null()) document = Json::object();
  Json* node = &document;
  while (true) {
    if (!node->is_object()) throw_wrong_type(field, "an object on the way", *node);
    const size_t dot = path.find('.');
    std::string key(path.substr(0, dot));
    std::replace(key.begin(), key.end(), '-', '_');
    if (key.empty()) {
      throw InvalidArgument(
          fmt::format("compilation_config: empty name in the path of '{}'", assignment));
    }
    node = &(*node)[key];
    if (dot == std::string_view::npos) break;
    if (node->is_null()) *node = Json::object();
    path.remove_prefix(dot + 1);
  }
  if (append) {
    append_to_list(*node, field, text);
  } else {
    *node = parse_json_or_text(text, field);
  }
}

void merge_compilation_json(Json& document, const Json& overrides) {
  if (!document.is_object() || !overrides.is_object()) {
    document = overrides;
    return;
  }
  for (const auto& [key, value] : overrides.items()) {
    if (value.is_object() && document.contains(key)) {
      merge_compilation_json(document[key], value);
    } else {
      document[key] = value;
    }
  }
}

}  // namespace reprise::config
