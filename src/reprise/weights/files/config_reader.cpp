#include "reprise/weights/files/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

std::string shown(const Json& value) { return visible(value.dump()); }

// Python's json module writes three numbers that JSON does not have. They are turned into strings,
// which a reader refuses where it needs a number.
std::string with_quoted_numbers(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNumbers = {"-Infinity", "Infinity", "NaN"};
  if (text.find("Infinity") == text.npos && text.find("NaN") == text.npos) return std::string(text);
  std::string quoted;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto* const number = std::ranges::find_if(
        kNumbers, [&](std::string_view name) { return rest.starts_with(name); });
    if (!is_in_string && number != kNumbers.end()) {
      quoted.append("\"").append(*number).append("\"");
      i += number->size();
      continue;
    }
    if (rest.front() == '"') is_in_string = !is_in_string;
    const size_t length = is_in_string && rest.front() == '\\' && rest.size() > 1 ? 2 : 1;
    quoted.append(rest.substr(0, length));
    i += length;
  }
  return quoted;
}

}  // namespace

Json parse_json_file(std::string_view text, std::string_view path, std::string_view code) {
  Json document;
  try {
    document = parse_json(with_quoted_numbers(text), "document");
  } catch (const InvalidArgument& error) {
    throw FileError(code, path, "", error.what());
  }
  if (!document.is_object()) throw FileError(code, path, "", "must be a JSON object");
  return document;
}

bool ConfigReader::has(std::string_view key) const {
  if (names_ != nullptr) names_->emplace(key);
  return object_.contains(key);
}

const Json* ConfigReader::find(std::string_view key) const {
  if (names_ != nullptr) names_->emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

int64_t ConfigReader::to_integer(std::string_view key,
                                 const Json& value,
                                 int64_t least,
                                 int64_t most) const {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    fail(key, fmt::format("must be an integer from {} to {}, got {}", least, most, shown(value)));
  }
  return value.get<int64_t>();
}

std::optional<int64_t> ConfigReader::integer(std::string_view key,
                                             int64_t least,
                                             int64_t most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return to_integer(key, *value, least, most);
}

int64_t ConfigReader::required_integer(std::string_view key, int64_t least, int64_t most) const {
  const std::optional<int64_t> value = integer(key, least, most);
  if (!value) fail(key, fmt::format("is required: an integer from {} to {}", least, most));
  return *value;
}

std::optional<double> ConfigReader::number(std::string_view key, double least, double most) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number =
      value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(number >= least && number <= most)) {
    fail(key, fmt::format("must be a number from {} to {}, got {}", least, most, shown(*value)));
  }
  return number;
}

std::optional<bool> ConfigReader::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(key, "must be true or false, got " + shown(*value));
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(key, "must be a string, got " + shown(*value));
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::integers(std::string_view key,
                                            int64_t least,
                                            int64_t most,
                                            size_t max_count) const {
  const Json* value = find(key);
  std::vector<int64_t> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    numbers.push_back(to_integer(key, *value, least, most));
    return numbers;
  }
  if (value->size() > max_count) fail(key, fmt::format("has more than {} entries", max_count));
  for (const Json& item : *value) numbers.push_back(to_integer(key, item, least, most));
  return numbers;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail(key, "must be an object, got " + shown(*value));
  return ConfigReader(*value, path_, fmt::format("{}{}.", prefix_, key));
}

void ConfigReader::fail(std::string_view key, std::string_view message) const {
  throw FileError("E_CONFIG", path_, fmt::format("{}{}", prefix_, key), message);
}

}  // namespace reprise::weights
