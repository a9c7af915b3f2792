#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/exit_codes.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/vllm_flags.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::cli {
namespace {

std::string environment_page() {
  std::string text = "| variable | meaning | option |\n|---|---|---|\n";
  text += fmt::format("| `REPRISE_ARG_<OPTION>` | {} | every |\n", kOptionVariables);
  for (const Variable& variable : environment_variables()) {
    text += fmt::format("| `{}` | {} | {} |\n",
                        variable.name,
                        variable.help,
                        variable.option.empty() ? "" : fmt::format("`--{}`", variable.option));
  }
  return text;
}

std::string exit_codes_page() {
  std::string text = "| code | meaning |\n|---|---|\n";
  for (const ExitCode& code : kExitCodes)
    text += fmt::format("| {} | {} |\n", code.value, code.help);
  return text;
}

// vLLM's flags that are options of this program are in the list of options instead.
std::string vllm_flags_page() {
  const OptionTable serve = serve_options();
  std::string text = "| flag | here | why |\n|---|---|---|\n";
  for (const VllmFlag& flag : vllm_flags()) {
    const Option* option = serve.find(flag.name);
    if (option != nullptr && option->group != kVllmFlagsGroup) continue;
    std::string support = "no effect";
    if (flag.support == VllmFlagSupport::only_equal) {
      support = flag.equal.empty() ? "refused" : "only";
      for (std::string_view rest = flag.equal; !rest.empty();) {
        const size_t bar = std::min(rest.find('|'), rest.size());
        support += fmt::format(" `{}`", rest.substr(0, bar));
        rest.remove_prefix(std::min(bar + 1, rest.size()));
      }
    }
    text += fmt::format("| `--{}`{} | {} | {} |\n",
                        flag.name,
                        flag.short_name.empty() ? "" : fmt::format(", `{}`", flag.short_name),
                        support,
                        flag.why);
  }
  return text;
}

std::string architectures_page() {
  std::string text = "| architecture | model_type |\n|---|---|\n";
  for (const weights::Architecture architecture : weights::kAllArchitectures) {
    text += fmt::format("| `{}` | `{}` |\n",
                        weights::architecture_name(architecture),
                        weights::model_type_name(architecture));
  }
  return text;
}

/// A cell of a table: a bar would end it, and code keeps everything else.
std::string code_cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return fmt::format("`{}`", escaped);
}

std::string tool_parsers_page() {
  std::string text =
      "| `--tool-call-parser` | models | a call in the model's text |\n|---|---|---|\n";
  for (const output_parsers::ToolParserInfo& parser : output_parsers::tool_parsers())
    text += fmt::format("| `{}` | {} | {} |\n", parser.name, parser.models, code_cell(parser.form));
  return text;
}

std::string reasoning_parsers_page() {
  std::string text = "| `--reasoning-parser` | models | begin | end |\n|---|---|---|---|\n";
  for (const output_parsers::ReasoningFormat& format : output_parsers::reasoning_formats()) {
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n",
                    format.name,
                    format.models,
                    format.has_channels ? "channel `analysis`" : code_cell(format.starts.front()),
                    format.has_channels ? "channel `final`" : code_cell(format.ends.front()));
  }
  return text;
}

struct Page {
  std::string_view name;
  std::string (*make)();
};
constexpr std::array kPages = {
    Page{"environment", environment_page},
    Page{"exit-codes", exit_codes_page},
    Page{"vllm-flags", vllm_flags_page},
    Page{"architectures", architectures_page},
    Page{"tool-parsers", tool_parsers_page},
    Page{"reasoning-parsers", reasoning_parsers_page},
};

std::vector<std::string_view> page_names() {
  std::vector<std::string_view> names;
  for (const Page& page : kPages) names.push_back(page.name);
  return names;
}

}  // namespace

int run_reference(std::span<const std::string> arguments) {
  const OptionTable table(fmt::format("reprise reference {}", fmt::join(page_names(), "|")),
                          "Tables in Markdown, from the same lists that the program works with.");
  if (OptionTable::asks_for_help(arguments)) {
    fmt::print("{}", table.help_text(arguments));
    return 0;
  }
  const std::vector<std::string> positional = table.parse(arguments);
  for (const Page& page : kPages) {
    if (positional.size() == 1 && positional[0] == page.name) {
      fmt::print("{}", page.make());
      return 0;
    }
  }
  throw InvalidArgument(fmt::format("reference needs one of {}", fmt::join(page_names(), ", ")));
}

}  // namespace reprise::cli
