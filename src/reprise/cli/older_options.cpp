#include "reprise/cli/older_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/python_literal.h"

namespace reprise::cli {
namespace {

constexpr const char* kOlderGroup = "Model";

constexpr auto kTasks = std::to_array<std::string_view>(
    {"auto", "generate", "embed", "embedding", "score", "classify", "reward"});

std::string runner_of_task(std::string_view task) {
  if (std::ranges::find(kTasks, task) == kTasks.end()) {
    throw InvalidArgument(fmt::format("--task: '{}' is not one of {}{}",
                                      task,
                                      fmt::join(kTasks, ", "),
                                      did_you_mean(task, kTasks)));
  }
  return task == "auto" || task == "generate" ? std::string(task) : "pooling";
}

}  // namespace

void add_older_options(OptionTable& table, api::EngineArgs& args) {
  table.add({.name = "task",
             .group = kOlderGroup,
             .value_name = "TASK",
             .help = "Older form of --runner: embed, score, classify and reward are pooling.",
             .default_text = "auto",
             .apply = [&args](std::string_view value) { args.runner = runner_of_task(value); },
             .choices = {kTasks.begin(), kTasks.end()}});
  table.add({.name = "rope-scaling",
             .group = kOlderGroup,
             .value_name = "JSON",
             .help = "Older form of --hf-overrides.rope_scaling.",
             .apply =
                 [&args](std::string_view value) {
                   const Json scaling = parse_json_or_python(value, "--rope-scaling");
                   if (scaling.is_null()) return;
                   if (!scaling.is_object()) {
                     throw InvalidArgument(
                         fmt::format("--rope-scaling: expected a JSON object, got {}", value));
                   }
                   args.hf_overrides["rope_scaling"] = scaling;
                 },
             .example = "null"});
  table.add({.name = "rope-theta",
             .group = kOlderGroup,
             .value_name = "X",
             .help = "Older form of --hf-overrides.rope_theta.",
             .apply = [&args](std::string_view value) {
               args.hf_overrides["rope_theta"] = parse_number("--rope-theta", value);
             }});
}

}  // namespace reprise::cli
