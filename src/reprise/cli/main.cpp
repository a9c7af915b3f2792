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
#include "reprise/cli/version.h"

namespace {

using reprise::cli::run_bench;
using reprise::cli::run_chat;
using reprise::cli::run_complete;
using reprise::cli::run_dump;
using reprise::cli::run_eval;
using reprise::cli::run_explain;
using reprise::cli::run_generate;
using reprise::cli::run_run_batch;
using reprise::cli::run_serve;

struct Command {
  std::string_view name;
  std::string_view help;
  int (*run)(std::span<const std::string>);
};

constexpr std::array kCommands = {
    Command{"generate", "Text from a prompt, streamed.", run_generate},
    Command{"serve", "The OpenAI API over HTTP, as vLLM serves it.", run_serve},
    Command{"bench", "Measure: serve, sweep, latency, throughput, startup, modes.", run_bench},
    Command{"run-batch", "A file of requests in OpenAI's batch format.", run_run_batch},
    Command{"chat", "Talk to the model of a running server.", run_chat},
    Command{"complete", "Have a running server go on with a text.", run_complete},
    Command{"dump", "What the compiler makes of a model: pieces, passes, launches, as text or page.", run_dump},
    Command{"eval", "Exact match on word problems, per mode.", run_eval},
    Command{"explain", "Which level, mode, sizes, which graph for which batch, and why. Loads nothing unless asked.", run_explain},
};

struct Variable {
  std::string_view name;
  std::string_view help;
};

// All that the program looks at; a test compares this list with the source.
constexpr std::array kEnvironment = {
    Variable{"REPRISE_CACHE_ROOT", "Folder for compiled programs; --compile-cache-root comes first."},
    Variable{"XDG_CACHE_HOME", "If neither is given: $XDG_CACHE_HOME/reprise/compile_cache."},
    Variable{"HOME", "If that is not an absolute path: $HOME/.cache/reprise/compile_cache; else nowhere."},
    Variable{"REPRISE_DISABLE_COMPILE_CACHE", "1 or true: as --disable-compile-cache."},
    Variable{"VLLM_DISABLE_COMPILE_CACHE", "The same by vLLM's name."},
    Variable{"REPRISE_API_KEY", "serve: one more --api-key."},
    Variable{"VLLM_API_KEY", "The same by vLLM's name."},
    Variable{"OPENAI_API_KEY", "Key that bench serve, chat and complete send."},
};

void print_help() {
  fmt::print("Reprise {}: an LLM engine that replays captured graphs.\n\nusage: reprise COMMAND [options]\n\n",
             reprise::cli::kVersion);
  for (const Command& command : kCommands) fmt::print("  {:<10} {}\n", command.name, command.help);
  fmt::print("\n  --help     This text; reprise COMMAND --help for a command's options.\n"
             "  --version  Version and what this CPU can do.\n\nEnvironment:\n");
  for (const Variable& variable : kEnvironment) {
    fmt::print("  {:<30} {}\n", variable.name, variable.help);
  }
}

int dispatch(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return arguments.empty() ? 2 : 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "-V") {
    fmt::print("{}\n", reprise::cli::version_text());
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (command.name == arguments[0]) return command.run(arguments.subspan(1));
    names.push_back(command.name);
  }
  throw reprise::InvalidArgument(fmt::format("unknown command '{}'{}; reprise --help lists them",
                                             arguments[0],
                                             reprise::did_you_mean(arguments[0], names)));
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that went away (head, a closed pager) is not a crash.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const int code = dispatch(arguments);
    return std::fflush(stdout) == 0 ? code : 1;
  } catch (const reprise::InvalidArgument& error) {
    fmt::print(stderr, "reprise: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "reprise: {}\n", error.what());
    return 1;
  }
}
