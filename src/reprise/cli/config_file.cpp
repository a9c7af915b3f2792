#include "reprise/cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::cli {
namespace {

// Configurations are written by hand; a larger file is a mistake.
constexpr size_t kMaxBytes = size_t{1} << 20;
// Aliases can make a short file describe a huge value.
constexpr int kMaxNodes = 10'000;
constexpr int kMaxDepth = 32;

// The words for which PyYAML, with which vLLM reads its files, gives a boolean.
std::optional<bool> boolean_of(const YAML::Node& node) {
  if (!node.IsScalar() || node.Tag() == "!") return {};
  constexpr auto kTrue = std::to_array<std::string_view>(
      {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"});
  constexpr auto kFalse = std::to_array<std::string_view>(
      {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"});
  if (std::ranges::find(kTrue, node.Scalar()) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, node.Scalar()) != kFalse.end()) return false;
  return {};
}

class ConfigReader {
 public:
  ConfigReader(const OptionTable& table, std::string_view file_name)
      : table_(table), file_name_(file_name) {}

  std::vector<Assignment> read(std::string_view text);

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view reason) const {
    throw InvalidArgument(fmt::format("{}:{}: {}", file_name_, mark.line + 1, reason));
  }
  void read_entry(const YAML::Node& key, const YAML::Node& value);
  void give(const Option& option, const YAML::Node& value);
  [[nodiscard]] Json to_json(const YAML::Node& node, int depth);
  [[nodiscard]] static Json scalar_to_json(const YAML::Node& node);

  const OptionTable& table_;
  std::string_view file_name_;
  std::set<std::string> seen_;
  std::vector<Assignment> assignments_;
  int num_nodes_ = 0;
};

std::vector<Assignment> ConfigReader::read(std::string_view text) {
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    fail(error.mark, fmt::format("not YAML: {}", error.msg));
  }
  if (root.IsNull()) return {};
  if (!root.IsMap()) fail(root.Mark(), "expected 'option: value' lines, got something else");
  for (const auto& entry : root) read_entry(entry.first, entry.second);
  return std::move(assignments_);
}

void ConfigReader::read_entry(const YAML::Node& key, const YAML::Node& value) {
  if (!key.IsScalar()) fail(key.Mark(), "a key must be the long name of an option");
  const std::string& name = key.Scalar();
  const Option* option = table_.find(name);
  if (option == nullptr) {
    fail(key.Mark(), fmt::format("unknown option '{}'{}", name, table_.suggestion(name)));
  }
  if (option->name == "config" || option->name == "dump-config") {
    fail(key.Mark(), fmt::format("'{}' only works on the command line", name));
  }
  if (!seen_.insert(option->name).second) {
    fail(key.Mark(), fmt::format("'{}' was given before in this file", name));
  }
  if (value.IsNull()) {
    fail(key.Mark(), fmt::format("'{}' has no value; leave the line out for the default", name));
  }
  // A list repeats the option, unless the option's value is itself a JSON list.
  const bool is_one_value = option->value_name == "JSON" && !option->apply_dotted;
  if (value.IsSequence() && !is_one_value) {
    if (value.size() == 0) fail(value.Mark(), fmt::format("'{}' is an empty list", name));
    for (const YAML::Node& item : value) give(*option, item);
    return;
  }
  give(*option, value);
}

void ConfigReader::give(const Option& option, const YAML::Node& value) {
  std::string text;
  if (const auto boolean = boolean_of(value); boolean && option.value_name.empty()) {
    text = *boolean ? "true" : "false";
  } else if (value.IsScalar()) {
    text = value.Scalar();
  } else if (!option.value_name.empty() && (value.IsMap() || option.value_name == "JSON")) {
    text = to_json(value, 0).dump();
  } else {
    fail(value.Mark(),
         fmt::format("'{}' takes a single value ({})", option.name, option.value_name));
  }
  assignments_.push_back({.option = &option,
                          .value = std::move(text),
                          .source = Source::config_file,
                          .where = fmt::format("{}:{}", file_name_, value.Mark().line + 1)});
}

Json ConfigReader::to_json(const YAML::Node& node, int depth) {
  if (++num_nodes_ > kMaxNodes || depth > kMaxDepth) fail(node.Mark(), "too large a value");
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail(entry.first.Mark(), "a key must be text");
      object[entry.first.Scalar()] = to_json(entry.second, depth + 1);
    }
    return object;
  }
  if (node.IsSequence()) {
    Json array = Json::array();
    for (const YAML::Node& item : node) array.push_back(to_json(item, depth + 1));
    return array;
  }
  return scalar_to_json(node);
}

// YAML's core schema, with the booleans of PyYAML: quoted text stays text.
Json ConfigReader::scalar_to_json(const YAML::Node& node) {
  if (node.IsNull()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (const auto boolean = boolean_of(node)) return *boolean;
  const char* const end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, integer);
      error == std::errc{} && rest == end) {
    return integer;
  }
  double number = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, number);
      error == std::errc{} && rest == end && std::isfinite(number)) {
    return number;
  }
  return text;
}

}  // namespace

std::vector<Assignment> parse_config(const OptionTable& table,
                                     std::string_view text,
                                     std::string_view file_name) {
  if (text.size() > kMaxBytes) {
    throw InvalidArgument(
        fmt::format("{}: {} bytes are too many for a configuration; at most {} are read",
                    file_name,
                    text.size(),
                    kMaxBytes));
  }
  return ConfigReader(table, file_name).read(text);
}

std::vector<Assignment> read_config_file(const OptionTable& table,
                                         const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const bool exists = std::filesystem::exists(path, ignored);
    throw InvalidArgument(
        fmt::format("--config: {}: {}", path.string(), exists ? "is not a file" : "no such file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InvalidArgument(fmt::format("--config: {}: cannot be read", path.string()));
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_config(table, text, path.string());
}

std::string to_yaml_scalar(std::string_view text) {
  constexpr std::string_view kPlain = "_./+";
  const bool is_plain = !text.empty() &&
                        std::all_of(text.begin(),
                                    text.end(),
                                    [kPlain](char c) {
                                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                             (c >= '0' && c <= '9') ||
                                             kPlain.find(c) != std::string_view::npos || c == '-';
                                    }) &&
                        text[0] != '-' && text[0] != '.' && text != "null" && text != "Null" &&
                        text != "NULL";
  if (is_plain) return std::string(text);
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace reprise::cli
