#include "reprise/server/openai/structured_fields.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

using structured_output::OutputSpec;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A schema, given as an object or as JSON text.
OutputSpec schema_spec(const Json& schema, std::string_view field) {
  if (!schema.is_object() && !schema.is_string() && !schema.is_boolean()) {
    refuse_type(field, "a JSON schema", schema);
  }
  return {.kind = OutputSpec::Kind::json_schema, .text = text_of(schema)};
}

Json parse_schema(const std::string& text, std::string_view field) {
  try {
    return parse_json(text, "schema");
  } catch (const InvalidArgument& error) {
    throw ApiError(400, error.what(), std::string(field));
  }
}

/// Objects of the schema that name properties get additionalProperties: false, unless they set it.
/// Source: vLLM's disable_additional_properties.
void close_objects(Json& schema) {
  if (!schema.is_structured()) return;
  for (Json& part : schema) close_objects(part);
  const bool names_properties =
      schema.is_object() && (schema.contains("properties") || schema.contains("patternProperties"));
  if (names_properties && !schema.contains("additionalProperties")) {
    schema["additionalProperties"] = false;
  }
}

std::string text_field(const Json& value, std::string_view field) {
  if (!value.is_string()) refuse_type(field, "a string", value);
  return value.get<std::string>();
}

OutputSpec choice_spec(const Json& choices, std::string_view field) {
  if (!choices.is_array()) refuse_type(field, "an array of strings", choices);
  OutputSpec spec{.kind = OutputSpec::Kind::choice};
  for (const Json& choice : choices) spec.choices.push_back(text_field(choice, field));
  return spec;
}

OutputSpec of_kind(std::string_view kind, const Json& value, std::string_view field) {
  if (kind == "json") return schema_spec(value, field);
  if (kind == "choice") return choice_spec(value, field);
  if (kind == "regex") return {.kind = OutputSpec::Kind::regex, .text = text_field(value, field)};
  if (kind == "grammar")
    return {.kind = OutputSpec::Kind::grammar, .text = text_field(value, field)};
  return {.kind = OutputSpec::Kind::structural_tag, .text = text_of(value)};
}

std::optional<AskedOutput> of_response_format(const RequestFields& fields) {
  constexpr const char* field = "response_format";
  const Json* format = fields.find(field);
  if (format == nullptr) return {};
  if (!format->is_object()) refuse_type(field, "an object", *format);
  const RequestFields inner = fields.nested(field, *format);
  const std::optional<std::string> type = inner.text("type");
  if (!type) throw ApiError(400, "response_format needs a type.", field);
  if (*type == "text") return {};
  if (*type == "json_object") return AskedOutput{{.kind = OutputSpec::Kind::json_object}, field};
  if (*type == "structural_tag") {
    for (const char* name : {"format", "structures", "triggers"}) (void)inner.find(name);
    return AskedOutput{{.kind = OutputSpec::Kind::structural_tag, .text = format->dump()}, field};
  }
  if (*type != "json_schema") {
    throw ApiError(400,
                   "response_format.type must be text, json_object, json_schema or structural_tag.",
                   field);
  }
  const Json* body = inner.find("json_schema");
  if (body == nullptr || !body->is_object()) {
    throw ApiError(400, "response_format of type json_schema needs the object json_schema.", field);
  }
  const RequestFields schema_fields = fields.nested("response_format.json_schema", *body);
  schema_fields.check_boolean("strict", true);
  const Json* schema = schema_fields.find("schema");
  if (schema == nullptr) throw ApiError(400, "response_format.json_schema needs a schema.", field);
  return AskedOutput{schema_spec(*schema, field), field};
}

std::optional<AskedOutput> of_structured_outputs(const RequestFields& fields) {
  constexpr const char* field = "structured_outputs";
  const Json* asked = fields.find(field);
  if (asked == nullptr) return {};
  if (!asked->is_object()) refuse_type(field, "an object", *asked);
  const RequestFields inner = fields.nested(field, *asked);
  std::vector<OutputSpec> specs;
  for (const std::string_view kind : {"json", "regex", "choice", "grammar", "structural_tag"}) {
    if (const Json* value = inner.find(kind)) specs.push_back(of_kind(kind, *value, field));
  }
  if (inner.boolean("json_object").value_or(false))
    specs.push_back({.kind = OutputSpec::Kind::json_object});
  if (specs.size() != 1) {
    throw ApiError(
        400,
        "structured_outputs needs exactly one of json, regex, choice, grammar, json_object and "
        "structural_tag.",
        field);
  }
  specs[0].any_whitespace = !inner.boolean("disable_any_whitespace").value_or(false);
  if (specs[0].kind == OutputSpec::Kind::json_schema &&
      inner.boolean("disable_additional_properties").value_or(false)) {
    Json schema = parse_schema(specs[0].text, field);
    close_objects(schema);
    specs[0].text = schema.dump();
  }
  if (inner.find("whitespace_pattern") != nullptr) {
    refuse_unsupported(field, "`structured_outputs.whitespace_pattern`");
  }
  return AskedOutput{std::move(specs[0]), field};
}

}  // namespace

std::optional<AskedOutput> read_asked_output(const RequestFields& fields) {
  std::vector<AskedOutput> asked;
  if (auto format = of_response_format(fields)) asked.push_back(std::move(*format));
  if (auto outputs = of_structured_outputs(fields)) asked.push_back(std::move(*outputs));
  for (const std::string kind : {"json", "regex", "choice", "grammar"}) {
    const std::string field = "guided_" + kind;
    if (const Json* value = fields.find(field))
      asked.push_back({of_kind(kind, *value, field), field});
  }
  if (asked.size() > 1) {
    throw ApiError(400,
                   fmt::format("`{}` and `{}` both say what the answer looks like; give one.",
                               asked[0].field,
                               asked[1].field),
                   asked[1].field);
  }
  if (asked.empty()) return {};
  return std::move(asked[0]);
}

}  // namespace reprise::server
