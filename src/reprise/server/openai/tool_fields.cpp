#include "reprise/server/openai/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/visible_text.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

[[noreturn]] void refuse_tools(std::string_view why) {
  throw ApiError(400, std::string(why), "tools");
}

const Json& function_of(const Json& tool) {
  if (!tool.is_object()) refuse_type("tools", "an array of objects", tool);
  const Json type = tool.value("type", Json("function"));
  if (type == "custom") {
    refuse_unsupported("tools",
                       "A tool of type custom",
                       "Tools of type function are: write it as a function with one parameter of "
                       "type string.");
  }
  if (type != "function") refuse_tools("Every tool needs the type function.");
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object())
    refuse_tools("Every tool needs a function.");
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string() ||
      name->get_ref<const std::string&>().empty()) {
    refuse_tools("Every function needs a name.");
  }
  if (!is_visible_text(name->get_ref<const std::string&>())) {
    refuse_tools(fmt::format(
        "The name of a function has a character that cannot be shown: '{}'; use letters, digits, "
        "_ and -.",
        visible_text(name->get_ref<const std::string&>())));
  }
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_object() && !parameters->is_null()) {
    refuse_type("tools", "the parameters of a function as a JSON schema", *parameters);
  }
  return *function;
}

Json read_tools(const RequestFields& fields) {
  const Json* tools = fields.find("tools");
  if (tools == nullptr) return Json::array();
  if (!tools->is_array()) refuse_type("tools", "an array", *tools);
  if (tools->size() > kMaxTools) {
    refuse_tools(
        fmt::format("tools has {} entries; at most {} are allowed.", tools->size(), kMaxTools));
  }
  std::unordered_set<std::string_view> names;
  for (const Json& tool : *tools) {
    const std::string& name = function_of(tool)["name"].get_ref<const std::string&>();
    if (!names.insert(name).second) {
      refuse_tools(fmt::format("Two functions have the name '{}'.", visible_text(name)));
    }
  }
  if (dump(*tools).size() > kMaxToolBytes) {
    refuse_tools(fmt::format("tools has more than {} bytes.", kMaxToolBytes));
  }
  Json read = *tools;
  for (Json& tool : read) tool["type"] = "function";  // the type may be absent
  return read;
}

const Json* find_function(const Json& tools, const std::string& name) {
  const auto found = std::find_if(tools.begin(), tools.end(), [&name](const Json& tool) {
    return tool["function"]["name"] == name;
  });
  return found == tools.end() ? nullptr : &(*found)["function"];
}

[[noreturn]] void refuse_choice(std::string_view why) {
  throw ApiError(400, std::string(why), "tool_choice");
}

/// Keeps only the tools that the request allows with {"mode": "auto" or "required", "tools":
/// [...]}. The model cannot call tools that it does not see. Returns the mode.
Json read_allowed_tools(const Json& allowed, ToolUse& use) {
  const Json listed = allowed.is_object() ? allowed.value("tools", Json()) : Json();
  const Json mode = allowed.is_object() ? allowed.value("mode", Json()) : Json();
  if (!listed.is_array() || listed.empty() || (mode != "auto" && mode != "required")) {
    refuse_choice(
        "tool_choice.allowed_tools must be {\"mode\": \"auto\" or \"required\", \"tools\": "
        "[...]}.");
  }
  Json kept = Json::array();
  for (const Json& tool : listed) {
    const std::string name = function_of(tool)["name"].get<std::string>();
    const auto found = std::find_if(use.tools.begin(), use.tools.end(), [&name](const Json& one) {
      return one["function"]["name"] == name;
    });
    if (found == use.tools.end()) {
      refuse_choice(
          fmt::format("The tool `{}` of tool_choice is not in tools.", name.substr(0, 256)));
    }
    kept.push_back(*found);
  }
  use.tools = std::move(kept);
  return mode;
}

void read_choice(const Json& choice, ToolUse& use) {
  if (choice == "none") return;
  if (use.tools.empty()) refuse_choice("`tool_choice` needs `tools`.");
  if (choice == "auto") {
    use.choice = ToolUse::Choice::automatic;
  } else if (choice == "required") {
    use.choice = ToolUse::Choice::required;
  } else if (choice.is_object() && choice.value("type", Json()) == "allowed_tools") {
    read_choice(read_allowed_tools(choice.value("allowed_tools", Json()), use), use);
  } else if (choice.is_object()) {
    const auto function = choice.find("function");
    const bool is_named = choice.value("type", Json("function")) == "function" &&
                          function != choice.end() && function->is_object() &&
                          function->value("name", Json()).is_string();
    if (!is_named) {
      refuse_choice(
          "tool_choice must be {\"type\": \"function\", \"function\": {\"name\": ...}}, or of type "
          "allowed_tools.");
    }
    use.name = (*function)["name"].get<std::string>();
    if (find_function(use.tools, use.name) == nullptr) {
      refuse_choice(
          fmt::format("The tool `{}` of tool_choice is not in tools.", use.name.substr(0, 256)));
    }
    use.choice = ToolUse::Choice::named;
  } else {
    refuse_choice("tool_choice must be none, auto, required, a named function or allowed_tools.");
  }
}

Json parameters_of(const Json& function) {
  const Json parameters = function.value("parameters", Json());
  // The arguments of a call are always an object, even if the schema does not say so.
  if (parameters.is_null() || parameters.empty())
    return {{"type", "object"}, {"properties", Json::object()}};
  return parameters;
}

/// Rewrites the references inside a schema after it was moved to `place`.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_array()) {
    for (Json& item : schema) move_references(item, place);
  } else if (schema.is_object()) {
    for (auto& [name, value] : schema.items()) {
      if (name == "$ref" && value.is_string() &&
          value.get_ref<const std::string&>().starts_with('#')) {
        value = "#" + place + value.get<std::string>().substr(1);
      } else {
        move_references(value, place);
      }
    }
  }
}

Json array_of_calls(const ToolUse& use) {
  Json calls = Json::array();
  Json definitions = Json::object();
  for (size_t i = 0; i < use.tools.size(); ++i) {
    const Json& function = use.tools[i]["function"];
    const std::string name = fmt::format("tool{}", i);
    definitions[name] = parameters_of(function);
    move_references(definitions[name], "/$defs/" + name);
    calls.push_back(
        {{"type", "object"},
         {"properties",
          {{"name", {{"const", function["name"]}}}, {"parameters", {{"$ref", "#/$defs/" + name}}}}},
         {"required", Json::array({"name", "parameters"})}});
  }
  Json schema = {{"type", "array"},
                 {"minItems", 1},
                 {"items", {{"anyOf", std::move(calls)}}},
                 {"$defs", definitions}};
  if (!use.parallel) schema["maxItems"] = 1;
  return schema;
}

}  // namespace

ToolUse read_tool_use(const RequestFields& fields) {
  ToolUse use{.tools = read_tools(fields)};
  const Json* choice = fields.find("tool_choice");
  if (choice != nullptr) {
    read_choice(*choice, use);
  } else if (!use.tools.empty()) {
    use.choice = ToolUse::Choice::automatic;
  }
  use.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  return use;
}

std::optional<AskedOutput> forced_call(const ToolUse& use) {
  if (!use.is_forced()) return {};
  const Json schema = use.choice == ToolUse::Choice::named
                          ? parameters_of(*find_function(use.tools, use.name))
                          : array_of_calls(use);
  return AskedOutput{{.kind = structured_output::OutputSpec::Kind::json_schema,
                      .text = schema.dump(),
                      .any_whitespace = false},
                     "tools"};
}

Json read_past_calls(const Json& calls, const std::string& place) {
  if (!calls.is_array()) refuse_type(place, "an array", calls);
  Json read = Json::array();
  for (const Json& call : calls) {
    const bool has_function = call.is_object() && call.contains("function") &&
                              call["function"].is_object() &&
                              call["function"].value("name", Json()).is_string();
    if (!has_function)
      throw ApiError(400, "Every entry of tool_calls needs a function with a name.", place);
    if (const Json type = call.value("type", Json()); !type.is_null() && type != "function")
      throw ApiError(400, "Entries of tool_calls must have the type function.", place);
    Json function = {{"name", call["function"]["name"]}};
    const Json arguments = call["function"].value("arguments", Json());
    if (!arguments.is_null() && !arguments.is_string() && !arguments.is_object())
      refuse_type(place, "arguments as JSON text or an object", arguments);
    function["arguments"] = arguments.is_null() ? Json("") : arguments;
    Json copy = {{"type", "function"}, {"function", std::move(function)}};
    if (call.contains("id") && call["id"].is_string()) copy["id"] = call["id"];
    read.push_back(std::move(copy));
  }
  return read;
}

}  // namespace reprise::server
