#include "reprise/cli/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/python_literal.h"
#include "reprise/cli/foreign_flags.h"

namespace reprise::cli {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// An argument cut into its parts: --name[.path][=value]
struct SplitArgument {
  std::string name;
  std::string_view path;
  std::string_view value;
  bool has_value = false;
};

SplitArgument split(std::string_view argument) {
  SplitArgument parts;
  if (const size_t equals = argument.find('='); equals != std::string_view::npos) {
    parts.value = argument.substr(equals + 1);
    parts.has_value = true;
    argument = argument.substr(0, equals);
  }
  if (const size_t dot = argument.find('.'); dot != std::string_view::npos) {
    parts.path = argument.substr(dot + 1);
    argument = argument.substr(0, dot);
  }
  parts.name = with_dashes(argument);
  return parts;
}

void assign_member(Json& object,
                   std::string_view flag,
                   std::string_view path,
                   std::string_view value) {
  Json* node = &object;
  while (true) {
    const size_t dot = std::min(path.find('.'), path.size());
    if (dot == 0) throw InvalidArgument(fmt::format("{}: has an empty name in it", flag));
    if (!node->is_object()) throw InvalidArgument(fmt::format("{}: goes through a value", flag));
    node = &(*node)[std::string(path.substr(0, dot))];
    if (dot == path.size()) break;
    if (node->is_null()) *node = Json::object();
    path.remove_prefix(dot + 1);
  }
  *node = parse_json_or_text(value, flag);
}

}  // namespace

void OptionTable::add(Option option) { options_.push_back(std::move(option)); }

std::vector<Option> OptionTable::listed_options() const {
  std::vector<Option> listed;
  std::ranges::copy_if(options_, std::back_inserter(listed), &Option::is_listed);
  return listed;
}

void OptionTable::add_switch(std::string name, std::string group, std::string help, bool& target) {
  add({.name = std::move(name),
       .group = std::move(group),
       .help = std::move(help),
       .default_text = target ? "on" : "off",
       .apply = [&target](std::string_view value) { target = value == "true"; }});
}

void OptionTable::add_switch(std::string name,
                             std::string group,
                             std::string help,
                             std::string default_text,
                             std::optional<bool>& target) {
  add({.name = std::move(name),
       .group = std::move(group),
       .help = std::move(help),
       .default_text = std::move(default_text),
       .apply = [&target](std::string_view value) { target = value == "true"; }});
}

void OptionTable::add_integer(std::string name,
                              std::string group,
                              std::string help,
                              int32_t& target) {
  std::string flag = "--" + name;
  add({.name = std::move(name),
       .group = std::move(group),
       .value_name = "N",
       .help = std::move(help),
       .default_text = std::to_string(target),
       .apply = [&target, flag](std::string_view value) {
         const int64_t number = parse_human_integer(flag, value);
         if (number < std::numeric_limits<int32_t>::min() ||
             number > std::numeric_limits<int32_t>::max()) {
           throw InvalidArgument(fmt::format("{}: {} is out of range", flag, value));
         }
         target = static_cast<int32_t>(number);
       }});
}

void OptionTable::add_text(std::string name,
                           std::string group,
                           std::string value_name,
                           std::string help,
                           std::string& target) {
  add({.name = std::move(name),
       .group = std::move(group),
       .value_name = std::move(value_name),
       .help = std::move(help),
       .default_text = target,
       .apply = [&target](std::string_view value) { target = std::string(value); }});
}

void OptionTable::add_object(std::string name, std::string group, std::string help, Json& target) {
  const std::string flag = "--" + name;
  add({.name = std::move(name),
       .group = std::move(group),
       .value_name = "JSON",
       .help = std::move(help),
       .default_text = "{}",
       .apply =
           [&target, flag](std::string_view value) {
             const Json object = parse_json_or_python(value, flag);
             if (object.is_null()) {
               target = Json::object();
               return;
             }
             if (!object.is_object()) {
               throw InvalidArgument(
                   fmt::format("{}: expected a JSON object or null, got '{}'", flag, value));
             }
             target.update(object, true);
           },
       .apply_dotted =
           [&target, flag](std::string_view path, std::string_view value) {
             assign_member(target, fmt::format("{}.{}", flag, path), path, value);
           },
       .merged = [&target] { return target.dump(); },
       .example = "{}"});
}

const Option* OptionTable::find(std::string_view name) const {
  const auto found = std::find_if(
      options_.begin(), options_.end(), [wanted = with_dashes(name)](const Option& option) {
        return option.name == wanted;
      });
  return found == options_.end() ? nullptr : &*found;
}

const Option* OptionTable::find_flag(std::string_view flag) const {
  if (flag.starts_with("--")) return find(flag.substr(2));
  const auto found = std::find_if(options_.begin(), options_.end(), [flag](const Option& option) {
    return option.short_name == flag;
  });
  return found == options_.end() ? nullptr : &*found;
}

// Walks once over the arguments of a command line.
class OptionTable::Scanner {
 public:
  Scanner(const OptionTable& table, std::span<const std::string> arguments)
      : table_(table),
        arguments_(arguments),
        model_is_named_(
            std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
              return argument == "--model" || argument.starts_with("--model=");
            })) {}

  ScannedArguments scan() {
    bool options_ended = false;
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (options_ended || is_value(argument)) {
        scanned_.positional.push_back(argument);
      } else if (argument == "--") {
        options_ended = true;
      } else {
        scan_option(argument);
      }
    }
    return std::move(scanned_);
  }

 private:
  static bool is_value(const std::string& argument) {
    return argument == "-" || !argument.starts_with('-');
  }

  // "--served-model-name a b" takes both values, but not the MODEL argument if that is still
  // missing.
  [[nodiscard]] bool may_take_more(const std::string& argument) const {
    const bool is_number =
        std::all_of(argument.begin(), argument.end(), [](char c) { return c >= '0' && c <= '9'; });
    return is_value(argument) && (model_is_named_ || !scanned_.positional.empty() || is_number);
  }

  void scan_option(const std::string& argument) {
    SplitArgument parts = split(argument);
    const Option* option = table_.find_flag(parts.name);
    if (option == nullptr) {
      if (const Option* negated = find_negated(parts)) {
        give(*negated, parts, "false");
        return;
      }
    }
    // "-O2" is written without a space.
    if (option == nullptr && argument.size() > 2 && !argument.starts_with("--")) {
      option = table_.find_flag(argument.substr(0, 2));
      if (option != nullptr)
        parts = {
            .name = parts.name, .value = std::string_view(argument).substr(2), .has_value = true};
    }
    if (option == nullptr) table_.refuse(argument);
    const bool takes_member = option->apply_dotted || !option->object_option.empty();
    if (!parts.path.empty() && !takes_member) table_.refuse(argument);
    take_values(*option, parts);
  }

  // The switch that `--no-name` turns off; null if the argument is not of that form.
  [[nodiscard]] const Option* find_negated(const SplitArgument& parts) const {
    if (!parts.name.starts_with("--no-") || parts.has_value || !parts.path.empty()) return nullptr;
    const Option* option = table_.find(parts.name.substr(5));
    return option != nullptr && option->value_name.empty() ? option : nullptr;
  }

  void take_values(const Option& option, const SplitArgument& parts) {
    if (option.value_name.empty()) {
      give(option, parts, parts.has_value ? parts.value : "true");
      return;
    }
    if (!parts.has_value && next_ >= arguments_.size()) {
      throw InvalidArgument(
          fmt::format("--{}: needs a value ({})", option.name, option.value_name));
    }
    give(option, parts, parts.has_value ? parts.value : arguments_[next_++]);
    while (option.takes_several && next_ < arguments_.size() && may_take_more(arguments_[next_])) {
      give(option, parts, arguments_[next_++]);
    }
  }

  void give(const Option& option, const SplitArgument& parts, std::string_view value) {
    const bool is_of_object = !parts.path.empty() || value.starts_with('{');
    const bool is_redirected = is_of_object && !option.object_option.empty();
    scanned_.assignments.push_back(
        {.option = is_redirected ? table_.find(option.object_option) : &option,
         .path = std::string(parts.path),
         .value = std::string(value),
         .source = Source::command_line,
         .where = "command line"});
  }

  const OptionTable& table_;
  std::span<const std::string> arguments_;
  bool model_is_named_;
  size_t next_ = 0;  // index of the argument that is read next
  ScannedArguments scanned_;
};

ScannedArguments OptionTable::scan(std::span<const std::string> arguments) const {
  return Scanner(*this, arguments).scan();
}

void OptionTable::apply(const Assignment& assignment) {
  const Option& option = *assignment.option;
  try {
    if (!assignment.path.empty()) {
      option.apply_dotted(assignment.path, assignment.value);
    } else if (option.value_name.empty()) {
      option.apply(parse_switch("--" + option.name, assignment.value) ? "true" : "false");
    } else {
      option.apply(assignment.value);
    }
  } catch (const InvalidArgument& error) {
    if (assignment.source == Source::command_line) throw;
    throw InvalidArgument(fmt::format("{}: {}", assignment.where, error.what()));
  }
}

std::vector<std::string> OptionTable::parse(std::span<const std::string> arguments) const {
  ScannedArguments scanned = scan(arguments);
  for (const Assignment& assignment : scanned.assignments) apply(assignment);
  return std::move(scanned.positional);
}

std::string OptionTable::suggestion(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const Option& option : options_) names.push_back(option.name);
  const std::string_view nearest = nearest_name(name, names);
  return nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest);
}

void OptionTable::refuse(std::string_view argument) const {
  const SplitArgument parts = split(argument);
  const size_t dashes = std::min(parts.name.find_first_not_of('-'), parts.name.size());
  std::string_view bare = std::string_view(parts.name).substr(dashes);
  std::string hint = hint_for_foreign_flag(parts.name, *this);
  if (hint.empty()) hint = suggestion(bare);
  if (hint.empty() && bare.starts_with("no-")) hint = suggestion(bare.substr(3));
  throw InvalidArgument(
      fmt::format("unknown option {}{}; --help=all lists every option", argument, hint));
}

bool parse_switch(std::string_view option, std::string_view text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  throw InvalidArgument(fmt::format("{}: is a switch; '{}' is not true or false", option, text));
}

int64_t parse_human_integer(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  int64_t factor = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
        factor = 1000;
        break;
      case 'K':
        factor = 1024;
        break;
      case 'm':
        factor = 1'000'000;
        break;
      case 'M':
        factor = int64_t{1024} * 1024;
        break;
      case 'g':
        factor = 1'000'000'000;
        break;
      case 'G':
        factor = int64_t{1024} * 1024 * 1024;
        break;
      default:
        break;
    }
    if (factor != 1) digits.remove_suffix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double scaled = value * static_cast<double>(factor);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size() &&
                        std::abs(scaled) < 9e15 && std::floor(scaled) == scaled;
  if (!is_whole) {
    throw InvalidArgument(
        fmt::format("{}: '{}' is not a whole number (1k = 1000, 1K = 1024, 1M = 1048576 work too)",
                    option,
                    text));
  }
  return static_cast<int64_t>(scaled);
}

double parse_number(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    throw InvalidArgument(fmt::format("{}: '{}' is not a number", option, text));
  }
  return value;
}

}  // namespace reprise::cli
