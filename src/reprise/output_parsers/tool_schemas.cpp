#include "reprise/output_parsers/tool_schemas.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {
namespace {

/// A set of JSON types, as bits. A text is tried as each type in the order of the bits.
using TypeSet = uint8_t;
enum : uint8_t {
  kNull = 1,
  kInteger = 2,
  kNumber = 4,
  kBoolean = 8,
  kObject = 16,
  kArray = 32,
  kString = 64,
};

const Json* member(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  return lower;
}

/// The type that this name means in a schema. Tools that are not made from JSON schemas use other
/// names.
TypeSet type_of_name(std::string_view name) {
  struct Named {
    TypeSet type;
    std::string_view name;
  };
  static constexpr auto kNames = std::to_array<Named>({
      {kNull, "null"},       {kInteger, "integer"}, {kInteger, "int"},      {kInteger, "int32"},
      {kInteger, "int64"},   {kInteger, "uint"},    {kInteger, "uint32"},   {kInteger, "uint64"},
      {kInteger, "long"},    {kInteger, "short"},   {kInteger, "unsigned"}, {kNumber, "number"},
      {kNumber, "float"},    {kNumber, "float32"},  {kNumber, "float64"},   {kNumber, "double"},
      {kBoolean, "boolean"}, {kBoolean, "bool"},    {kObject, "object"},    {kObject, "dict"},
      {kArray, "array"},     {kArray, "arr"},       {kArray, "list"},       {kArray, "sequence"},
      {kString, "string"},   {kString, "str"},      {kString, "text"},      {kString, "varchar"},
      {kString, "char"},     {kString, "enum"},
  });
  const std::string lower = lower_case(trimmed(name));
  for (const Named& named : kNames) {
    if (named.name == lower) return named.type;
  }
  return 0;
}

TypeSet type_of_value(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number_integer()) return kInteger;
  if (value.is_number()) return kNumber;
  if (value.is_array()) return kArray;
  return value.is_object() ? kObject : kString;
}

std::optional<Json> as_integer(std::string_view text) {
  std::string digits;
  for (const char c : trimmed(text)) {
    if (c != '_') digits += c;
  }
  if (digits.starts_with('+')) digits.erase(0, 1);
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value);
  return error == std::errc() && at == end && !digits.empty() ? std::optional<Json>(value)
                                                              : std::nullopt;
}

std::optional<Json> as_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size() || !std::isfinite(value)) return {};
  constexpr double kLargest = 9007199254740992.0;  // 2^53: beyond, a double is not exact
  if (value == std::trunc(value) && std::abs(value) <= kLargest)
    return Json(static_cast<int64_t>(value));
  return Json(value);
}

std::optional<Json> as_boolean(std::string_view text) {
  const std::string lower = lower_case(trimmed(text));
  if (lower == "true" || lower == "1") return Json(true);
  if (lower == "false" || lower == "0") return Json(false);
  return {};
}

/// The text as a value of this type, or nullopt if it is not one.
std::optional<Json> as_type(TypeSet type, const std::string& text) {
  if (type == kNull) return lower_case(text) == "null" ? std::optional<Json>(Json()) : std::nullopt;
  if (type == kInteger) return as_integer(text);
  if (type == kNumber) return as_number(text);
  if (type == kBoolean) return as_boolean(text);
  if (type == kString) return Json(text);
  std::optional<Json> json = json_of(trimmed(text));
  return json && type_of_value(*json) == type ? json : std::nullopt;
}

/// Gives the arguments of one call the types of the schema. The types of each schema are found only
/// once, however long an array is.
class Retyper {
 public:
  explicit Retyper(const Json& root) : root_(root) {}

  void retype(const Json& given, Json& value) {
    const Json& schema = resolved(given);
    if (value.is_object()) {
      if (const Json* properties = member(schema, "properties")) retype_members(*properties, value);
    } else if (value.is_array()) {
      const Json* items = member(schema, "items");
      if (items == nullptr || !items->is_object()) return;
      for (Json& item : value) retype(*items, item);
    } else {
      value =
          of_types(types_of(schema), value.is_string() ? value.get<std::string>() : compact(value));
    }
  }

  void retype_members(const Json& properties, Json& object) {
    for (auto& [name, value] : object.items()) {
      const Json* schema = member(properties, name);
      if (schema != nullptr && schema->is_object()) retype(*schema, value);
    }
  }

 private:
  static Json of_types(TypeSet types, const std::string& text) {
    for (TypeSet type = kNull; type <= kString; type = static_cast<TypeSet>(type << 1)) {
      if ((types & type) == 0) continue;
      if (std::optional<Json> value = as_type(type, text)) return *std::move(value);
    }
    if (std::optional<Json> value = json_of(trimmed(text))) return *std::move(value);
    return text;
  }

  TypeSet types_of(const Json& schema) {
    const auto [found, is_new] = types_.try_emplace(&schema, TypeSet{0});
    if (is_new) {
      std::set<const Json*> seen;
      found->second = find_types(schema, seen);
    }
    return found->second;
  }

  /// The types that a schema allows, by `type`, `enum` and alternatives; text if the schema names
  /// none.
  TypeSet find_types(const Json& given, std::set<const Json*>& seen) {
    const Json& schema = resolved(given);
    if (!seen.insert(&schema).second) return 0;  // a schema that is one of its own alternatives
    TypeSet types = 0;
    const auto add = [&types](TypeSet more) { types = static_cast<TypeSet>(types | more); };
    if (const Json* type = member(schema, "type")) {
      if (type->is_string()) add(type_of_name(type->get_ref<const std::string&>()));
      if (type->is_array()) {
        for (const Json& one : *type) {
          if (one.is_string()) add(type_of_name(one.get_ref<const std::string&>()));
        }
      }
    }
    if (const Json* values = member(schema, "enum"); values && values->is_array()) {
      for (const Json& value : *values) add(type_of_value(value));
    }
    for (const char* choice : {"anyOf", "oneOf", "allOf"}) {
      if (const Json* schemas = member(schema, choice); schemas && schemas->is_array()) {
        for (const Json& one : *schemas) add(find_types(one, seen));
      }
    }
    return types == 0 ? TypeSet{kString} : types;
  }

  /// The schema that a chain of references ends at.
  const Json& resolved(const Json& schema) const {
    constexpr int kMaxReferences = 16;
    const Json* found = &schema;
    for (int i = 0; i < kMaxReferences; ++i) {
      const Json* reference = member(*found, "$ref");
      if (reference == nullptr || !reference->is_string()) break;
      const auto& text = reference->get_ref<const std::string&>();
      if (!text.starts_with("#/")) break;
      try {
        const Json::json_pointer pointer(text.substr(1));
        if (!root_.contains(pointer)) break;
        found = &root_.at(pointer);
      } catch (const Json::exception&) {  // the text after # is no pointer
        break;
      }
    }
    return *found;
  }

  const Json& root_;  // the parameters of the function: references are paths from here
  std::map<const Json*, TypeSet> types_;
};

}  // namespace

void ToolSchemas::retype(std::string_view function, Json& arguments) const {
  if (!tools_ || !tools_->is_array() || !arguments.is_object()) return;
  for (const Json& tool : *tools_) {
    const Json* described = member(tool, "function");
    const Json* name = described ? member(*described, "name") : nullptr;
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>() != function)
      continue;
    const Json* parameters = member(*described, "parameters");
    const Json* properties = parameters ? member(*parameters, "properties") : nullptr;
    if (properties != nullptr) Retyper(*parameters).retype_members(*properties, arguments);
    return;
  }
}

}  // namespace reprise::output_parsers
