#include "reprise/config/custom_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"

namespace reprise::config {
namespace {

bool lists(std::span<const std::string> custom_ops, std::string_view item) {
  return std::find(custom_ops.begin(), custom_ops.end(), item) != custom_ops.end();
}

}  // namespace

void check_custom_ops(std::span<const std::string> custom_ops) {
  for (const std::string& item : custom_ops) {
    const bool is_base = item == "all" || item == "none";
    const bool is_op = item.size() > 1 && (item[0] == '+' || item[0] == '-');
    if (!is_base && !is_op) {
      throw InvalidArgument(fmt::format(
          "custom_ops: expected \"all\", \"none\", \"+name\" or \"-name\", got \"{}\"", item));
    }
    if (item[0] == '+' && lists(custom_ops, fmt::format("-{}", item.substr(1)))) {
      throw InvalidArgument(
          fmt::format("custom_ops: cannot both enable and disable {} (\"+{}\" and \"-{}\")",
                      item.substr(1),
                      item.substr(1),
                      item.substr(1)));
    }
  }
  if (lists(custom_ops, "all") && lists(custom_ops, "none")) {
    throw InvalidArgument("custom_ops: \"all\" and \"none\" are both listed; keep one base mode");
  }
}

bool enables_custom_op(std::span<const std::string> custom_ops, std::string_view op) {
  if (lists(custom_ops, fmt::format("+{}", op))) return true;
  return lists(custom_ops, "all") && !lists(custom_ops, fmt::format("-{}", op));
}

void append_default_base_mode(std::vector<std::string>& custom_ops, bool compiler_generates_ops) {
  if (lists(custom_ops, "all") || lists(custom_ops, "none")) return;
  custom_ops.emplace_back(compiler_generates_ops ? "none" : "all");
}

}  // namespace reprise::config
