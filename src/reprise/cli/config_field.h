#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// One member of an option whose value is a JSON object. All functions throw InvalidArgument, which
/// names the option and the member, what was expected and what came.
struct ConfigField {
  std::string_view flag;  // "--kv-events-config"
  std::string_view name;
  const Json& value;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] int64_t number(int64_t least, int64_t most) const;
  /// The index of the member's value in `words`.
  [[nodiscard]] size_t one_of(std::span<const std::string_view> words) const;
  [[noreturn]] void refuse(std::string_view expected) const;
  [[noreturn]] void refuse_name(std::span<const std::string_view> known) const;
};

/// Completes an option that is given as JSON or member by member (--name.member value). `assign`
/// takes one member; `to_json` makes the whole value. null as the whole value means: as if the
/// option were not there.
[[nodiscard]] Option json_config_option(Option option,
                                        std::function<void(const ConfigField&)> assign,
                                        std::function<Json()> to_json);

}  // namespace reprise::cli
