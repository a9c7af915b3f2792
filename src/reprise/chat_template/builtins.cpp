#include "reprise/chat_template/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace reprise::chat_template {

Bound::Bound(Sandbox& sandbox, const Builtin& builtin, const Args& args) : raw_(&args) {
  if (builtin.params == "*") return;
  std::vector<std::string_view> names;
  for (std::string_view rest = builtin.params; !rest.empty();) {
    const size_t space = std::min(rest.find(' '), rest.size());
    names.push_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  if (args.positional.size() > names.size()) {
    sandbox.fail(fmt::format("{}() takes at most {} arguments, {} given",
                             builtin.name,
                             names.size(),
                             args.positional.size()));
  }
  values_.resize(names.size());
  std::copy(args.positional.begin(), args.positional.end(), values_.begin());
  for (const auto& [name, value] : args.named) {
    const auto hit = std::find(names.begin(), names.end(), name);
    if (hit == names.end()) {
      sandbox.fail(fmt::format("{}() got an unexpected keyword argument '{}'", builtin.name, name));
    }
    auto& slot = values_[static_cast<size_t>(hit - names.begin())];
    if (slot.has_value()) {
      sandbox.fail(fmt::format("{}() got multiple values for argument '{}'", builtin.name, name));
    }
    slot = value;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!values_[i].has_value()) {
      sandbox.fail(fmt::format("{}() is missing its argument '{}'", builtin.name, names[i]));
    }
  }
}

Value call(Sandbox& sandbox, const Builtin& builtin, const Value& subject, const Args& args) {
  sandbox.charge();
  return builtin.function(sandbox, subject, Bound(sandbox, builtin, args));
}

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto hit =
      std::find_if(table.begin(), table.end(), [&](const Builtin& b) { return b.name == name; });
  return hit == table.end() ? nullptr : &*hit;
}

std::string no_filter_message(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kRefused = {"filesizeformat",
                                                               "pprint",
                                                               "random",
                                                               "striptags",
                                                               "urlencode",
                                                               "urlize",
                                                               "wordwrap",
                                                               "xmlattr",
                                                               "groupby"};
  if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end()) {
    return fmt::format("the filter '{}' is not supported by this engine", name);
  }
  return fmt::format("No filter named '{}'.", name);
}

}  // namespace reprise::chat_template
