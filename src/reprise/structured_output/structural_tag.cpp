#include "reprise/structured_output/structural_tag.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/structured_output/json_schema.h"
#include "reprise/structured_output/regex_dialect.h"

namespace reprise::structured_output {
namespace {

void check_triggers(const Json& triggers) {
  const bool is_list =
      triggers.is_array() && !triggers.empty() &&
      std::ranges::all_of(triggers, [](const Json& trigger) {
        return trigger.is_string() && !trigger.get_ref<const std::string&>().empty();
      });
  if (!is_list) throw InvalidArgument("`triggers` must be a list of texts that are not empty");
}

void normalise_format(Json& format) {
  if (format.is_array()) {
    for (Json& item : format) normalise_format(item);
    return;
  }
  if (!format.is_object()) return;
  const std::string type = format.contains("type") && format["type"].is_string()
                               ? format["type"].get<std::string>()
                               : "";
  if (type == "grammar")
    throw InvalidArgument("a grammar inside a structural tag is not supported");
  for (auto& [name, value] : format.items()) {
    if (name == "json_schema") {
      value = normalise_schema(value);
    } else if (name == "pattern" && value.is_string()) {
      value = normalise_regex(value.get<std::string>(), PatternContext::plain).text;
    } else if (name == "triggers") {
      check_triggers(value);
    } else {
      normalise_format(value);
    }
  }
}

Json from_structures(const Json& tag) {
  if (!tag["structures"].is_array() || !tag.contains("triggers")) {
    throw InvalidArgument(
        "a structural tag needs `format`, or an array `structures` and `triggers`");
  }
  Json tags = Json::array();
  for (const Json& structure : tag["structures"]) {
    if (!structure.is_object() || !structure.contains("begin") || !structure.contains("end")) {
      throw InvalidArgument("every entry of `structures` needs begin, schema and end");
    }
    tags.push_back(
        {{"begin", structure["begin"]},
         {"content",
          {{"type", "json_schema"}, {"json_schema", structure.value("schema", Json::object())}}},
         {"end", structure["end"]}});
  }
  return {{"type", "structural_tag"},
          {"format",
           {{"type", "triggered_tags"}, {"triggers", tag["triggers"]}, {"tags", std::move(tags)}}}};
}

}  // namespace

Json normalise_structural_tag(const Json& tag) {
  if (!tag.is_object()) throw InvalidArgument("a structural tag must be an object");
  Json normal = tag.contains("structures") ? from_structures(tag) : tag;
  if (!normal.contains("format")) throw InvalidArgument("a structural tag needs `format`");
  normalise_format(normal["format"]);
  return normal;
}

}  // namespace reprise::structured_output
