#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/exit_codes.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/manual.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cli/terminal.h"
#include "reprise/cli/version.h"

namespace {

using reprise::cli::environment_variables;
using reprise::cli::ExitCode;
using reprise::cli::kExitCodes;
using reprise::cli::kOptionVariables;
using reprise::cli::run_bench;
using reprise::cli::run_chat;
using reprise::cli::run_collect_env;
using reprise::cli::run_complete;
using reprise::cli::run_completion;
using reprise::cli::run_dump;
using reprise::cli::run_eval;
using reprise::cli::run_explain;
using reprise::cli::run_generate;
using reprise::cli::run_graph;
using reprise::cli::run_pull;
using reprise::cli::run_reference;
using reprise::cli::run_replay;
using reprise::cli::run_run_batch;
using reprise::cli::run_serve;
using reprise::cli::run_tune;
using reprise::cli::Variable;

struct Command {
  std::string_view name;
  std::string_view help;
  int (*run)(std::span<const std::string>);
};

int show_manual(std::span<const std::string> arguments);

constexpr std::array kCommands = {
    Command{"generate", "Text from a prompt, streamed.", run_generate},
    Command{"serve", "The OpenAI API over HTTP, as vLLM serves it.", run_serve},
    Command{"pull", "Download a model into the Hugging Face cache.", run_pull},
    Command{"bench", "Measure: serve, sweep, latency, throughput, startup, modes.", run_bench},
    Command{"run-batch", "A file of requests in OpenAI's batch format.", run_run_batch},
    Command{"chat", "Talk to the model of a running server.", run_chat},
    Command{"complete", "Let a running server continue a text.", run_complete},
    Command{"dump",
            "What the compiler makes of a model: pieces, passes, launches, as text or page.",
            run_dump},
    Command{"eval", "Exact match on word problems, per mode.", run_eval},
    Command{"explain",
            "Which level, mode, sizes, which graph for which batch, and why. Loads nothing unless "
            "asked.",
            run_explain},
    Command{
        "graph", "Look into graphs: show, diff, and bisect for the first wrong node.", run_graph},
    Command{"replay", "Repeat the answers of --replay-log, and compare bit by bit.", run_replay},
    Command{"tune",
            "Measure which kernel is fastest for each matrix product on this GPU, once.",
            run_tune},
    Command{"collect-env",
            "What a bug report needs to know about this machine and build.",
            run_collect_env},
    Command{"completion",
            "A script that completes commands and options in bash, zsh or fish.",
            run_completion},
    Command{"man", "The manual page of a command: reprise man serve | man -l -", show_manual},
    Command{
        "reference", "Pages of the documentation that the program writes itself.", run_reference},
};

/// Prints a name in a column of `columns` characters, and its help beside it.
void print_entry(std::string_view name, std::string_view help, size_t columns) {
  const std::string begin = fmt::format("  {:<{}} ", name, columns);
  fmt::print("{}{}\n",
             begin,
             reprise::cli::wrap(help, begin.size(), columns + 3, reprise::cli::help_width()));
}

void print_help() {
  fmt::print(
      "Reprise {}: an LLM engine that replays captured graphs.\n\nusage: reprise COMMAND "
      "[options]\n\n",
      reprise::cli::kVersion);
  for (const Command& command : kCommands) print_entry(command.name, command.help, 11);
  fmt::print(
      "\n  --help     This text; reprise COMMAND --help for a command's options.\n"
      "  --version  Version and what this CPU can do.\n\nEnvironment:\n");
  print_entry("REPRISE_ARG_<OPTION>", kOptionVariables, 30);
  for (const Variable& variable : environment_variables()) {
    print_entry(variable.name, variable.help, 30);
  }
  fmt::print("\nExit codes:\n");
  for (const ExitCode& code : kExitCodes) print_entry(std::to_string(code.value), code.help, 2);
}

void print_manual() {
  reprise::cli::ManualPage page("reprise COMMAND [options]",
                                "an LLM engine that replays captured graphs. reprise man COMMAND "
                                "shows the page of a command.");
  page.add_section("Commands");
  for (const Command& command : kCommands) page.add_entry(command.name, command.help);
  page.add_section("Environment");
  page.add_entry("REPRISE_ARG_<OPTION>", kOptionVariables);
  for (const Variable& variable : environment_variables())
    page.add_entry(variable.name, variable.help);
  page.add_section("Exit status");
  for (const ExitCode& code : kExitCodes) page.add_entry(std::to_string(code.value), code.help);
  fmt::print("{}", page.text());
}

void print_completions() {
  for (const Command& command : kCommands) fmt::print("{}\t\t{}\n", command.name, command.help);
  fmt::print(
      "--help\t\tCommands and environment.\n--version\t\tVersion and what this CPU can do.\n");
}

int dispatch(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help" || arguments[0].starts_with("--help=")) {
    if (!arguments.empty() && arguments[0] == "--help=format:man") {
      print_manual();
    } else if (!arguments.empty() && arguments[0] == "--help=format:completion") {
      print_completions();
    } else {
      print_help();
    }
    return arguments.empty() ? 2 : 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "-V") {
    fmt::print("{}\n", reprise::cli::version_text());
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (command.name == arguments[0]) {
      // A wrong level is an error of every command, except the one that reports the environment.
      if (command.run != run_collect_env) (void)reprise::cli::log_level_of_environment();
      return command.run(arguments.subspan(1));
    }
    names.push_back(command.name);
  }
  throw reprise::InvalidArgument(fmt::format("unknown command '{}'{}; reprise --help lists them",
                                             arguments[0],
                                             reprise::did_you_mean(arguments[0], names)));
}

int show_manual(std::span<const std::string> arguments) {
  if (reprise::cli::OptionTable::asks_for_help(arguments)) {
    fmt::print(
        "{}",
        reprise::cli::OptionTable("reprise man [COMMAND ...]",
                                  "Writes a manual page for man(1): reprise man serve | man -l -")
            .help_text(arguments));
    return 0;
  }
  std::vector<std::string> words(arguments.begin(), arguments.end());
  words.emplace_back("--help=format:man");
  return dispatch(words);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that closes the pipe early (head, a pager) must not kill the program.
  std::signal(SIGPIPE, SIG_IGN);
  // A file that grows beyond `ulimit -f` is then an error of its write, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  reprise::cli::open_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const int code = dispatch(arguments);
    // An earlier flush may have failed, so the state of the stream is checked too.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    reprise::cli::print_message(reprise::LogLevel::error,
                                "reprise: the result could not be written to standard output\n");
    return code == 0 ? 1 : code;
  } catch (const reprise::InvalidArgument& error) {
    reprise::cli::print_message(reprise::LogLevel::error,
                                fmt::format("reprise: {}\n", error.what()));
    return 2;
  } catch (const std::exception& error) {
    reprise::cli::print_message(reprise::LogLevel::error,
                                fmt::format("reprise: {}\n", error.what()));
    return 1;
  }
}
