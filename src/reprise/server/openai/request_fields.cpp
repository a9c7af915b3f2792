#include "reprise/server/openai/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/base/json_budget.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

// The nesting limit is above the depth of any chat message and far below the depth that overflows
// the stack.
constexpr int kMaxDepth = 64;
// Far more than the tools, messages and schemas of real requests have.
constexpr size_t kMaxParts = 200'000;
// Enough for 1024 prompts of 2048 token ids.
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

/// `text` without spaces around it and without a plus before it.
std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

/// The number, if the whole of `text` spells one.
template <typename Number>
std::optional<Number> spelled(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// The integer of "5", "+5" and "5.0".
std::optional<int64_t> spelled_integer(std::string_view text) {
  text = trimmed(text);
  const size_t point = text.find('.');
  if (point != std::string_view::npos && point + 1 < text.size() &&
      text.find_first_not_of('0', point + 1) == std::string_view::npos) {
    text = text.substr(0, point);
  }
  return spelled<int64_t>(text);
}

std::optional<int64_t> to_integer(const Json& json) {
  if (fits_int64(json)) return json.get<int64_t>();
  if (json.is_string()) return spelled_integer(json.get_ref<const std::string&>());
  if (!json.is_number_float()) return {};
  const auto value = json.get<double>();
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value != std::floor(value) || value < -kLimit || value >= kLimit) return {};
  return static_cast<int64_t>(value);
}

std::optional<bool> to_boolean(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) {
    if (json == 1) return true;
    return json == 0 ? std::optional(false) : std::nullopt;
  }
  if (!json.is_string()) return {};
  constexpr std::array<std::string_view, 6> kTrue = {"true", "yes", "on", "t", "y", "1"};
  constexpr std::array<std::string_view, 6> kFalse = {"false", "no", "off", "f", "n", "0"};
  const auto is_in = [&text = json.get_ref<const std::string&>()](const auto& words) {
    return std::any_of(words.begin(), words.end(), [&text](std::string_view word) {
      return equal_ignoring_case(text, word);
    });
  };
  if (is_in(kTrue)) return true;
  return is_in(kFalse) ? std::optional(false) : std::nullopt;
}

/// A client's name in a form that is safe in a header and in the log.
std::string shown_name(std::string_view name) {
  constexpr size_t kMaxBytes = 64;
  std::string shown(name.substr(0, kMaxBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c <= ' ' || c >= 0x7F || c == ','; }, '?');
  if (name.size() > kMaxBytes) shown += "...";
  return shown;
}

}  // namespace

Json parse_body(std::string_view body) {
  try {
    JsonBudget budget{.max_parts = kMaxParts, .max_numbers = kMaxNumbers};
    return parse_json(body, "request body", kLimits, budget);
  } catch (const InvalidArgument& error) {
    throw ApiError(400, error.what());
  }
}

void refuse_type(std::string_view field, std::string_view expected, const Json& found) {
  throw ApiError(400,
                 fmt::format("{} must be {}, but is {}.", field, expected, type_of(found)),
                 std::string(field));
}

void refuse_unsupported(std::string_view field, std::string_view what, std::string_view instead) {
  throw ApiError(400,
                 fmt::format("{} is not supported by this server.{}{}",
                             what.empty() ? fmt::format("`{}`", field) : std::string(what),
                             instead.empty() ? "" : " ",
                             instead),
                 std::string(field));
}

bool asks_for_nothing(const Json& value) {
  return value == false || value == "" || (value.is_structured() && value.empty());
}

std::optional<double> to_number(const Json& json) {
  std::optional<double> number;
  if (json.is_number()) number = json.get<double>();
  if (json.is_string()) number = spelled<double>(trimmed(json.get_ref<const std::string&>()));
  return number && std::isfinite(*number) ? number : std::nullopt;
}

struct RequestFields::Notes {
  struct Object {
    std::string_view path;
    const Json* json;
  };
  std::vector<Object> objects;
  std::vector<const Json*> read;
};

RequestFields::RequestFields(const Json& json)
    : RequestFields({}, json, std::make_shared<Notes>()) {}

RequestFields RequestFields::nested(std::string_view path, const Json& json) const {
  return {path, json, notes_};
}

RequestFields::RequestFields(std::string_view path, const Json& json, std::shared_ptr<Notes> notes)
    : json_(&json), notes_(std::move(notes)) {
  notes_->objects.push_back({path, json_});
  if (!json.is_object()) throw ApiError(400, "The request body must be a JSON object.");
  if (json.size() > size_t{kMaxMembers}) {
    throw ApiError(400, fmt::format("The request body has more than {} members.", kMaxMembers));
  }
}

std::vector<std::string> RequestFields::unused() const {
  std::vector<const Json*>& read = notes_->read;
  std::sort(read.begin(), read.end());
  std::vector<std::string> paths;
  std::set<std::string> seen;
  for (const Notes::Object& object : notes_->objects) {
    for (const auto& [name, value] : object.json->items()) {
      if (value.is_null() || std::binary_search(read.begin(), read.end(), &value)) continue;
      std::string path(object.path);
      path += path.empty() ? "" : ".";
      path += shown_name(name);
      if (!seen.insert(path).second) continue;
      paths.push_back(paths.size() == kMaxUnusedFields ? "..." : std::move(path));
      if (paths.size() > kMaxUnusedFields) return paths;
    }
  }
  return paths;
}

void RequestFields::check_boolean(std::string_view name, bool served) const {
  const std::optional<bool> value = boolean(name);
  if (value && *value != served) notes_->read.pop_back();  // find() has added it
}

const Json* RequestFields::find(std::string_view name) const {
  const auto found = json_->find(std::string(name));
  if (found == json_->end() || found->is_null()) return nullptr;
  notes_->read.push_back(&*found);
  return &*found;
}

std::optional<bool> RequestFields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  const std::optional<bool> boolean = to_boolean(*value);
  if (!boolean) refuse_type(name, "a boolean", *value);
  return boolean;
}

std::optional<int64_t> RequestFields::integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  const std::optional<int64_t> integer = to_integer(*value);
  if (!integer && value->is_number_integer()) {
    throw ApiError(400,
                   fmt::format("{} is {}, which is out of range.", name, value->dump()),
                   std::string(name));
  }
  if (!integer) refuse_type(name, "an integer of 64 bits", *value);
  return integer;
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
  const std::optional<double> number = to_number(*value);
  if (!number) refuse_type(name, "a number", *value);
  const auto narrow = static_cast<float>(*number);
  // The message quotes the value as it was sent: as a 32-bit number it would be infinite.
  if (!std::isfinite(narrow)) {
    throw ApiError(400,
                   fmt::format("{} is {}, which is out of range.", name, value->dump()),
                   std::string(name));
  }
  return narrow;
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

std::string required_text(const RequestFields& fields,
                          std::string_view name,
                          std::string_view place) {
  std::optional<std::string> text = fields.text(name);
  if (!text) {
    throw ApiError(400, fmt::format("Field required: {}.{}.", place, name), std::string(name));
  }
  return std::move(*text);
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
    const std::optional<int64_t> id = item.is_number() ? to_integer(item) : std::nullopt;
    if (!id) refuse_type(field, "an array of token ids", item);
    if (*id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      throw ApiError(
          400, fmt::format("Token id {} is out of vocabulary.", *id), std::string(field));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace reprise::server
