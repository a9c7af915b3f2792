#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"

/// Conversions that the JSON library lacks: an unset optional is null, a path is a text. Functions
/// that both write and read lists of members use them.
namespace reprise {

template <typename T>
void write_json(Json& json, const T& value) {
  json = value;
}
inline void write_json(Json& json, const std::filesystem::path& value) { json = value.string(); }
template <typename T>
void write_json(Json& json, const std::optional<T>& value) {
  json = nullptr;
  if (value) write_json(json, *value);
}
inline void write_json(Json& json, const std::vector<std::filesystem::path>& values) {
  json = Json::array();
  for (const std::filesystem::path& value : values) json.push_back(value.string());
}

/// \throws Json::exception for a wrong type
template <typename T>
void read_json(const Json& json, T& value) {
  json.get_to(value);
}
inline void read_json(const Json& json, std::filesystem::path& value) {
  value = json.get<std::string>();
}
template <typename T>
void read_json(const Json& json, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) read_json(json, value.emplace());
}
inline void read_json(const Json& json, std::vector<std::filesystem::path>& values) {
  values.clear();
  for (const Json& value : json) values.emplace_back(value.get<std::string>());
}
template <>
inline void read_json(const Json& json, Json& value) {
  value = json;
}

}  // namespace reprise
