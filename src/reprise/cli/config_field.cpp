#include "reprise/cli/config_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/python_literal.h"

namespace reprise::cli {

std::string ConfigField::text() const {
  if (!value.is_string()) refuse("a text");
  return value.get<std::string>();
}

bool ConfigField::boolean() const {
  if (!value.is_boolean()) refuse("true or false");
  return value.get<bool>();
}

int64_t ConfigField::number(int64_t least, int64_t most) const {
  if (!value.is_number_integer() || value < least || value > most) {
    refuse(fmt::format("a number from {} to {}", least, most));
  }
  return value.get<int64_t>();
}

size_t ConfigField::one_of(std::span<const std::string_view> words) const {
  const auto found = std::ranges::find_if(
      words, [this](std::string_view word) { return value.is_string() && value == word; });
  if (found == words.end()) refuse(fmt::format("one of {}", fmt::join(words, ", ")));
  return static_cast<size_t>(found - words.begin());
}

void ConfigField::refuse(std::string_view expected) const {
  throw InvalidArgument(fmt::format("{}: {} is {}, got {}",
                                    flag,
                                    name,
                                    expected,
                                    value.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void ConfigField::refuse_name(std::span<const std::string_view> known) const {
  throw InvalidArgument(
      fmt::format("{}: there is no field '{}'{}", flag, name, did_you_mean(name, known)));
}

Option json_config_option(Option option,
                          std::function<void(const ConfigField&)> assign,
                          std::function<Json()> to_json) {
  option.value_name = "JSON";
  const std::string flag = "--" + option.name;
  option.apply_dotted = [flag, assign](std::string_view path, std::string_view text) {
    const Json value = parse_json_or_text(text, flag);
    assign({.flag = flag, .name = path, .value = value});
  };
  option.apply = [flag, assign = std::move(assign)](std::string_view text) {
    const Json document = parse_json_or_python(text, flag);
    if (document.is_null()) return;
    if (!document.is_object()) {
      throw InvalidArgument(fmt::format("{}: expected a JSON object, got {}", flag, text));
    }
    for (const auto& [name, value] : document.items()) {
      assign({.flag = flag, .name = name, .value = value});
    }
  };
  option.merged = [to_json = std::move(to_json)] { return to_json().dump(); };
  return option;
}

}  // namespace reprise::cli
