#include "reprise/cli/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::cli {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool contains_ignoring_case(std::string_view text, std::string_view word) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), [&](char a, char b) {
           return lower(a) == lower(b);
         }) != text.end();
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
  parts.name = std::string(argument);
  return parts;
}

}  // namespace

void OptionTable::add(Option option) { options_.push_back(std::move(option)); }

void OptionTable::add_switch(std::string name, std::string group, std::string help, bool& target) {
  add({.name = std::move(name),
       .group = std::move(group),
       .help = std::move(help),
       .default_text = target ? "on" : "off",
       .apply = [&target](std::string_view value) { target = value == "true"; }});
}

void OptionTable::add_integer(std::string name, std::string group, std::string help, int32_t& target) {
  std::string flag = "--" + name;
  add({.name = std::move(name),
       .group = std::move(group),
       .value_name = "N",
       .help = std::move(help),
       .default_text = std::to_string(target),
       .apply = [&target, flag](std::string_view value) {
         const int64_t number = parse_human_integer(flag, value);
         if (number < std::numeric_limits<int32_t>::min() || number > std::numeric_limits<int32_t>::max()) {
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

const Option* OptionTable::find(std::string_view name) const {
  const auto matches = [name](const Option& option) {
    if (name.starts_with("--")) return with_dashes(name.substr(2)) == option.name;
    return !option.short_name.empty() && name == option.short_name;
  };
  const auto found = std::find_if(options_.begin(), options_.end(), matches);
  return found == options_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionTable::parse(std::span<const std::string> arguments) const {
  std::vector<std::string> positional;
  bool options_ended = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (options_ended || argument == "-" || !argument.starts_with('-')) {
      positional.push_back(argument);
      continue;
    }
    if (argument == "--") {
      options_ended = true;
      continue;
    }
    SplitArgument parts = split(argument);
    const Option* option = find(parts.name);
    if (option == nullptr && parts.name.starts_with("--no-")) {
      option = find("--" + parts.name.substr(5));
      if (option != nullptr && option->value_name.empty() && !parts.has_value) {
        option->apply("false");
        continue;
      }
      option = nullptr;
    }
    // "-O2" is written without a space.
    if (option == nullptr && argument.size() > 2 && !argument.starts_with("--")) {
      option = find(argument.substr(0, 2));
      if (option != nullptr) parts = {.name = parts.name, .value = std::string_view(argument).substr(2), .has_value = true};
    }
    if (option == nullptr) refuse(argument);
    if (!parts.path.empty() && !option->apply_dotted) refuse(argument);
    if (option->value_name.empty()) {
      if (parts.has_value && parts.value != "true" && parts.value != "false") {
        throw InvalidArgument(fmt::format("--{}: is a switch; '{}' is not true or false", option->name, parts.value));
      }
      option->apply(parts.has_value ? parts.value : "true");
      continue;
    }
    if (!parts.has_value) {
      if (i + 1 >= arguments.size()) {
        throw InvalidArgument(fmt::format("--{}: needs a value ({})", option->name, option->value_name));
      }
      parts.value = arguments[++i];
    }
    if (parts.path.empty()) {
      option->apply(parts.value);
    } else {
      option->apply_dotted(parts.path, parts.value);
    }
  }
  return positional;
}

void OptionTable::refuse(std::string_view argument) const {
  const SplitArgument parts = split(argument);
  std::vector<std::string_view> names;
  for (const Option& option : options_) names.push_back(option.name);
  const size_t dashes = parts.name.find_first_not_of('-');
  const std::string_view bare = dashes == std::string::npos ? "" : std::string_view(parts.name).substr(dashes);
  const std::string_view nearest = nearest_name(bare, names);
  throw InvalidArgument(fmt::format("unknown option {}{}; --help=all lists every option",
                                    argument,
                                    nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
}

bool OptionTable::asks_for_help(std::span<const std::string> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument == "-h" || argument == "--help" || argument.starts_with("--help=");
  });
}

std::string OptionTable::describe(const Option& option) const {
  std::string flag = "--" + option.name;
  if (!option.short_name.empty()) flag = option.short_name + ", " + flag;
  if (!option.value_name.empty()) flag += " " + option.value_name;
  std::string text = fmt::format("  {:<36} {}", flag, option.help);
  if (!option.default_text.empty()) text += fmt::format(" [{}]", option.default_text);
  return text + "\n";
}

std::string OptionTable::help_text(std::span<const std::string> arguments) const {
  std::string word;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--help=")) word = argument.substr(7);
  }
  std::vector<std::string> groups;
  for (const Option& option : options_) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  std::string text = fmt::format("usage: {}\n\n{}\n", usage_, summary_);
  if (word.empty()) {
    text += "\nOption groups (--help=GROUP, --help=OPTION or --help=WORD shows more, --help=all everything):\n";
    for (const std::string& group : groups) {
      std::string names;
      for (const Option& option : options_) {
        if (option.group == group) names += " --" + option.name;
      }
      text += fmt::format("  {}:{}\n", group, names);
    }
    return text;
  }
  bool found = false;
  for (const std::string& group : groups) {
    std::string lines;
    for (const Option& option : options_) {
      const bool wanted = word == "all" || contains_ignoring_case(group, word) ||
                          contains_ignoring_case(option.name, with_dashes(word)) ||
                          contains_ignoring_case(option.help, word);
      if (option.group == group && wanted) lines += describe(option);
    }
    if (lines.empty()) continue;
    found = true;
    text += fmt::format("\n{}:\n{}", group, lines);
  }
  if (!found) text += fmt::format("\nNothing matches '{}'.\n", word);
  return text;
}

int64_t parse_human_integer(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  int64_t factor = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k': factor = 1000; break;
      case 'K': factor = 1024; break;
      case 'm': factor = 1'000'000; break;
      case 'M': factor = 1024 * 1024; break;
      case 'g': factor = 1'000'000'000; break;
      case 'G': factor = int64_t{1024} * 1024 * 1024; break;
      default: break;
    }
    if (factor != 1) digits.remove_suffix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double scaled = value * static_cast<double>(factor);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size() &&
                        std::abs(scaled) < 9e15 && std::floor(scaled) == scaled;
  if (!is_whole) {
    throw InvalidArgument(fmt::format(
        "{}: '{}' is not a whole number (1k = 1000, 1K = 1024, 1M = 1048576 work too)", option, text));
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
