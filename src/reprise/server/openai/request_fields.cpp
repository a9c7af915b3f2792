#include "reprise/server/openai/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "reprise/base/error.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

// The nesting limit is above the depth of any chat message and far below the depth that overflows
// the stack.
constexpr int kMaxDepth = 64;
// Far more than tools, messages and schemas of real requests have.
constexpr size_t kMaxParts = 200'000;
// Token ids: 1024 prompts of 2048.
constexpr size_t kMaxNumbers = size_t{1} << 21;
constexpr JsonLimits kLimits{.max_bytes = std::numeric_limits<size_t>::max(),
                             .max_depth = kMaxDepth};

std::string_view type_of(const Json& json) {
  if (json.is_number_float()) return "a number with a fraction or exponent";
  if (json.is_number()) return "an integer";
  if (json.is_string()) return "a string";
  if (json.is_array()) return "an array";
  if (json.is_object()) return "an object";
  if (json.is_boolean()) return "a boolean";
  return "null";
}

bool fits_int64(const Json& json) {
  return json.is_number_integer() &&
         (!json.is_number_unsigned() ||
          json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

}  // namespace

// No token ids are among these numbers, and a chat template makes a larger value of each.
JsonBudget budget_of_nested_texts() { return {.max_parts = kMaxParts, .max_numbers = kMaxParts}; }

Json parse_body(std::string_view body) {
  try {
    JsonBudget budget{.max_parts = kMaxParts, .max_numbers = kMaxNumbers};
    return parse_json(body, "request body", kLimits, budget);
  } catch (const InvalidArgument& error) {
    throw ApiError(400, error.what());
  }
}

Json parse_nested(const std::string& text, std::string_view where, JsonBudget& budget) {
  return parse_json(text, where, kLimits, budget);
}

void refuse_type(std::string_view field, std::string_view expected, const Json& found) {
  throw ApiError(400,
                 fmt::format("{} must be {}, but is {}.", field, expected, type_of(found)),
                 std::string(field));
}

void refuse_unsupported(std::string_view field, std::string_view what) {
  throw ApiError(400,
                 fmt::format("{} is not supported by this server.",
                             what.empty() ? fmt::format("`{}`", field) : std::string(what)),
                 std::string(field));
}

RequestFields::RequestFields(const Json& json) : json_(&json) {
  if (!json.is_object()) throw ApiError(400, "The request body must be a JSON object.");
  if (json.size() > size_t{kMaxMembers}) {
    throw ApiError(400, fmt::format("The request body has more than {} members.", kMaxMembers));
  }
}

const Json* RequestFields::find(std::string_view name) const {
  const auto found = json_->find(std::string(name));
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> RequestFields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) refuse_type(name, "a boolean", *value);
  return value->get<bool>();
}

std::optional<int64_t> RequestFields::integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!fits_int64(*value)) refuse_type(name, "an integer of 64 bits", *value);
  return value->get<int64_t>();
}

std::optional<int> RequestFields::int32(std::string_view name) const {
  const std::optional<int64_t> value = integer(name);
  if (!value) return {};
  if (*value < std::numeric_limits<int>::min() || *value > std::numeric_limits<int>::max()) {
    throw ApiError(
        400, fmt::format("{} is {}, which is out of range.", name, *value), std::string(name));
  }
  return static_cast<int>(*value);
}

std::optional<float> RequestFields::number(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_number()) refuse_type(name, "a number", *value);
  const auto number = value->get<float>();
  // The value as it was sent: what it becomes in 32 bits would be infinite.
  if (!std::isfinite(number)) {
    throw ApiError(400,
                   fmt::format("{} is {}, which is out of range.", name, value->dump()),
                   std::string(name));
  }
  return number;
}

std::optional<std::string> RequestFields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) refuse_type(name, "a string", *value);
  return value->get<std::string>();
}

std::vector<std::string> RequestFields::texts(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse_type(name, "a string or an array of strings", *value);
  std::vector<std::string> found;
  for (const Json& item : *value) {
    if (!item.is_string()) refuse_type(name, "a string or an array of strings", item);
    found.push_back(item.get<std::string>());
  }
  return found;
}

std::vector<int32_t> RequestFields::token_ids(std::string_view name, size_t max_count) const {
  const Json* value = find(name);
  return value == nullptr ? std::vector<int32_t>{} : read_token_ids(*value, name, max_count);
}

std::vector<int32_t> read_token_ids(const Json& json, std::string_view field, size_t max_count) {
  if (!json.is_array()) refuse_type(field, "an array of token ids", json);
  if (json.size() > max_count) {
    throw ApiError(
        400,
        fmt::format("{} has {} entries; at most {} are allowed.", field, json.size(), max_count),
        std::string(field));
  }
  std::vector<int32_t> ids;
  ids.reserve(json.size());
  for (const Json& item : json) {
    if (!fits_int64(item)) refuse_type(field, "an array of token ids", item);
    const auto id = item.get<int64_t>();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), std::string(field));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace reprise::server
