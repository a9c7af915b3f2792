#include "reprise/config/wrong_type.h"

#include <fmt/format.h>

#include <string>

#include "reprise/base/error.h"

namespace reprise::config {
namespace {

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongestShown = 60;
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  return fmt::format("{} {}", value.type_name(), text);
}

}  // namespace

void throw_wrong_type(std::string_view field, std::string_view expected, const Json& got) {
  throw InvalidArgument(fmt::format("{}: expected {}, got {}", field, expected, shown(got)));
}

}  // namespace reprise::config
