#include "reprise/cli/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/config_file.h"
#include "reprise/cli/log_environment.h"

namespace reprise::cli {
namespace {

struct Request {
  std::filesystem::path config;
  bool dumps = false;
};

void add_configuration_options(OptionTable& table, Request& request) {
  constexpr const char* kGroup = "Configuration";
  table.add({.name = "config",
             .group = kGroup,
             .value_name = "FILE",
             .help = "YAML file with long option names as keys; the command line and the "
                     "environment have priority over it.",
             .apply = [&request](std::string_view value) { request.config = value; }});
  table.add_switch("dump-config",
                   kGroup,
                   "Print the resulting value of each option and its source, as YAML that --config "
                   "reads; do nothing else.",
                   request.dumps);
}

// Options about the configuration itself (--config, --dump-config) are applied here and removed.
void take_request(std::vector<Assignment>& assignments) {
  std::erase_if(assignments, [](const Assignment& assignment) {
    const std::string& name = assignment.option->name;
    if (name != "config" && name != "dump-config") return false;
    OptionTable::apply(assignment);
    return true;
  });
}

// Merges the sources in the order of application: the strongest source is applied last.
std::vector<Assignment> merge(std::array<std::vector<Assignment>, 3> sources) {
  std::vector<Assignment> merged;
  for (size_t source = 0; source < sources.size(); ++source) {
    for (Assignment& assignment : sources[source]) {
      const Option* option = assignment.option;
      const auto names_it = [option](const Assignment& other) { return other.option == option; };
      const bool is_overridden =
          !option->apply_dotted && !option->adds_up &&
          std::any_of(
              sources.begin() + static_cast<ptrdiff_t>(source) + 1,
              sources.end(),
              [&](const auto& later) { return std::any_of(later.begin(), later.end(), names_it); });
      if (!is_overridden) merged.push_back(std::move(assignment));
    }
  }
  return merged;
}

std::vector<const Assignment*> given(std::span<const Assignment> assignments,
                                     const Option& option) {
  std::vector<const Assignment*> found;
  for (const Assignment& assignment : assignments) {
    if (assignment.option == &option) found.push_back(&assignment);
  }
  return found;
}

std::string origins(std::span<const Assignment* const> assignments) {
  std::vector<std::string> places;
  for (const Assignment* assignment : assignments) {
    if (std::find(places.begin(), places.end(), assignment->where) == places.end()) {
      places.push_back(assignment->where);
    }
  }
  return fmt::format("{}", fmt::join(places, ", "));
}

std::string yaml_value(const Option& option, std::span<const Assignment* const> assignments) {
  if (option.merged) return option.merged();
  if (option.value_name.empty()) {
    return parse_switch("--" + option.name, assignments.back()->value) ? "true" : "false";
  }
  if (assignments.size() == 1) return to_yaml_scalar(assignments[0]->value);
  std::vector<std::string> items;
  for (const Assignment* assignment : assignments)
    items.push_back(to_yaml_scalar(assignment->value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::string Configuration::to_yaml() const {
  std::string text =
      fmt::format("# {}\n# command line > environment > --config > default\n", table_.usage());
  std::string group;
  for (const Option& option : table_.options()) {
    if (option.name == "config" || option.name == "dump-config") continue;
    const std::vector<const Assignment*> values = given(assignments_, option);
    if (values.empty() && !option.is_listed) continue;
    if (option.group != group) text += fmt::format("\n# {}\n", group = option.group);
    if (values.empty()) {
      text += fmt::format("# {}: {}  # default\n", option.name, option.default_text);
    } else if (option.is_secret) {
      text += fmt::format("# {}: (hidden)  # {}\n", option.name, origins(values));
    } else {
      text +=
          fmt::format("{}: {}  # {}\n", option.name, yaml_value(option, values), origins(values));
    }
  }
  return text;
}

std::string Configuration::to_line() const {
  Json line = Json::object();
  for (const Option& option : table_.options()) {
    const std::vector<const Assignment*> values = given(assignments_, option);
    if (values.empty()) continue;
    if (option.is_secret) {
      line[option.name] = "(hidden)";
    } else if (option.merged) {
      line[option.name] = Json::parse(option.merged());
    } else if (values.size() == 1) {
      line[option.name] = values[0]->value;
    } else {
      for (const Assignment* value : values) line[option.name].push_back(value->value);
    }
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Configuration> configure(const OptionTable& table,
                                       std::span<const std::string> arguments,
                                       const LookUpVariable& look_up) {
  Request request;
  Configuration configuration(table);
  const OptionTable& all = configuration.table_;
  add_configuration_options(configuration.table_, request);
  if (OptionTable::asks_for_help(arguments)) {
    fmt::print("{}", all.help_text(arguments));
    return std::nullopt;
  }
  ScannedArguments scanned = all.scan(arguments);
  take_request(scanned.assignments);
  configuration.positional_ = std::move(scanned.positional);
  if (const Option* model = all.find("model");
      model != nullptr && !configuration.positional_.empty()) {
    scanned.assignments.push_back(
        {.option = model, .value = configuration.positional_[0], .where = "command line"});
  }
  std::vector<Assignment> file;
  configuration.file_ = request.config;
  if (!request.config.empty()) file = read_config_file(all, request.config);
  configuration.assignments_ =
      merge({std::move(file), read_environment(all, look_up), std::move(scanned.assignments)});
  std::ranges::stable_partition(configuration.assignments_, [](const Assignment& assignment) {
    return assignment.option->comes_first;
  });
  for (const Assignment& assignment : configuration.assignments_) OptionTable::apply(assignment);
  for (const std::string& message :
       unknown_option_variables(all, serve_options(), process_environment_names())) {
    print_log(LogLevel::warning, "warning: {}\n", message);
  }
  if (request.dumps) {
    fmt::print("{}", configuration.to_yaml());
    return std::nullopt;
  }
  return configuration;
}

}  // namespace reprise::cli
