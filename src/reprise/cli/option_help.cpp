// The help of an option table: as text for people, and as JSON, a manual page or a list of
// completions.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "reprise/base/json.h"
#include "reprise/cli/manual.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/terminal.h"

namespace reprise::cli {
namespace {

bool contains_ignoring_case(std::string_view text, std::string_view word) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), [&](char a, char b) {
           return lower(a) == lower(b);
         }) != text.end();
}

std::string flags_of(const Option& option) {
  std::string flag = "--" + option.name;
  if (!option.short_name.empty()) flag = option.short_name + ", " + flag;
  if (!option.value_name.empty()) flag += " " + option.value_name;
  return flag;
}

std::string help_of(const Option& option) {
  return option.default_text.empty() ? option.help
                                     : fmt::format("{} [{}]", option.help, option.default_text);
}

std::vector<std::string> groups_of(std::span<const Option> options) {
  std::vector<std::string> groups;
  for (const Option& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

std::string group_list(std::span<const Option> options) {
  std::string text =
      "\nOption groups (--help=GROUP, --help=OPTION or --help=WORD shows more, --help=all "
      "everything):\n";
  for (const std::string& group : groups_of(options)) {
    std::string names;
    for (const Option& option : options) {
      if (option.group == group) names += " --" + option.name;
    }
    const std::string line = fmt::format("  {}:{}", group, names);
    text += "  " + wrap(std::string_view(line).substr(2), 2, 6, help_width()) + "\n";
  }
  return text;
}

// Flags on the left and help on the right; on a narrow terminal the help comes below the flags.
std::string entry(const Option& option) {
  constexpr size_t kHelpColumn = 39;
  const size_t width = help_width();
  const bool is_narrow = width < 2 * kHelpColumn;
  const size_t indent = is_narrow ? 6 : kHelpColumn;
  std::string text = fmt::format("  {:<36} ", flags_of(option));
  if (is_narrow) text = fmt::format("  {}\n{:6}", flags_of(option), "");
  const size_t column = is_narrow ? indent : text.size();
  return text + wrap(help_of(option), column, indent, width) + "\n";
}

std::string matching(std::span<const Option> options, std::string_view word) {
  std::string dashed(word);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  std::string text;
  for (const std::string& group : groups_of(options)) {
    std::string lines;
    for (const Option& option : options) {
      const bool wanted = word == "all" || contains_ignoring_case(group, word) ||
                          contains_ignoring_case(option.name, dashed) ||
                          contains_ignoring_case(option.help, word);
      if (option.group == group && wanted) {
        lines += entry(option);
      }
    }
    if (!lines.empty()) text += fmt::format("\n{}:\n{}", group, lines);
  }
  return text.empty() ? fmt::format("\nNothing matches '{}'.\n", word) : text;
}

std::string json_text(const OptionTable& table) {
  Json document = {
      {"usage", table.usage()}, {"summary", table.summary()}, {"options", Json::array()}};
  for (const Option& option : table.listed_options()) {
    document["options"].push_back({{"name", option.name},
                                   {"short_name", option.short_name},
                                   {"group", option.group},
                                   {"value_name", option.value_name},
                                   {"help", option.help},
                                   {"default", option.default_text},
                                   {"choices", option.choices},
                                   {"example", option.example},
                                   {"dotted", static_cast<bool>(option.apply_dotted)},
                                   {"takes_several", option.takes_several}});
  }
  return document.dump(2) + "\n";
}

// One line per option: the flag, its value, its help. A switch also gets its --no- form.
std::string completion_lines(const OptionTable& table) {
  std::string text;
  for (const Option& option : table.listed_options()) {
    std::string value = option.value_name;
    if (!option.choices.empty()) value = fmt::format("={}", fmt::join(option.choices, ","));
    text += fmt::format("--{}\t{}\t{}\n", option.name, value, option.help);
    if (value.empty()) text += fmt::format("--no-{}\t\tNot --{}.\n", option.name, option.name);
    if (!option.short_name.empty()) {
      text += fmt::format("{}\t{}\t{}\n", option.short_name, value, option.help);
    }
  }
  return text + "--help\t\tOptions of this command.\n";
}

std::string manual_page(const OptionTable& table) {
  ManualPage page(table.usage(), table.summary());
  const std::vector<Option> options = table.listed_options();
  for (const std::string& group : groups_of(options)) {
    page.add_section(group);
    for (const Option& option : options) {
      if (option.group == group) page.add_entry(flags_of(option), help_of(option));
    }
  }
  page.add_section("Forms");
  page.add_paragraph(
      "--name value and --name=value are the same, _ in a name works as -, a switch has a --no- "
      "form, and numbers may be written as 2k (2000), 2K (2048) or 1M.");
  return page.text();
}

}  // namespace

bool OptionTable::asks_for_help(std::span<const std::string> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument == "-h" || argument == "--help" || argument.starts_with("--help=");
  });
}

std::string OptionTable::help_text(std::span<const std::string> arguments) const {
  std::string word;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--help=")) word = argument.substr(7);
  }
  if (word == "format:json") return json_text(*this);
  if (word == "format:completion") return completion_lines(*this);
  if (word == "format:man") return manual_page(*this);
  return fmt::format(
      "usage: {}\n\n{}\n{}",
      usage_,
      wrap(summary_, 0, 0, help_width()),
      word.empty() ? group_list(listed_options()) : matching(listed_options(), word));
}

}  // namespace reprise::cli
