#pragma once

#include <array>
#include <string_view>

namespace reprise::cli {

/// The meanings of the program's exit codes.
struct ExitCode {
  int value;
  std::string_view help;
};

inline constexpr std::array kExitCodes = {
    ExitCode{0, "Success; for serve: stopped by SIGTERM or SIGINT."},
    ExitCode{1, "Failure: of the machine, of a request, or of writing the result."},
    ExitCode{2, "A mistake in the arguments, the environment, or a file that they name."},
};

}  // namespace reprise::cli
