#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::cli {

/// One point on one axis of a grid: a name, and the arguments that it adds to the command.
struct SweepPoint {
  std::string name;
  std::vector<std::string> arguments;
};

/// Reads a JSON array of objects, or an object of named objects, from a file or from the text
/// itself. Members are options: {"max_num_seqs": 8} adds --max-num-seqs 8, true and false are
/// switches, and other values are passed on as JSON. An empty text gives one point that adds
/// nothing. \throws InvalidArgument naming `option`
[[nodiscard]] std::vector<SweepPoint> parse_sweep_points(std::string_view option,
                                                         const std::string& text);

/// Splits a command line into words by the shell's rules for spaces, quotes and backslashes,
/// without expansion. \throws InvalidArgument naming `option` when a quote is not closed
[[nodiscard]] std::vector<std::string> split_words(std::string_view option, std::string_view text);

}  // namespace reprise::cli
